"""Means, sums and quantiles from a release, with intervals that hold the true ones.

A level of the column holds values between two ends, and nothing says where in it the rows lie. So
an interval has to be wide enough for all places within the bins, and for what is not known of the
counts. Of the counts it uses intervals alone, of how many rows have a value below and above a cut
between two levels; see docs/explanations/bounds.md, "Means, sums and quantiles". The value itself
takes rows to lie in their bins as sampled rows do. Everything follows from what was released, and
costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from admeasure.bounds import Answer
from admeasure.bounds.evidence import error_probability
from admeasure.bounds.found import IntervalKind
from admeasure.domain import Columns
from admeasure.queries import AnyCell
from admeasure.schema.column import Column
from admeasure.schema.determined import lifted
from admeasure.schema.zeros import level_ends
from admeasure.workload.questions import Question
from admeasure.workload.statistic import ColumnStatistic

if TYPE_CHECKING:
    from admeasure.release.release import Release

Value = Any
"""A number or, of a column of dates, a date; of times of the day their text."""
CUTS = 64
"""A mean or a sum looks at no more cuts than this, evenly among the levels."""
STAGE = 256
"""A quantile looks at so many cuts first, and then between two of them."""
Interval = tuple[float, float, IntervalKind]
"""Its ends, and what they rest on."""
_WORST = get_args(IntervalKind)


@dataclass(frozen=True)
class StatisticAnswer:
    """A statistic, its value in the model, and an interval for the true one. `value` is None where
    the model has no such rows."""

    name: str
    statistic: ColumnStatistic
    value: Value | None
    low: Value
    high: Value
    confidence: float
    kind: IntervalKind


@dataclass(frozen=True, eq=False)
class _Levels:
    """The regular levels of a column in ascending order of their values, and the cells of a
    marginal that are in each, of those that are asked about."""

    release: Release
    columns: Columns
    places: np.ndarray
    """For each cell of the marginal the place of its level; -1 for cells that are not asked."""
    lows: np.ndarray
    highs: np.ndarray

    def __len__(self) -> int:
        return len(self.lows)

    def counts(self) -> np.ndarray:
        """What the model has in each level."""
        (table,) = self.release.model.marginals([self.columns])
        asked = self.places >= 0
        return np.bincount(self.places[asked], np.maximum(table[asked], 0.0), len(self))

    def below(self, cuts: Sequence[int], confidence: float) -> list[Answer]:
        """How many rows are in the levels before each cut."""
        asked = self.places >= 0
        return self._answers([asked & (self.places < cut) for cut in cuts], confidence)

    def above(self, cuts: Sequence[int], confidence: float) -> list[Answer]:
        """How many rows are in the levels from each cut on."""
        return self._answers([self.places >= max(cut, 0) for cut in cuts], confidence)

    def _answers(self, masks: Sequence[np.ndarray], confidence: float) -> list[Answer]:
        questions = [Question("count", AnyCell.of(self.columns, mask)) for mask in masks]
        return self.release.answer(questions, confidence=confidence)


def answer_statistic(
    release: Release,
    statistic: ColumnStatistic,
    confidence: float,
    *,
    most_cuts: int = CUTS,
    stage: int = STAGE,
) -> StatisticAnswer:
    """The statistic of a release, with its interval."""
    beta = error_probability(confidence)
    column = statistic.of(release.schema)
    levels = _levels(release, statistic, column)
    pieces = _pieces(levels, column)
    if statistic.kind == "quantile":
        assert statistic.at is not None
        value = _quantile(pieces, statistic.at, whole=not column.holds_reals)
        low, high, kind = _quantile_interval(levels, statistic.at, beta, stage)
    else:
        of = _sum_interval if statistic.kind == "sum" else _mean_interval
        low, high, kind = of(levels, _cuts(levels, most_cuts), beta)
        value = pieces.sum
        if statistic.kind == "mean":
            value = value / pieces.total if pieces.total > 0 else None
    if value is not None:
        low, high = min(low, value), max(high, value)
    ends = _written(column, statistic, value, low, high)
    return StatisticAnswer(str(statistic), statistic, *ends, confidence, kind)


def _levels(release: Release, statistic: ColumnStatistic, column: Column) -> _Levels:
    schema = release.schema
    lows, highs = (ends.astype(np.float64) for ends in level_ends(column))
    order = np.argsort(lows, kind="stable")
    place = np.full(column.levels, -1)
    place[order] = np.arange(len(order))
    columns, met = schema.conditions_met(statistic.where, "A question", also=(column.name,))
    places = place[
        np.broadcast_to(lifted(schema, column.name, columns, schema.computed), met.shape)
    ]
    places = np.where(met == len(statistic.where), places, -1)
    return _Levels(release, columns, places, lows[order], highs[order])


def _written(
    column: Column, statistic: ColumnStatistic, value: float | None, low: float, high: float
) -> tuple[Value | None, Value, Value]:
    """Days as dates, times of the day as such, quantiles of whole numbers as these."""
    if column.span_unit and statistic.kind != "sum":
        ends = column.written(low, math.floor), column.written(high, math.ceil)
        return None if value is None else column.written(value), *ends
    if column.type == "integer" and statistic.kind == "quantile":
        return None if value is None else int(value), int(low), int(high)
    return value, low, high


@dataclass(frozen=True, eq=False)
class _Pieces:
    """How the model's rows lie, in ascending pieces over each of which they lie evenly."""

    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def sum(self) -> float:
        return float(self.counts @ ((self.lows + self.highs) / 2))


def _pieces(levels: _Levels, column: Column) -> _Pieces:
    """The levels or, where a run bought how values lie inside bins, the leaves of these."""
    counts, grid = levels.counts(), column.grid
    inside = levels.release.inside.get(column.name)
    if inside is None or grid is None:
        return _Pieces(counts, levels.lows, levels.highs)
    leaves = inside.pieces(grid)
    return _Pieces(counts[leaves.level] * leaves.shares, leaves.lows, leaves.highs)


def _quantile(pieces: _Pieces, at: float, *, whole: bool) -> float | None:
    """The least value v such that the model's rows up to v are at least the share `at` of all."""
    counts, total = pieces.counts, pieces.total
    if total <= 0:
        return None
    reached = np.cumsum(counts)
    # A share that rounding makes a little too large must not pass to the next piece.
    k = min(int(np.searchsorted(reached, at * total * (1 - 1e-12))), len(counts) - 1)
    before = float(reached[k] - counts[k])
    part = (at * total - before) / float(counts[k]) if counts[k] > 0 else 0.0
    part = min(max(part, 0.0), 1.0)
    low, high = float(pieces.lows[k]), float(pieces.highs[k])
    if not whole:
        return low + part * (high - low)
    return low + max(0.0, np.ceil(part * (high - low + 1) * (1 - 1e-12)) - 1)


def _quantile_interval(levels: _Levels, at: float, beta: float, stage: int) -> Interval:
    """The levels that are not ruled out. The true level k is the first with (1 - q) C_k >= q R_k,
    where C_k rows are in levels up to k and R_k in later ones; it is ruled out only if one of four
    intervals fails, two at each of its ends, whatever other cuts are looked at. With two stages
    there are the cuts of the first stage around it besides, and eight intervals."""
    last, kinds = len(levels), ["supported"]
    step = -(-last // stage)
    gamma = beta / (4 if step == 1 else 8)
    coarse = list(range(step, last, step))
    first, end = _bracket(levels, at, coarse, (0, last), gamma, kinds)
    if step > 1 and first < end:
        lower = list(range(first + 1, min(first + step, end - 1) + 1))
        upper = list(range(max(end - step, first + 1), end))
        start, _ = _bracket(levels, at, lower, (first, end), gamma, kinds)
        _, end = _bracket(levels, at, upper, (first, end), gamma, kinds)
        first = start
    if first >= end:  # the intervals contradict each other, which they seldom do
        first, end = 0, last
    return float(levels.lows[first]), float(levels.highs[end - 1]), _worst(kinds)


def _bracket(
    levels: _Levels,
    at: float,
    cuts: Sequence[int],
    around: tuple[int, int],
    gamma: float,
    kinds: list[str],
) -> tuple[int, int]:
    """Where the levels begin and end that hold the quantile, as far as these cuts say: from the cut
    before the first that it may be below, to the cut after the last that it may be above."""
    below, above = levels.below(cuts, 1 - gamma), levels.above(cuts, 1 - gamma)
    kinds += [answer.kind for answer in (*below, *above)]
    pairs = list(zip(below, above, strict=True))
    # A share of 0.9 is meant as nine tenths: in whole numbers nothing is lost where counts tie.
    share = Fraction(repr(at))
    q, rest = float(share.numerator), float(share.denominator - share.numerator)
    may_be_below = [rest * c.high >= q * r.low for c, r in pairs]
    may_be_above = [rest * c.low < q * r.high or not c.low for c, r in pairs]
    ends = [around[0], *cuts, around[1]]
    first = may_be_below.index(True) if any(may_be_below) else len(cuts)
    last = len(cuts) - may_be_above[::-1].index(True) if any(may_be_above) else 0
    return ends[first], ends[last + 1]


def _cuts(levels: _Levels, most: int) -> list[int]:
    wanted = min(most, len(levels) - 1)
    return sorted({round(i * len(levels) / (wanted + 1)) for i in range(1, wanted + 1)} - {0})


def _mean_interval(levels: _Levels, cuts: Sequence[int], beta: float) -> Interval:
    """From a band for S_k, the share of rows from cut k on: with lower ends l_k of the levels the
    mean is at least l_0 + Σ (l_k - l_(k-1)) S_k over all cuts; at most likewise, by upper ends."""
    if not cuts:
        return float(levels.lows[0]), float(levels.highs[-1]), "supported"
    gamma = beta / (2 * len(cuts))
    below, above = levels.below(cuts, 1 - gamma), levels.above(cuts, 1 - gamma)
    least = [_share(t.low, c.high, 0.0) for c, t in zip(below, above, strict=True)]
    most = [_share(t.high, c.low, 1.0) for c, t in zip(below, above, strict=True)]
    # Shares never rise from one cut to the next.
    least = np.maximum.accumulate(least[::-1])[::-1]
    most = np.minimum.accumulate(most)
    lows = levels.lows[[0, *cuts]]
    highs = levels.highs[[*(cut - 1 for cut in cuts), len(levels) - 1]]
    low = float(lows[0] + np.diff(lows) @ least)
    high = float(highs[0] + np.diff(highs) @ most)
    return low, high, _worst([a.kind for a in (*below, *above)])


def _share(part: float, rest: float, none: float) -> float:
    return part / (part + rest) if part + rest > 0 else none


def _sum_interval(levels: _Levels, inner: Sequence[int], beta: float) -> Interval:
    """A sum of positive parts is Σ (v_k - v_(k-1)) T_k with T_k the rows from cut k on, and one of
    negative parts the same from the other end."""
    cuts = [0, *inner]
    ends = [*cuts[1:], len(levels)]
    lows, highs = levels.lows[cuts], levels.highs[[end - 1 for end in ends]]
    signed = levels.lows[0] < 0
    gamma = beta / ((2 if signed else 1) * len(cuts))
    above = levels.above(cuts, 1 - gamma)
    low, high = _steps(lows) @ [t.low for t in above], _steps(highs) @ [t.high for t in above]
    kinds = [t.kind for t in above]
    if signed:
        below = levels.below(ends, 1 - gamma)
        low -= _steps(-lows[::-1])[::-1] @ [c.high for c in below]
        high -= _steps(-highs[::-1])[::-1] @ [c.low for c in below]
        kinds += [c.kind for c in below]
    return float(low), float(high), _worst(kinds)


def _steps(ascending: np.ndarray) -> np.ndarray:
    """By how much the positive part rises at each value."""
    return np.diff(np.maximum(ascending, 0.0), prepend=0.0)


def _worst(kinds: Sequence[str]) -> IntervalKind:
    return max(kinds, key=_WORST.index)  # type: ignore[return-value]
