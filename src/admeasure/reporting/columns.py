"""What a report says of single columns: levels with intervals, and how well they are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from admeasure.bounds import Evidence, share
from admeasure.domain import Columns
from admeasure.errors import UsageError
from admeasure.published import Published
from admeasure.queries import Cell
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid
from admeasure.workload import Question

LEVELS_SHOWN = 12
BINS_DRAWN = 96
"""The most bins of a histogram; a column with more is a list of its largest levels."""
GOOD, FAIR = 0.1, 0.4
"""A bound on the L1 distance, in shares, up to which an answer is called good or fair."""
TOLD_GOOD, TOLD_FAIR = 0.75, 0.4
"""The part of a column's levels that must be told from zero for it to be called so."""

Grade = Literal["good", "fair", "poor"]


class Level(NamedTuple):
    """One level of a column: the release's count and an interval for the true one."""

    label: str
    value: float
    low: float
    high: float

    @property
    def is_there(self) -> bool:
        """Whether the release believes that the level occurs."""
        return self.value >= 0.5

    @property
    def is_told(self) -> bool:
        """Whether the interval tells the true count from zero."""
        return self.low > 0


@dataclass(frozen=True)
class BinnedLevels:
    """Bins on a real axis. `edges` are one more than `bins`; `ticks` are places with words."""

    edges: tuple[float, ...]
    bins: tuple[Level, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class ColumnFacts:
    """One column; `error` bounds the L1 distance of its shares, None where it is not answered."""

    name: str
    title: str
    type: str
    levels: int
    error: float | None
    kind: str
    shown: tuple[Level, ...] = ()
    histogram: BinnedLevels | None = None

    @property
    def left_out(self) -> int:
        drawn = 0 if self.histogram is None else len(self.histogram.bins)
        return self.levels - len(self.shown) - drawn

    @property
    def most(self) -> float:
        return max([level.high for level in self.shown], default=0.0)

    @property
    def known(self) -> tuple[Level, ...]:
        """The levels whose intervals were asked for."""
        return (*(() if self.histogram is None else self.histogram.bins), *self.shown)

    @property
    def there(self) -> int:
        return sum(level.is_there for level in self.known)

    @property
    def told(self) -> int:
        """How many of those that are there are told from zero."""
        return sum(level.is_there and level.is_told for level in self.known)

    @property
    def grade(self) -> Grade:
        """By the bound, and by how many of its levels can be told from zero."""
        part = self.told / self.there if self.there else 1.0
        by_levels: Grade = "good" if part >= TOLD_GOOD else "fair" if part >= TOLD_FAIR else "poor"
        return worse(grade(self.error, self.kind), by_levels)


def grade(error: float | None, kind: str) -> Grade:
    """How well something is known, from its bound."""
    if error is None or kind == "trivial" or error > FAIR:
        return "poor"
    return "good" if error <= GOOD else "fair"


def worse(first: Grade, second: Grade) -> Grade:
    """The lower of two grades.

    >>> worse("good", "fair")
    'fair'
    """
    order: list[Grade] = ["good", "fair", "poor"]
    return order[max(order.index(first), order.index(second))]


def known_columns(
    release: Published, evidence: Evidence, confidence: float
) -> tuple[list[ColumnFacts], Columns]:
    """The columns that the release answers, worst known first and without their levels, and the
    names of the others."""
    known, silent = [], []
    for column in release.schema.columns:
        key = (column.name,)
        try:
            bound = evidence.bounds([key], confidence)[key]
        except UsageError:  # answers only, and this column was not asked about
            silent.append(column.name)
            continue
        error = share(bound.error, release.rows)
        known.append(
            ColumnFacts(
                column.name, column.title or "", str(column.type), column.levels, error, bound.kind
            )
        )
    return sorted(known, key=lambda c: (-(c.error or 0.0), c.name)), tuple(silent)


def levels_of(
    release: Published,
    evidence: Evidence,
    name: str,
    confidence: float,
    bins_drawn: int = BINS_DRAWN,
) -> tuple[tuple[Level, ...], BinnedLevels | None]:
    """The levels to list, and the bins to draw of a column that has any: all of those where they
    are few enough, and else the largest levels."""
    column = release.schema.column(name)
    if column.grid is not None and 2 < column.regular <= bins_drawn:
        found = _levels(evidence, column, range(column.levels), confidence)
        edges = edges_of(column)
        first, last = drawn_bins(edges, [level.value for level in found[: column.regular]])
        shown, axis = found[first:last], edges[first : last + 1]
        listed = (*found[:first], *found[last:])
        return listed, BinnedLevels(axis, shown, ticks_of(axis, [level.label for level in shown]))
    (counts,) = release.model.marginals([(name,)])
    largest = sorted(range(column.levels), key=lambda code: (-float(counts[code]), code))
    # A column with an order keeps it; one more level is as short as the line that leaves it out.
    codes = sorted(largest[: LEVELS_SHOWN if column.levels > LEVELS_SHOWN + 1 else None])
    return _levels(evidence, column, codes, confidence), None


def _levels(
    evidence: Evidence, column: Column, codes: Sequence[int], confidence: float
) -> tuple[Level, ...]:
    key = (column.name,)
    questions = [Question(column.labels[code], Cell(key, (code,))) for code in codes]
    answers = evidence.answers(questions, confidence)
    return tuple(Level(a.name, a.value, a.low, a.high) for a in answers)


def edges_of(column: Column) -> tuple[float, ...]:
    """Where each bin begins, and where the last one ends. A bin of whole numbers or days ends
    where the next one begins."""
    grid = column.grid
    if grid is None:
        return ()
    if isinstance(grid, OrdinalGrid):
        return (*map(float, grid.starts), float(grid.high + 1))
    return tuple(map(float, grid.edges))


def drawn_bins(edges: Sequence[float], counts: Sequence[float]) -> tuple[int, int]:
    """The bins to draw, from and up to: without those at the ends that are far wider than all the
    others together, or as wide and nearly empty, which would flatten the rest. A column without
    bounds has such.

    >>> drawn_bins([-1e308, 0, 1, 2, 1e308], [7, 50, 49, 1])
    (1, 3)
    """
    places = [edge / 4 for edge in edges]  # their differences are numbers, too
    first, last, few = 0, len(counts), 0.02 * sum(counts)
    while last - first > 2:
        inner = places[last - 1] - places[first + 1]
        ends = {
            first: places[first + 1] - places[first],
            last - 1: places[last] - places[last - 1],
        }
        end = max(ends, key=ends.__getitem__)
        if ends[end] < (1 if counts[end] <= few else 100) * inner:
            break
        first, last = (first + 1, last) if end == first else (first, last - 1)
    return first, last


def ticks_of(
    edges: Sequence[float], labels: Sequence[str], most: int = 5
) -> tuple[tuple[float, str], ...]:
    """The beginnings of some bins, spread over the axis, in the words of the column."""
    apart = edges[-1] / most - edges[0] / most
    found: list[tuple[float, str]] = []
    for edge, label in zip(edges, labels, strict=False):
        if not found or edge - found[-1][0] >= apart:
            found.append((edge, re.split(" to |, ", label)[0].strip("[")))
    return tuple(found)
