"""Whether rounds are worth what they cost: what they found, beside what the last pass would gain.

A round takes budget from the last pass, which would make everything known less noisy with it. Where
a table has many columns and few rows, noise in single columns weighs more than what is left to find
of pairs: there rounds should end at once, and `independent` is nearly the best that can be had.

Of a query q, in shares of the rows, let N be the L1 distance that noise in what was measured before
would cause if the last pass came now, D how far its answer moved since then, less what follows from
moves of its columns alone, and F what chance alone puts between a table of so many rows and its
law. Without the rounds the error would be about sqrt(N_before² + r D² + F²), with them it is
sqrt(N_now² + F²). Rounds end when the mean over the workload is no less with them.

    N² = Σ over the sets A in q measured before of (sqrt(2/π) n_eff(A) tau_A / rows)²
    F = sqrt(2/π) sqrt(cells / rows)                                         (`final_pass.py`)
    r = 1 - (f - sqrt(2f)) / |e/sigma|², from 0 to 1: the part of what they found that is no noise

Of all that the rounds measured, e is how far it is from what the model said before, less what its
columns have alone, which leaves f cells free. Noise is fresh, whatever was chosen: |e/sigma|² is
what the model missed and, on average, f, with standard deviation sqrt(2f), which is granted for
doubt. Where a table holds no dependence r is small, however far noise moved the model. Noise in
what the rounds measured is no part of N_now: fits are shrunk, and D² is then about by how much the
squared error fell, such noise included (the variance of a belief is that of its mean after the data
and, on average, what is left of it then).

A round of a batch is many choices and tells what the next one will find: it is judged by itself. A
round of one tells little, and the first ones cost next to nothing: all so far are judged together.

Of a workload that is looked at by a sample the moves D of larger queries are not asked of the
model, which would take longer than all else: D² is taken to be the sum over the pairs in it. Pairs
are what rounds choose there, and moves of different pairs are nearly orthogonal (over 52 rounds on
wide tables what was gained differed by at most 7% and never in its sign).

Everything here is a function of released values and public facts: it costs nothing.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain, combinations
from typing import Any

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import HALF_NORMAL, Model
from admeasure.loop import Round
from admeasure.measurement import Measurement
from admeasure.parts import final_pass
from admeasure.privacy.curator import Curator
from admeasure.workload import Workload

STRETCH = Fraction(1, 40)
"""The part of the budget that rounds spend, at the least, before they are judged."""
MOST_QUERIES, MOST_CELLS = 20_000, 4_000_000
"""Of more queries, or of more cells, they are judged by a public sample."""


@dataclass(frozen=True, eq=False)
class View:
    """A run at one moment: the part of the budget that is left, of each measured set the square of
    what its noise adds to N, in rows, and what the model held of each set that is looked at
    (`dependence`)."""

    left: Fraction
    noise: Mapping[Columns, float]
    held: Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class JudgedBy:
    """The queries that rounds are judged by, what each weighs, and of each the sets whose moves are
    looked at: the query itself, or the pairs in it."""

    domain: Domain
    queries: Sequence[Columns]
    weights: np.ndarray
    looked: Sequence[Sequence[Columns]]

    @cached_property
    def cells(self) -> np.ndarray:
        return np.array([self.domain.cells(q) for q in self.queries], dtype=float)

    @cached_property
    def groups(self) -> list[list[Columns]]:
        """The sets that are looked at, those of one shape together."""
        found: dict[tuple[int, ...], list[Columns]] = defaultdict(list)
        for columns in dict.fromkeys(chain.from_iterable(self.looked)):
            found[self.domain.shape(columns)].append(columns)
        return list(found.values())

    @cached_property
    def _places(self) -> np.ndarray:
        """Of the sets of each query, one query after the other, where they are in the groups."""
        place = {columns: i for i, columns in enumerate(chain.from_iterable(self.groups))}
        return np.array([place[columns] for columns in chain.from_iterable(self.looked)])

    @cached_property
    def _holding(self) -> dict[str, np.ndarray]:
        found: dict[str, list[int]] = defaultdict(list)
        for i, query in enumerate(self.queries):
            for column in query:
                found[column].append(i)
        return {column: np.array(numbers) for column, numbers in found.items()}

    def holding(self, columns: Columns) -> np.ndarray:
        """The numbers of the queries that have all of these columns."""
        none = np.empty(0, dtype=np.intp)
        return reduce(_in_both, [self._holding.get(c, none) for c in columns])

    def moved(self, before: View, now: View) -> np.ndarray:
        """D of each query."""
        pairs = zip(before.held, now.held, strict=True)
        moves = [np.abs(b - a).reshape(len(a), -1).sum(axis=1) for a, b in pairs]
        squares = np.square(np.concatenate(moves))
        starts = np.cumsum([0, *map(len, self.looked[:-1])])
        return np.sqrt(np.add.reduceat(squares[self._places], starts))

    def noise(self, of: View, counted: Iterable[Columns]) -> np.ndarray:
        """N² of each query, in rows, by these sets."""
        total = np.zeros(len(self.queries))
        for columns in counted:
            total[self.holding(columns)] += of.noise[columns]
        return total


def _in_both(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return np.intersect1d(one, two, assume_unique=True)


class Stretches:
    """The rounds of a run, judged one stretch after another, or all of them so far `together`
    whenever they have spent twice as much as when they were judged last."""

    def __init__(
        self,
        curator: Curator,
        workload: Workload,
        model: Model,
        log: Sequence[Measurement],
        *,
        together: bool,
    ) -> None:
        self._curator, self._workload, self._together = curator, workload, together
        self._judged = judged(curator.domain, workload)
        self._begun = self._view(model, log)
        self._judge_at = STRETCH
        self._found = np.zeros(2)

    def ended(self, done: Round[Any], log: Sequence[Measurement]) -> bool:
        """Whether they are to be judged after this one, and were not worth their cost."""
        self._found += free_and_found(done)
        spent = self._begun.left - self._curator.remaining.ratio(self._curator.budget)
        if not self._judged.queries or spent < self._judge_at:
            return False
        real = part_real(*self._found.tolist())
        before, now = self._begun, self._view(done.after, log)
        if self._together:
            self._judge_at = 2 * spent
        else:
            self._begun, self._found = now, np.zeros(2)
        return gained(before, now, self._judged, real, done.after.total) <= 0

    def _view(self, model: Model, log: Sequence[Measurement]) -> View:
        found = final_pass.foreseen(self._curator, self._workload, model, log)
        scale = (HALF_NORMAL * found.heard * found.tau) ** 2
        noise = dict(zip(found.sets, scale.tolist(), strict=True))
        left = self._curator.remaining.ratio(self._curator.budget)
        return View(left, noise, dependence(model, self._judged.groups))


def judged(domain: Domain, workload: Workload) -> JudgedBy:
    """The marginals of several columns that rounds are judged by, and what each weighs."""
    weights: dict[Columns, float] = defaultdict(float)
    for query, weight in workload.entries:
        if len(query.columns) > 1:
            weights[query.columns] += weight
    order = random.Random(0).sample(list(weights), len(weights))[:MOST_QUERIES]
    looked = [list(combinations(q, 2)) if workload.sampled else [q] for q in order]
    cells = np.cumsum([sum(map(domain.cells, sets)) for sets in looked])
    few = slice(int(np.searchsorted(cells, MOST_CELLS, "right")))
    return JudgedBy(domain, order[few], np.array([weights[q] for q in order[few]]), looked[few])


def free_and_found(done: Round[Any]) -> tuple[int, float]:
    """Σ f and Σ |e/sigma|² over what a round measured of several columns."""
    free, found = 0, 0.0
    tables = done.before.marginals([m.query.columns for m in done.answers])
    for m, table in zip(done.answers, tables, strict=True):
        if table.ndim > 1:
            free += table.size - 1 - sum(n - 1 for n in table.shape)
            found += float(np.square(beyond_columns(m.values - table)).sum()) / m.sigma**2
    return free, found


def part_real(free: float, found: float) -> float:
    """r; nothing where nothing of several columns was measured."""
    noise = max(0.0, free - math.sqrt(2 * free))
    return 1 - noise / found if found > noise else 0.0


def beyond_columns(table: np.ndarray) -> np.ndarray:
    """The table less what its columns have each by itself, the nearest sum of functions of one."""
    axes = range(table.ndim)
    alone = [table.mean(tuple(a for a in axes if a != axis), keepdims=True) for axis in axes]
    return table - sum(alone) + (table.ndim - 1) * table.mean()


def gained(before: View, now: View, over: JudgedBy, real: float, rows: float) -> float:
    """How much less the foreseen error is for what was done between two views, in the mean over
    queries by their weights; `real` is r."""
    moved, chance = over.moved(before, now), HALF_NORMAL**2 * over.cells / rows
    noise = [over.noise(view, before.noise) for view in (before, now)]
    without = np.sqrt(noise[0] / rows**2 + real * moved**2 + chance)
    with_them = np.sqrt(noise[1] / rows**2 + chance)
    return float(np.average(without - with_them, weights=over.weights))


def dependence(model: Model, groups: Sequence[Sequence[Columns]]) -> list[np.ndarray]:
    """Of each group of sets of one shape, an array of the sets' tables less the products of their
    columns, both in shares of the rows."""
    columns = sorted({c for sets in groups for s in sets for c in s})
    tables = model.marginals([(c,) for c in columns])
    single = {c: t / t.sum() for c, t in zip(columns, tables, strict=True)}
    answers = iter(model.marginals([s for sets in groups for s in sets]))
    found = []
    for sets in groups:
        held = np.stack([next(answers) for _ in sets]) / model.total
        sides = [np.stack([single[s[axis]] for s in sets]) for axis in range(len(sets[0]))]
        product = sides[0]
        for side in sides[1:]:
            product = product[..., None] * side.reshape(len(sets), *[1] * (product.ndim - 1), -1)
        found.append(held - product)
    return found
