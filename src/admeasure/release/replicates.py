"""Models refitted to noise drawn anew: what the noise of a run does to anything computed from it.

A parametric bootstrap. The release's model is taken for the table: to its answers noise of each
measurement's scale is added, and a model is fitted to that by the rule of the release. As a
replicate is to the release's model, so, about, is this model to the table. What was measured stays
what it was: that noise also moved the choice is not in it, nor is what no measurement saw.

Released: nothing more. Replicates are a function of the release and of random numbers, pure
post-processing, and cost nothing; they are no measurements of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from admeasure.errors import UsageError
from admeasure.families import Model
from admeasure.families.graphical.family import GraphicalModel
from admeasure.measurement import Measurement
from admeasure.release.conditional import sample_where
from admeasure.schema import Schema
from admeasure.schema.inside import Inside
from admeasure.schema.rows import rows as spelled_rows

if TYPE_CHECKING:
    from admeasure.release.release import Release


@dataclass(frozen=True, eq=False)
class Replicate:
    """A model that the noise could as well have led to."""

    schema: Schema
    model: Model
    inside: Mapping[str, Inside] = field(default_factory=dict)

    def sample(
        self,
        rows: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Rows as those of the release without a search, as a dict of columns."""
        rng = np.random.default_rng(seed)
        codes = sample_where(self.model, self.schema, where or {}, rows, rng)
        return spelled_rows(self.schema, codes, rng, self.inside, as_texts=False)


def replicates(release: Release, m: int, rng: np.random.Generator) -> list[Replicate]:
    """`m` of them."""
    if m < 2:
        raise UsageError(f"The spread of replicates needs at least 2 of them; m is {m}.")
    model, log = release.model, release.measurements
    if not isinstance(model, GraphicalModel):
        raise UsageError(
            f"A model of kind {model.kind!r} cannot be fitted again from its release alone, and "
            "has no replicates. Fit with aim-plus --hand-over never, aim, mst, mwem-pgm, privbayes "
            "or independent."
        )
    tables = model.marginals([measured.query.columns for measured in log])
    answers = [np.asarray(q.query.answer(t), float) for q, t in zip(log, tables, strict=True)]
    options = release.certificate.options
    made = []
    for _ in range(m):
        again = [
            Measurement(old.query, a + old.sigma * rng.standard_normal(a.shape), old.sigma)
            for old, a in zip(log, answers, strict=True)
        ]
        refitted = model.refitted(again, options)
        made.append(Replicate(release.schema, refitted, release.inside))
    return made
