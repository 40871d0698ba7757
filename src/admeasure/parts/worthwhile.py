"""Whether rounds are worth what they cost: what they found, beside what the last pass would gain.

A round takes budget from the last pass, which would make everything known less noisy with it. Where
a table has many columns and few rows, noise in single columns weighs more than what is left to find
of pairs: there rounds should end at once, and `independent` is nearly the best that can be had.

Of a query q, in shares of the rows, let N be the L1 distance that noise would cause if the last
pass came now, D how far its answer moved since the stretch of rounds began, less what follows from
moves of its columns alone, and F what chance alone puts between a table of so many rows and its
law. Without the stretch the error would be about sqrt(N_before² + D² + F²), with it it is
sqrt(N_after² + F²). Rounds end when the mean over the workload is no less with the stretch.

    N² = Σ over the measured sets A in q of (sqrt(2/π) n_eff(A) tau_A / rows)²   (`final_pass.py`)
    F = sqrt(2/π) sqrt(cells / rows)

Everything here is a function of released values and public facts: it costs nothing.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import HALF_NORMAL, Model
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
    """A run at one moment: the part of the budget that is left, of each query N² in rows and its
    table in shares, less the product of its columns."""

    left: Fraction
    noise: np.ndarray
    held: list[np.ndarray]


class Stretches:
    """The rounds of a run, judged one stretch after another."""

    def __init__(
        self, curator: Curator, workload: Workload, model: Model, log: Sequence[Measurement]
    ) -> None:
        self._curator, self._workload = curator, workload
        self._weights = judged(curator.domain, workload)
        self._begun = self._view(model, log)

    def ended(self, model: Model, log: Sequence[Measurement]) -> bool:
        """Whether a stretch is over now, and was not worth its cost."""
        left = self._curator.remaining.ratio(self._curator.budget)
        if not self._weights or self._begun.left - left < STRETCH:
            return False
        before, self._begun = self._begun, self._view(model, log)
        return gained(before, self._begun, list(self._weights.values()), model.total) <= 0

    def _view(self, model: Model, log: Sequence[Measurement]) -> View:
        found = final_pass.foreseen(self._curator, self._workload, model, log)
        scale = (HALF_NORMAL * found.heard * found.tau) ** 2
        squares = dict(zip(found.sets, scale.tolist(), strict=True))
        noise = [
            sum(squares.get(a, 0.0) for n in range(1, len(q) + 1) for a in combinations(q, n))
            for q in self._weights
        ]
        left = self._curator.remaining.ratio(self._curator.budget)
        return View(left, np.array(noise), dependence(model, list(self._weights)))


def judged(domain: Domain, workload: Workload) -> dict[Columns, float]:
    """The marginals of several columns that rounds are judged by, and what each weighs."""
    weights: dict[Columns, float] = defaultdict(float)
    for query, weight in workload.entries:
        if len(query.columns) > 1:
            weights[query.columns] += weight
    order = random.Random(0).sample(list(weights), len(weights))[:MOST_QUERIES]
    cells = np.cumsum([domain.cells(q) for q in order])
    return {q: weights[q] for q in order[: int(np.searchsorted(cells, MOST_CELLS, "right"))]}


def gained(before: View, after: View, weights: Sequence[float], rows: float) -> float:
    """How much less the foreseen error is for what was done between two views."""
    moved = np.array([np.abs(b - a).sum() for a, b in zip(before.held, after.held, strict=True)])
    chance = np.array([HALF_NORMAL**2 * table.size / rows for table in after.held])
    without = np.sqrt(before.noise / rows**2 + moved**2 + chance)
    return float(np.average(without - np.sqrt(after.noise / rows**2 + chance), weights=weights))


def dependence(model: Model, sets: Sequence[Columns]) -> list[np.ndarray]:
    """Of each set its table less the product of its columns, both in shares of the rows."""
    columns = sorted({c for s in sets for c in s})
    tables = model.marginals([(c,) for c in columns])
    single = {c: t / t.sum() for c, t in zip(columns, tables, strict=True)}
    return [
        table / model.total - reduce(np.multiply.outer, [single[c] for c in columns])
        for columns, table in zip(sets, model.marginals(sets), strict=True)
    ]
