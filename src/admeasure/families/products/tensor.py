"""Marginals and thresholds of product rows, whole tensors at a time, in blocks of bounded memory.

A set of product rows is an array `P` of shape (width, rows): one line for each level of each
column (`Layout` says which), one column of numbers for each row; within a column of the table the
levels of a row sum to 1. The share of a k-way cell is the mean over rows of a product of k lines.

Cut the columns of a query in two, `lead | trail`. Given the row, the number of agreements with a
target in the lead columns, A, and in the trail columns, B, are independent. So for at least r of k

    P(A + B >= r) = P(A >= r) + Σ_j P(A = j) P(B >= r - j),   max(0, r - t) <= j <= min(l, r - 1),

with l lead and t trail columns. Summed over rows this is a vector over the lead cells plus one
matrix product (lead cells × rows) (rows × trail cells) for each j. A marginal (r = k) and an 'any
of' (r = 1) need one product, others at most min(l, t, r, k - r + 1); with t = 1 it is always one.
Nothing is enumerated: cells are indexed when they are computed, and a block of lead cells is as
large as the memory limit allows. `xp` is numpy or jax.numpy; both run the same lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np

from admeasure.domain import Columns, Domain, about
from admeasure.errors import ResourceError
from admeasure.queries import Marginal, Targets, WorkloadQuery

PART_NUMBERS = 1 << 24
"""The most numbers (cells times rows) of one side of a product: 64 MB in single precision."""

BLOCK_CELLS = 1 << 20
"""Answers made at a time."""

MAX_QUERY_CELLS = 1 << 26
"""The most cells of one table of exact counts that is held whole: 256 to 512 MB at this size."""

MAX_STREAMED_CELLS = 1 << 34
"""The most cells of one query whose answers are made in blocks: minutes of one processor."""


@dataclass(frozen=True)
class Layout:
    """Which lines of `P` belong to which column; columns in alphabetical order."""

    columns: Columns
    levels: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, domain: Domain) -> Layout:
        columns = tuple(sorted(domain.columns))
        return cls(columns, domain.shape(columns))

    @cached_property
    def starts(self) -> dict[str, int]:
        ends = np.cumsum([0, *self.levels]).tolist()
        return dict(zip(self.columns, ends, strict=False))

    @cached_property
    def _levels(self) -> dict[str, int]:
        return dict(zip(self.columns, self.levels, strict=True))

    @property
    def width(self) -> int:
        return sum(self.levels)

    @cached_property
    def column_of(self) -> np.ndarray:
        """For each line, the position of its column."""
        return np.repeat(np.arange(len(self.levels)), self.levels)

    def span(self, column: str) -> slice:
        start = self.starts[column]
        return slice(start, start + self._levels[column])

    def shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._levels[c] for c in columns)

    def cells(self, columns: Sequence[str]) -> int:
        return math.prod(self.shape(columns))

    def lines(self, columns: Sequence[str], low: int, high: int) -> np.ndarray:
        """Lines of the cells low … high - 1 (in C order) of the columns: (columns, cells)."""
        if not columns:
            return np.zeros((0, high - low), np.int32)
        codes = np.unravel_index(np.arange(low, high), self.shape(columns))
        starts = [self.starts[c] for c in columns]
        return np.stack([s + c for s, c in zip(starts, codes, strict=True)]).astype(np.int32)


def check_query_size(queries: Sequence[WorkloadQuery], domain: Domain, who: str) -> None:
    """Refuse a query whose counts would not fit, before anything is charged."""
    for query in queries:
        _refuse_above(MAX_QUERY_CELLS, domain.cells(query.columns), query, who)


def check_streamed_size(queries: Sequence[Targets], domain: Domain, who: str) -> None:
    """The same where only single cells are measured: exact counts are then the cells that occur,
    and for a threshold with r < k its sub-marginals on fewer columns, which are held whole."""
    for query in queries:
        columns = query.columns
        _refuse_above(MAX_STREAMED_CELLS, domain.cells(columns), query, who)
        if query.at_least < len(columns):
            largest = domain.cells(columns) // min(domain.shape(columns))
            _refuse_above(MAX_QUERY_CELLS, largest, query, who, "a sub-marginal of ")


def _refuse_above(limit: int, cells: int, query: WorkloadQuery, who: str, what: str = "") -> None:
    if cells > limit:
        raise ResourceError(
            f"{who}: {what}the {query} has {about(cells)} cells, and may have "
            f"{about(limit)}. Leave it out, or give its columns fewer bins."
        )


def terms(r: int, lead: int, trail: int) -> range:
    """The j of the formula above."""
    return range(max(0, r - trail), min(lead, r - 1) + 1)


def exactly(P: Any, lines: Any, xp: Any) -> list[Any]:
    """For each cell and row the probability of exactly 0, 1, … agreements: (cells, rows) each."""
    count, cells = lines.shape
    found = [xp.ones((cells, P.shape[1]), P.dtype)]
    for c in range(count):
        p = P[lines[c]]
        q = 1 - p
        inner = [found[j] * q + found[j - 1] * p for j in range(1, c + 1)]
        found = [found[0] * q, *inner, found[-1] * p]
    return found


def product(P: Any, lines: Any, xp: Any) -> Any:
    """For each cell and row the probability that all columns agree: (cells, rows)."""
    if not lines.shape[0]:
        return xp.ones((lines.shape[1], P.shape[1]), P.dtype)
    found = P[lines[0]]
    for c in range(1, lines.shape[0]):
        found = found * P[lines[c]]
    return found


def lead_part(P: Any, lines: Any, r: int, trail: int, xp: Any) -> tuple[Any, list[Any]]:
    """Σ_rows P(A >= r), one for each lead cell, and P(A = j) for the j of `terms`."""
    count = lines.shape[0]
    if r == count + trail:
        return xp.zeros(lines.shape[1], P.dtype), [product(P, lines, xp)]
    if r == 1:
        none = product(1 - P, lines, xp)
        return P.shape[1] - none.sum(axis=1), [none]
    found = exactly(P, lines, xp)
    sure: Any = sum(found[r:], xp.zeros_like(found[0]))
    return sure.sum(axis=1), [found[j] for j in terms(r, count, trail)]


def trail_part(P: Any, lines: Any, r: int, lead: int, xp: Any) -> list[Any]:
    """P(B >= r - j) for the j of `terms`."""
    count = lines.shape[0]
    if r == lead + count:
        return [product(P, lines, xp)]
    if r == 1:
        return [1 - product(1 - P, lines, xp)]
    found = exactly(P, lines, xp)
    tails = {0: sum(found)}
    for j in range(count, 0, -1):
        tails[j] = found[j] + tails[j + 1] if j < count else found[j]
    return [tails[r - j] for j in terms(r, lead, count)]


def shares(sure: Any, lead: list[Any], trail: list[Any]) -> Any:
    """The answers, as shares, of a block: (lead cells, trail cells)."""
    rows = lead[0].shape[1]
    total = lead[0] @ trail[0].T
    for a, b in zip(lead[1:], trail[1:], strict=True):
        total += a @ b.T
    total += sure[:, None]
    total *= 1 / rows
    return total


def cut(layout: Layout, columns: Columns, rows: int, part_numbers: int = PART_NUMBERS) -> int:
    """How many columns lead: the cut with the least to build whose trail fits in memory.

    Where two cuts are alike the longer lead is taken, because queries that follow each other in
    a workload share their first columns.
    """
    best, least = len(columns) - 1, math.inf
    for lead in range(len(columns) - 1, 0, -1):
        trail = layout.cells(columns[lead:])
        if trail * rows > part_numbers and lead < len(columns) - 1:
            continue
        cost = layout.cells(columns[:lead]) + trail
        if cost < least:
            best, least = lead, cost
    return best


@dataclass
class ProductAnswers:
    """Blocks of answers of product rows, as shares, with the parts of the last query kept."""

    P: np.ndarray
    layout: Layout
    block_cells: int = BLOCK_CELLS
    part_numbers: int = PART_NUMBERS
    _parts: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def blocks(self, query: Targets) -> Iterator[np.ndarray]:
        """All answers of a query in C order, flat, at most about `block_cells` at a time."""
        columns, r = query.columns, query.at_least
        rows = self.P.shape[1]
        lead = cut(self.layout, columns, rows, self.part_numbers)
        trail = len(columns) - lead
        first, second = columns[:lead], columns[lead:]
        b = self._part(("trail", second, r, lead))
        cells, width = self.layout.cells(first), self.layout.cells(second)
        step = max(1, min(self.part_numbers // rows, self.block_cells // width))
        for low in range(0, cells, step):
            high = min(low + step, cells)
            sure, a = self._part(("lead", first, r, trail, low, high))
            yield shares(sure, a, b).reshape(-1)

    def _part(self, key: tuple[Any, ...]) -> Any:
        """One side of a product, made unless it is one of the last few."""
        if key in self._parts:
            self._parts[key] = self._parts.pop(key)
            return self._parts[key]
        while len(self._parts) > 3:
            del self._parts[next(iter(self._parts))]
        side, columns, r, others, *span = key
        lines = self.layout.lines(columns, *(span or (0, self.layout.cells(columns))))
        make = lead_part if side == "lead" else trail_part
        self._parts[key] = make(self.P, lines, r, others, np)
        return self._parts[key]


def marginals(
    P: np.ndarray, layout: Layout, wanted: Sequence[Columns], part_numbers: int = PART_NUMBERS
) -> list[np.ndarray]:
    """Whole marginals, as shares, in the precision of `P`.

    Marginals that share all but their last column are made by one product with all of their last
    columns at once.
    """
    done: dict[Columns, np.ndarray] = {(): np.ones((), P.dtype)}
    todo = sorted({c for c in wanted if c})
    for first, group in groupby(todo, key=lambda c: c[:-1]):
        last = [c[-1] for c in group]
        tables = _with_last(P, layout, first, last, part_numbers)
        done |= zip([(*first, c) for c in last], tables, strict=True)
    return [done[c] for c in wanted]


def _with_last(
    P: np.ndarray, layout: Layout, first: Columns, last: Sequence[str], part_numbers: int
) -> list[np.ndarray]:
    rows, cells = P.shape[1], layout.cells(first)
    if cells > 4 * sum(layout.shape(last)) and len(first) > 1:
        # Few levels to meet many lead cells: a cut further to the front builds less.
        answers = ProductAnswers(P, layout, part_numbers=part_numbers)
        return [
            np.concatenate(list(answers.blocks(Marginal(c)))).reshape(layout.shape(c))
            for c in ((*first, column) for column in last)
        ]
    spans = [layout.span(c) for c in last]
    side = P[np.concatenate([np.arange(s.start, s.stop) for s in spans])]
    ends = np.cumsum([0, *(s.stop - s.start for s in spans)])
    out = [np.empty((cells, s.stop - s.start), P.dtype) for s in spans]
    step = max(1, min(part_numbers // rows, (1 << 23) // len(side)))
    for low in range(0, cells, step):
        high = min(low + step, cells)
        block = product(P, layout.lines(first, low, high), np) @ side.T
        block *= 1 / rows
        for table, start, stop in zip(out, ends[:-1], ends[1:], strict=True):
            table[low:high] = block[:, start:stop]
    return [t.reshape(layout.shape((*first, c))) for t, c in zip(out, last, strict=True)]
