"""Rows of a release, as codes: drawn from its model, then searched, or with conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import UsageError
from admeasure.families import Codes
from admeasure.limits import Limits
from admeasure.release.conditional import Like, refuse_with_conditions, sample_like, sample_where
from admeasure.release.search import improve, is_quick, target_weights, targets_of

if TYPE_CHECKING:
    from admeasure.release.release import Release


class Sampling(TypedDict, total=False):
    """Which rows are asked for, besides how many: see `Release.sample`."""

    where: Mapping[str, Any] | None
    like: Like | None
    columns: Sequence[str] | None
    seed: int | None
    search: bool | None
    max_seconds: float | None


def draw(
    release: Release,
    rows: int | None,
    rng: np.random.Generator,
    asked: Sampling,
    tell: Callable[[float], None] = lambda part: None,
) -> Codes:
    """The rows that are asked for, with all their columns."""
    where, like, search = asked.get("where"), asked.get("like"), asked.get("search")
    count = release.rows if rows is None else rows
    if count < 0:
        raise UsageError(f"The number of rows must not be negative; it is {count}.")
    seconds = Limits(seconds=asked.get("max_seconds")).seconds
    model, schema = release.model, release.schema
    if where or like is not None:
        refuse_with_conditions(rows, where, like, search=search)
        if like is not None:
            return sample_like(model, schema, like, rng)
        return sample_where(model, schema, where or {}, rows, rng)
    codes = model.sample(count, rng)
    if not (searches(release, count) if search is None else search):
        return codes
    targets = targets_of(model, _weights(release), count, schema.zeros)
    return improve(codes, schema.domain, targets, rng, seconds=seconds, tell=tell)


def searches(release: Release, count: int) -> bool:
    """Whether this many rows are searched where nobody says, by public sizes alone: where it is
    quick, and they are at least a tenth of what the table has. Fewer searched rows would crowd
    where the table has most, and many such samples together would be no sample of it."""
    return 10 * count >= release.rows and is_quick(release.schema.domain, _weights(release), count)


def _weights(release: Release) -> dict[Columns, float]:
    measured = {measurement.query.columns for measurement in release.measurements}
    return target_weights(release.schema.domain, release.workload, measured)
