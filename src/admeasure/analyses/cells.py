"""Cells of the model that decide a statistic, with points for values inside bins.

A variable whose levels are bins has a mean a and a variance s² in each (`places`). A statistic is
computed at points: with m such variables a cell stands for 2m rows of equal weight, at a ± s √m of
one of them and at the means of the others. So first and second moments are those of rows that lie
in their bins as synthetic rows do, independently of each other, and a statistic knows nothing of
bins. Further points without weight, at the means and off the means of two variables, say how the
influence changes inside a cell: by g e + q e² where one variable is off its mean by e, and by r e f
where a second is off by f. For means, correlations and least squares these are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from admeasure.analyses.places import Leaves, Places, places
from admeasure.domain import Columns
from admeasure.errors import ResourceError, UsageError
from admeasure.families import Model
from admeasure.schema import Column, Schema
from admeasure.schema.determined import lifted
from admeasure.schema.inside import Inside
from admeasure.workload.questions import written_conditions

Variable = str | Mapping[str, Any]
"""The name of a column, or conditions."""

Influence = tuple[Columns, np.ndarray]
"""A function of the cells of these columns for each value of a statistic: axis 0 is the value."""

MOST_CELLS = 1 << 20
"""Of the columns of a statistic together."""

MOST_POINTS = 8 * MOST_CELLS

LEAST_STEP = 1e-5
"""Of a bin's width: how far apart points are at least."""

WIDE = 0.25
"""Of a variable's variance: what places inside bins may add where nothing is known of them, for a
statistic that is not linear in it to be told."""

UNSURE = 0.4
"""The same of what the noise in counts of leaves leaves open, twice its scale."""


@dataclass(frozen=True, eq=False)
class Moves:
    """How places inside the bins of a column move each value of a statistic (axis 0). By level: the
    means of g and q over its rows, and the root of the summed squares of g less its mean; `rows` is
    what the model has in it. And as functions of the cells: the least and the most that a row does
    wherever in its bin it lies, beside the mean of the bin; `sums` of these over the model's rows.
    """

    places: Places
    rows: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    apart: np.ndarray
    least: Influence
    most: Influence
    sums: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Cross:
    """The most that one row's places inside the bins of two columns move a value together, for
    each unit of their product."""

    one: str
    two: str
    most: np.ndarray


@dataclass(frozen=True, eq=False)
class PointEstimates:
    """Values of a statistic by name, their variances from sampling, and how far a row of each cell
    would move them: the sum of the functions in `influence`, means over the places inside bins,
    which `moves` and `crosses` tell. Whatever the rows, the values lie between the two of
    `within`."""

    names: tuple[str, ...]
    values: np.ndarray
    sampling: np.ndarray
    influence: tuple[Influence, ...]
    within: tuple[float, float] = (-math.inf, math.inf)
    moves: tuple[Moves, ...] = ()
    crosses: tuple[Cross, ...] = ()
    scales: tuple[Column | str, ...] = ()
    """Of each value the column that it is a value of, or what it is counted in; where it is told,
    else they are plain numbers."""


@dataclass(frozen=True, eq=False)
class Binned:
    """A variable whose levels are bins: the level of each cell, and how far its points are from its
    mean, before the factor √m."""

    places: Places
    level: np.ndarray
    step: np.ndarray


@dataclass(frozen=True, eq=False)
class StatisticCells:
    """Cells in which all variables have a value: rows in them. `kept` says which they are of all
    cells of the columns. Then of points, the cells one after the other for each kind of point:
    weights, the variables' values, and for each group whether they are inside."""

    columns: Columns
    kept: np.ndarray
    rows: np.ndarray
    binned: tuple[Binned, ...]
    ends: np.ndarray
    """The least and the greatest value of each variable."""
    weights: np.ndarray
    values: np.ndarray
    inside: np.ndarray

    def told(
        self, at_points: np.ndarray, stretch: float = 1.0
    ) -> tuple[Influence, tuple[Moves, ...], tuple[Cross, ...]]:
        """An influence that is known at points, and how it changes inside cells; places do so many
        times as much as it says."""
        m = len(self.binned)
        kinds = at_points.reshape(len(at_points), -1, len(self.rows)).swapaxes(0, 1)
        at_means, off, both = kinds[0], kinds[1 : 1 + 2 * m], kinds[1 + 2 * m :]
        moves = [
            self._moves(b, at_means, up, down, stretch)
            for b, up, down in zip(self.binned, off[::2], off[1::2], strict=True)
        ]
        crosses = []
        for (i, j), at in zip(combinations(range(m), 2), both, strict=True):
            one, two = self.binned[i], self.binned[j]
            change = at - off[2 * i] - off[2 * j] + at_means
            most = np.abs(_over(change, m * one.step * two.step)).max(axis=1, initial=0.0)
            crosses.append(Cross(one.places.name, two.places.name, stretch * most))
        mean = off.mean(axis=0) if m else at_means
        return self._spread(mean), tuple(moves), tuple(crosses)

    def _moves(
        self, b: Binned, at_means: np.ndarray, up: np.ndarray, down: np.ndarray, stretch: float
    ) -> Moves:
        step, at = b.step * len(self.binned) ** 0.5, b.places
        g = _over((up - down) / 2, step)
        q = _over((up + down) / 2 - at_means, step**2)

        def summed(numbers: np.ndarray) -> np.ndarray:
            return np.array([np.bincount(b.level, self.rows * x, len(at.means)) for x in numbers])

        (rows,) = summed(np.ones((1, len(self.rows))))
        slope, curve = _over(summed(g), rows), _over(summed(q), rows)
        apart = np.sqrt(summed((g - slope[:, b.level]) ** 2))
        v = at.variances[b.level]
        ends = [(end - at.means)[b.level] for end in (at.lows, at.highs)]
        low, high = (g * e + q * (e**2 - v) for e in ends)
        least, most = np.minimum(low, high), np.maximum(low, high)
        # Between the ends, where the slope is none.
        turn = _over(-g, 2 * np.abs(q)) * np.sign(q)
        between = (turn > ends[0]) & (turn < ends[1]) & (q != 0)
        there = np.where(between, g * turn + q * (turn**2 - v), least)
        least, most = stretch * np.minimum(least, there), stretch * np.maximum(most, there)
        sums = least @ self.rows, most @ self.rows
        told = self._spread(least), self._spread(most)
        return Moves(at, rows, slope, _plain(curve, slope, at), apart, *told, sums)

    def _spread(self, found: np.ndarray) -> Influence:
        """Over all cells of the columns: a row without a value moves nothing."""
        whole = np.zeros((len(found), *self.kept.shape))
        whole[:, self.kept] = found
        return self.columns, whole

    def estimates(
        self,
        names: tuple[str, ...],
        values: Sequence[float] | np.ndarray,
        influence: np.ndarray,
        within: tuple[float, float] = (-math.inf, math.inf),
        stretch: float = 1.0,
    ) -> PointEstimates:
        whole, moves, crosses = self.told(influence, stretch)
        sampling = influence**2 @ self.weights
        found = np.asarray(values, dtype=float)
        return PointEstimates(names, found, sampling, (whole,), within, moves, crosses)

    def stretch(self, squares: Mapping[str, float]) -> float:
        """How many times as far as its first order says places inside bins may move a statistic
        that divides by sums of squares, those of the variables named here; in the model these are
        `squares`. With s² such a sum between bins and h² that of half the bins' widths, the table
        has at least (s - h)². Refused where too little is known."""
        found = 1.0
        for b in self.binned:
            at = b.places
            if at.name not in squares:
                continue
            whole, inside = squares[at.name], float(self.rows @ at.variances[b.level])
            if at.leaves is None:
                half = float(self.rows @ ((at.highs - at.lows)[b.level] / 2) ** 2)
                told = half <= WIDE * (whole - inside)
                found *= whole / (max(whole - inside, 0.0) ** 0.5 - half**0.5) ** 2 if told else 1
            else:
                told = self._unsure(b, at.leaves) <= UNSURE * whole
            if not told:
                raise UsageError(
                    f"The bins of {at.name!r} are too wide for what is known of the values in "
                    "them. Give it a lower maximum or more bins in the schema, or a larger "
                    "epsilon, and fit again; a mean can be told."
                )
        return found

    def _unsure(self, b: Binned, leaves: Leaves) -> float:
        """By how much a column's sum of squares may be less than the model's, as its leaves say."""
        at, level = b.places, leaves.level
        off = at.means - self.rows @ at.means[b.level] / self.rows.sum()
        e = leaves.middle - at.means[level]
        squares = e * (e + 2 * off[level]) - at.variances[level]
        (c,), (moved,), (variance,) = leaves.sums(squares[None], apart=True)
        moved += self.rows @ c[b.level]
        return float(2 * variance**0.5 - UNSURE * min(moved, 0.0))


def columns_of(
    schema: Schema, variables: Sequence[Variable], groups: Sequence[Mapping[str, Any]] = ()
) -> Columns:
    """The model's columns that decide the variables and the groups."""
    names = [name for v in (*variables, *groups) for name in ([v] if isinstance(v, str) else v)]
    for name in names:
        schema.column(name)  # a column that is not there is told here
    return schema.modelled(dict.fromkeys(names))


def cells_of(
    schema: Schema,
    model: Model,
    inside: Mapping[str, Inside],
    variables: Sequence[Variable],
    groups: Sequence[Mapping[str, Any]] = (),
) -> StatisticCells:
    columns = columns_of(schema, variables, groups)
    named = dict.fromkeys(v for v in variables if isinstance(v, str))
    placed = {name: places(schema.column(name), inside.get(name)) for name in named}
    m = sum(at.are_bins for at in placed.values())
    cells = schema.domain.cells(columns)
    if cells > MOST_CELLS or cells * (1 + 2 * m + m * (m - 1) // 2) > MOST_POINTS:
        raise ResourceError(
            f"The columns {', '.join(columns)} have more than {MOST_CELLS:,} cells together. Name "
            "fewer of them, or use fewer bins."
        )
    (table,) = model.marginals([columns])
    levels = {
        name: np.broadcast_to(lifted(schema, name, columns, schema.computed), table.shape)
        for name in named
    }
    kept = np.ones(table.shape, dtype=bool)
    for name, level in levels.items():
        kept &= level < schema.column(name).regular
    rows = np.maximum(table[kept], 0.0)
    levels = {name: level[kept] for name, level in levels.items()}
    binned = []
    for at in placed.values():
        if at.are_bins:
            step = np.maximum(np.sqrt(at.variances), LEAST_STEP * (at.highs - at.lows))
            binned.append(Binned(at, levels[at.name], step[levels[at.name]]))
    values = np.array(
        [
            placed[v].means[levels[v]] if isinstance(v, str) else _met(schema, v, columns)[kept]
            for v in variables
        ]
    )
    groups_met = [_met(schema, g, columns)[kept] if g else np.ones(len(rows)) for g in groups]
    weights, points = _points(rows, values, binned, variables)
    kinds = len(weights) // max(len(rows), 1)
    return StatisticCells(
        columns,
        kept,
        rows,
        tuple(binned),
        np.array(
            [_ends(placed[v], levels[v]) if isinstance(v, str) else (0, 1) for v in variables]
        ),
        weights,
        points,
        np.array([np.tile(met, kinds) for met in groups_met]),
    )


def _points(
    rows: np.ndarray, values: np.ndarray, binned: Sequence[Binned], variables: Sequence[Variable]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and values of the points: at the means, up and down in each variable, and up in each
    two of them."""
    m = len(binned)
    if not m:
        return rows, values
    off = []
    for b in binned:
        mine = np.array([v == b.places.name for v in variables], dtype=float)
        off.append(np.outer(mine, b.step * m**0.5))
    kinds = [values, *(values + sign * o for o in off for sign in (1, -1))]
    kinds += [values + one + two for one, two in combinations(off, 2)]
    weights = [0.0 * rows, *[rows / (2 * m)] * (2 * m), *[0.0 * rows] * (m * (m - 1) // 2)]
    return np.concatenate(weights), np.concatenate(kinds, axis=1)


def _ends(at: Places, level: np.ndarray) -> tuple[float, float]:
    lows, highs = at.lows[level], at.highs[level]
    return float(lows.min(initial=np.inf)), float(highs.max(initial=-np.inf))


def _met(schema: Schema, conditions: Mapping[str, Any], columns: Columns) -> np.ndarray:
    written = written_conditions(conditions)
    _, met = schema.conditions_met(written, "A statistic", also=columns)
    return (met == len(written)).astype(float)


def _plain(curve: np.ndarray, slope: np.ndarray, at: Places) -> np.ndarray:
    """Without what rounding left of a curve that is none."""
    width = float((at.highs - at.lows).max())
    return np.where(np.abs(curve) * width > 1e-4 * np.abs(slope).max(initial=0.0), curve, 0.0)


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and zero where b is."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape)), where=b > 0)
