"""Rows whose counts are nearer to a model's answers than rows drawn from it: a local search.

It starts from the family's own sample. One value of one row changes at a time, to whichever value
brings the rows nearest to the model, and only where that is nearer than before. Nearness is the sum
over target marginals r and their cells x of

    w_r (c_r(x) - t_r(x))² / (t_r(x) + 1)

where c counts the rows, t is the model's answer scaled to their number and w the marginal's weight:
squared distances in units of what chance alone would make of them.

A block of rows at a time. For each column the rows are looked at that gain most by leaving their
cells; the best value of each is found for all of them at once, from counts that then stand still.
The changes are made one after the other, each checked against the counts as they are by then, so
the distance falls with every change. A row enters no structural zero, and no cell of a target that
the model holds impossible.

Weights and costs are multiples of 2⁻³⁰, whose sums are exact as long as they stay below 2²³: what
is chosen does not depend on the order of summation, and the same seed gives the same rows.

Post-processing: it reads the model's answers and public facts (schema, workload, names of what was
measured), and costs nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import Codes, Model
from admeasure.schema import Zero
from admeasure.workload import Workload

MAX_CELLS = 1 << 23
"""Cells of all targets together; the largest marginals are left out."""

MAX_WORK = 2_000_000_000
"""Counts that a search looks at where nobody asked for one: about ten seconds of one core."""

TARGET_WORK = 20_000
"""What one target takes whatever the number of rows, in the same unit."""

BLOCK_CELLS = 1 << 21
"""Rows times targets of a block."""

GRID = 2.0**30
NEVER = 2.0**40
"""The cost of a cell that no row may enter: more than any change can gain."""


@dataclass(frozen=True, eq=False)
class Target:
    """What the counts of a marginal should be near to, and how much that matters."""

    columns: Columns
    counts: np.ndarray
    weight: float

    @classmethod
    def closed(cls, zero: Zero) -> Target:
        """A structural zero: counts do not matter, but no row enters."""
        return cls(zero.columns, (~zero.mask).astype(float), 0.0)


@dataclass(frozen=True)
class Effort:
    """How long to search: every pass goes through all rows, in at least so many `blocks`, and looks
    in each column at the `share` of a block's rows that gain most by leaving their cells, and at
    `values` that they could have instead. It ends where a pass changes nothing, if
    not before."""

    passes: int | None = 1
    blocks: int = 16
    share: float = 0.15
    values: int = 64

    def work(self, domain: Domain, targets: Collection[Columns], rows: int) -> float:
        """How many counts are looked at."""
        a_row = sum(
            1 + self.share * min(domain[column], self.values)
            for columns in targets
            for column in columns
        )
        passes = math.inf if self.passes is None else self.passes
        return rows * a_row * passes + TARGET_WORK * len(targets)


DEFAULT = Effort()


def is_quick(domain: Domain, targets: Collection[Columns], rows: int) -> bool:
    """Whether a search takes seconds: by sizes that are public, and by no clock, so that the same
    release and seed give the same rows everywhere."""
    return DEFAULT.work(domain, targets, rows) <= MAX_WORK


def target_weights(
    domain: Domain, workload: Workload, measured: Iterable[Columns]
) -> dict[Columns, float]:
    """Marginals to come near to, with weights of at most 1: those of the workload; every column
    that they read, each marginal sharing its weight among its columns once more, so that rare
    levels are not lost to it; and what was measured besides, with the workload's mean weight."""
    asked = workload.weights_by_columns()
    mean = math.fsum(asked.values()) / len(asked)
    weights = {columns: mean for columns in measured if columns}
    weights |= asked
    shares: dict[Columns, list[float]] = {}
    for columns, weight in asked.items():
        for column in columns:
            shares.setdefault((column,), []).append(weight / len(columns))
    weights |= {
        column: asked.get(column, 0.0) + math.fsum(parts) for column, parts in shares.items()
    }
    most = max(weights.values())
    chosen: dict[Columns, float] = {}
    room = MAX_CELLS
    for columns in sorted(weights, key=lambda c: (domain.cells(c), c)):
        room -= domain.cells(columns)
        if room < 0:
            break
        chosen[columns] = weights[columns] / most
    return chosen


def targets_of(
    model: Model, weights: dict[Columns, float], rows: int, zeros: Iterable[Zero]
) -> list[Target]:
    """The model's answers for this many rows, and the structural zeros."""
    answers = model.marginals(list(weights))
    scale = rows / model.total if model.total else 0.0
    near = [
        Target(columns, answer * scale, weight)
        for (columns, weight), answer in zip(weights.items(), answers, strict=True)
    ]
    return near + [Target.closed(zero) for zero in zeros]


def improve(
    codes: Codes,
    domain: Domain,
    targets: Sequence[Target],
    rng: np.random.Generator,
    *,
    effort: Effort = DEFAULT,
    seconds: float | None = None,
    tell: Callable[[float], None] = lambda part: None,
) -> Codes:
    """The rows after a search, in the types they came in; after `seconds` as they are by then."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    search = _Search(codes, domain, targets)
    rows = len(search.codes)
    size = max(1, min(math.ceil(rows / effort.blocks), BLOCK_CELLS // max(1, len(targets))))
    passes = 0
    while rows and passes != effort.passes and time.monotonic() < end:
        order = rng.permutation(rows)
        changed = 0
        for first in range(0, rows, size):
            if time.monotonic() >= end:
                break
            changed += search.improve(order[first : first + size], effort, rng, end)
            tell((passes + min(1.0, (first + size) / rows)) / (effort.passes or passes + 1))
        passes += 1
        if not changed:
            break
    return {
        column: search.codes[:, a].astype(codes[column].dtype)
        for a, column in enumerate(domain.columns)
    }


class _Search:
    """Rows under way, and for every cell of every target, all in one array, what a row adds to
    the distance that enters it (`enter`), and by how much that rises with each row (`step`)."""

    def __init__(self, codes: Codes, domain: Domain, targets: Sequence[Target]) -> None:
        columns = domain.columns
        self.levels = domain.levels
        self.codes = np.stack([codes[c] for c in columns], axis=1).astype(np.int64)
        by_column = np.ascontiguousarray(self.codes.T)
        places = {column: a for a, column in enumerate(columns)}
        self.readers: list[list[int]] = [[] for _ in columns]
        """readers[a] are the targets that have column a"""
        self.strides = np.zeros((len(targets), len(columns)), dtype=np.int64)
        self.first = np.zeros(len(targets), dtype=np.int64)
        cells = sum(target.counts.size for target in targets)
        self.enter, self.step = np.empty(cells), np.empty(cells)
        end = 0
        for r, target in enumerate(targets):
            self.first[r], end = end, end + target.counts.size
            shape = target.counts.shape
            here = np.zeros(len(self.codes), dtype=np.int64)
            for axis, column in enumerate(target.columns):
                a, stride = places[column], math.prod(shape[axis + 1 :])
                self.strides[r, a] = stride
                self.readers[a].append(r)
                here += by_column[a] * stride
            count = np.bincount(here, minlength=target.counts.size)
            wanted = target.counts.ravel()
            step = np.rint(GRID * target.weight / (wanted + 1)) / GRID
            enter = np.rint(GRID * step * (count - wanted + 0.5)) / GRID
            self.step[self.first[r] : end] = step
            self.enter[self.first[r] : end] = np.where(wanted > 0, enter, NEVER)
        self.cell_of = self.strides.T.astype(float)
        """what codes are multiplied with, for the cell of a target that a row is in"""
        self.reads = (self.strides > 0).astype(float)
        """reads[r, a] is 1 where target r has column a"""

    def improve(
        self, rows: np.ndarray, effort: Effort, rng: np.random.Generator, end: float
    ) -> int:
        """Change values of these rows, column by column; how many were changed."""
        codes = self.codes[rows]
        cells = (codes.astype(float) @ self.cell_of).astype(np.int64) + self.first
        leave = (self.enter - self.step).take(cells) @ self.reads
        looked = math.ceil(effort.share * len(rows))
        changed = 0
        for a in rng.permutation(len(self.levels)):
            own = np.array(self.readers[a], dtype=np.int64)
            if time.monotonic() > end:
                break
            if not len(own) or self.levels[a] == 1:
                continue
            most = np.argsort(-leave[:, a], kind="stable")[:looked]
            values = np.arange(self.levels[a])
            if self.levels[a] > effort.values:
                values = np.unique(rng.choice(self.codes[:, a], effort.values))
            changed += self._change(a, own, codes, cells, most, values)
        self.codes[rows] = codes
        return changed

    def _change(
        self,
        a: int,
        own: np.ndarray,
        codes: np.ndarray,
        cells: np.ndarray,
        looked: np.ndarray,
        values: np.ndarray,
    ) -> int:
        """Give rows of a block their best value of column `a`, the largest gains first, where it
        still is a gain when their turn comes; `cells[i]` are the cells that row i is in."""
        enter, step, stride = self.enter, self.step, self.strides[own, a]
        best, gain = self._best(codes[looked, a], cells[looked][:, own], stride, values)
        changed = 0
        for j in np.argsort(-gain, kind="stable")[: np.count_nonzero(gain > 0)]:
            i, value = looked[j], best[j]
            old = cells[i].take(own)
            new = old + stride * (value - codes[i, a])
            then, now, less = enter.take(new), enter.take(old), step.take(old)
            if np.add.reduce(then - now + less) < 0:
                enter[old] = now - less
                enter[new] = then + step.take(new)
                cells[i, own] = new
                codes[i, a] = value
                changed += 1
        return changed

    def _best(
        self, now: np.ndarray, cells: np.ndarray, stride: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """For rows with codes `now` in `cells`: the best other value, and what it would gain."""
        cost = np.zeros((len(now), len(values)))
        for first, step in zip((cells - stride * now[:, None]).T, stride, strict=True):
            cost += self.enter.take(first[:, None] + step * values)
        cost[now[:, None] == values] = math.inf
        best = cost.argmin(axis=1)
        leave = self.enter.take(cells).sum(axis=1) - self.step.take(cells).sum(axis=1)
        return values[best], leave - cost[np.arange(len(now)), best]
