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

Everything here is a function of released values and public facts: it costs nothing.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations
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
    what its noise adds to N, in rows, and of each query its table less the product of its columns,
    in shares."""

    left: Fraction
    noise: Mapping[Columns, float]
    held: Sequence[np.ndarray]


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
        self._weights = judged(curator.domain, workload)
        self._begun = self._view(model, log)
        self._judge_at = STRETCH
        self._found = np.zeros(2)

    def ended(self, done: Round[Any], log: Sequence[Measurement]) -> bool:
        """Whether they are to be judged after this one, and were not worth their cost."""
        self._found += free_and_found(done)
        spent = self._begun.left - self._curator.remaining.ratio(self._curator.budget)
        if not self._weights or spent < self._judge_at:
            return False
        real = part_real(*self._found.tolist())
        before, now = self._begun, self._view(done.after, log)
        if self._together:
            self._judge_at = 2 * spent
        else:
            self._begun, self._found = now, np.zeros(2)
        return gained(before, now, self._weights, real, done.after.total) <= 0

    def _view(self, model: Model, log: Sequence[Measurement]) -> View:
        found = final_pass.foreseen(self._curator, self._workload, model, log)
        scale = (HALF_NORMAL * found.heard * found.tau) ** 2
        noise = dict(zip(found.sets, scale.tolist(), strict=True))
        left = self._curator.remaining.ratio(self._curator.budget)
        return View(left, noise, dependence(model, list(self._weights)))


def judged(domain: Domain, workload: Workload) -> dict[Columns, float]:
    """The marginals of several columns that rounds are judged by, and what each weighs."""
    weights: dict[Columns, float] = defaultdict(float)
    for query, weight in workload.entries:
        if len(query.columns) > 1:
            weights[query.columns] += weight
    order = random.Random(0).sample(list(weights), len(weights))[:MOST_QUERIES]
    cells = np.cumsum([domain.cells(q) for q in order])
    return {q: weights[q] for q in order[: int(np.searchsorted(cells, MOST_CELLS, "right"))]}


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


def gained(
    before: View, now: View, weights: Mapping[Columns, float], real: float, rows: float
) -> float:
    """How much less the foreseen error is for what was done between two views, in the mean over
    queries of these weights; `real` is r."""
    moved = np.array([np.abs(b - a).sum() for a, b in zip(before.held, now.held, strict=True)])
    chance = np.array([HALF_NORMAL**2 * table.size / rows for table in now.held])
    inside = [
        [a for n in range(1, len(q) + 1) for a in combinations(q, n) if a in before.noise]
        for q in weights
    ]
    noise = [np.array([sum(v.noise[a] for a in sets) for sets in inside]) for v in (before, now)]
    without = np.sqrt(noise[0] / rows**2 + real * moved**2 + chance)
    with_them = np.sqrt(noise[1] / rows**2 + chance)
    return float(np.average(without - with_them, weights=list(weights.values())))


def dependence(model: Model, sets: Sequence[Columns]) -> list[np.ndarray]:
    """Of each set its table less the product of its columns, both in shares of the rows."""
    columns = sorted({c for s in sets for c in s})
    tables = model.marginals([(c,) for c in columns])
    single = {c: t / t.sum() for c, t in zip(columns, tables, strict=True)}
    return [
        table / model.total - reduce(np.multiply.outer, [single[c] for c in columns])
        for columns, table in zip(sets, model.marginals(sets), strict=True)
    ]
