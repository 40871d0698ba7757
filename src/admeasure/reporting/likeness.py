"""Whether synthetic rows are like real ones: correlations of numbers, and combinations of values
that the release has and the private table never. NOT PRIVATE: reads true counts (`truth.py`).

A combination is *new* where no row of the table has it and the release expects at least half a row;
it is shown by itself only where every smaller part of it occurs in the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import UsageError
from admeasure.evaluation.errors import CountsOf
from admeasure.published import Published
from admeasure.schema import Schema
from admeasure.schema.zeros import level_ends

NUMERIC_SHOWN = 20
SHOWN = 20
EXPECTED = 0.5
"""Rows that the release expects of a combination that counts as one it has."""


@dataclass(frozen=True)
class CorrelationTruth:
    """Pearson's correlation of two columns in the table and in the release; values at the middle of
    their levels, without rows that lack one."""

    columns: tuple[str, str]
    true: float
    believed: float

    @property
    def apart(self) -> float:
        return abs(self.true - self.believed)


@dataclass(frozen=True)
class NewCombination:
    """Values that no row of the table has together, and how many rows of the release do."""

    where: tuple[tuple[str, str], ...]
    rows: float


@dataclass(frozen=True)
class NewInMarginal:
    """Of one marginal: how many combinations are new, the part of the release's rows in cells that
    the table has empty, and the largest new ones."""

    columns: Columns
    number: int
    share: float
    largest: tuple[NewCombination, ...]


def labelled(schema: Schema, columns: Columns, place: Iterable[int]) -> tuple[tuple[str, str], ...]:
    """A cell in words: its columns, each with its level."""
    return tuple((c, schema.column(c).labels[int(i)]) for c, i in zip(columns, place, strict=True))


def new_in(
    schema: Schema, columns: Columns, counts: np.ndarray, believed: np.ndarray
) -> NewInMarginal:
    """What is new in one marginal, from its true counts and the release's."""
    expected = np.where(counts == 0, np.maximum(believed, 0.0), 0.0)
    total = float(np.maximum(believed, 0.0).sum())
    new = expected >= EXPECTED
    parts_occur = np.ones(counts.shape, dtype=bool)
    for axis in range(counts.ndim if counts.ndim > 1 else 0):
        parts_occur &= np.asarray(counts.sum(axis=axis, keepdims=True) > 0)
    shown = np.argwhere(new & parts_occur)
    order = np.argsort(-expected[tuple(shown.T)], kind="stable")[:SHOWN]
    largest = tuple(
        NewCombination(labelled(schema, columns, place), float(expected[tuple(place)]))
        for place in shown[order]
    )
    share = float(expected.sum()) / total if total > 0 else 0.0
    return NewInMarginal(columns, int(new.sum()), share, largest)


def largest(found: Iterable[NewInMarginal]) -> tuple[NewCombination, ...]:
    """Of all marginals, most rows first."""
    every = [cell for one in found for cell in one.largest]
    return tuple(sorted(every, key=lambda c: (-c.rows, c.where))[:SHOWN])


def correlations(release: Published, truth: CountsOf) -> tuple[CorrelationTruth, ...]:
    """Of every two columns of numbers or days, furthest apart first."""
    schema = release.schema
    named = [c.name for c in schema.columns if c.has_numbers]
    pairs = combinations(sorted(named[:NUMERIC_SHOWN]), 2)
    found = []
    for pair in pairs:
        try:
            (believed,) = release.model.marginals([pair])
        except UsageError:  # answers only, and not this one
            continue
        (counts,) = truth([pair])
        values = [_middles(schema, name) for name in pair]
        sides = (_correlation(table, values) for table in (counts, believed))
        true, other = sides
        if true is not None and other is not None:
            found.append(CorrelationTruth((pair[0], pair[1]), true, other))
    return tuple(sorted(found, key=lambda c: (-c.apart, c.columns)))


def _middles(schema: Schema, name: str) -> np.ndarray:
    lows, highs = level_ends(schema.column(name))
    return (lows.astype(float) + highs.astype(float)) / 2


def _correlation(table: np.ndarray, values: Sequence[np.ndarray]) -> float | None:
    """None where a column has one value only."""
    regular = tuple(slice(v.size) for v in values)
    weights = np.maximum(np.asarray(table, dtype=float)[regular], 0.0)
    if not weights.sum() > 0:
        return None
    weights = weights / weights.sum()
    x, y = (v - v @ weights.sum(axis=1 - i) for i, v in enumerate(values))
    spread = (x**2 @ weights.sum(axis=1)) * (y**2 @ weights.sum(axis=0))
    return float(x @ weights @ y / math.sqrt(spread)) if spread > 0 else None
