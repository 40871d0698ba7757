"""A last pass over everything a graphical model holds, each marginal with the share it deserves.

When all marginals are chosen, what was kept back is divided among the sets A of columns in their
downward closure. A measurement of c ⊇ A with noise sigma_c says as much about A as one of A itself
with variance sigma_c² n_c / n_A (n: cells), so with shares s_c of `rho`

    1 / tau_A² = what is known so far + sum over c ⊇ A of (n_A / n_c) 2 rho s_c / l2²,

and the workload's error from noise is about the sum over A of w_A n_eff(A) tau_A: w_A is the weight
of the queries that read all of A, n_eff(A) the sum over its cells of (m / (m + 0.15 tau_A))², m the
model's count, since cells in which there is next to nothing are fitted to next to nothing. That
is convex in the shares; steps s_c <- s_c (-gradient_c)^(2/3), made to add up to 1, go down to its
minimum, and reach it at once where no set lies in another.

Everything here is a function of released values and public facts: choosing shares costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from admeasure.domain import Columns, Domain, closure, subsets
from admeasure.families import Model
from admeasure.measurement import Measurement
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal
from admeasure.workload import Workload

STEPS = 60
SMALLEST = 1e-4
"""A set whose share is less is not measured; the others get it."""
HALF_HEARD = 0.15
"""A cell of this many tau is half heard: (m / (m + HALF_HEARD tau)) is 1/2."""


@dataclass(frozen=True, eq=False)
class Prospect:
    """What the last pass would do now: of every set its share, the cells in which noise is heard
    and tau when the pass is done."""

    sets: list[Columns]
    shares: np.ndarray
    heard: np.ndarray
    tau: np.ndarray


def again(
    curator: Curator, workload: Workload, model: Model, log: Sequence[Measurement]
) -> tuple[Measurement, ...]:
    """Spend all that the curator has left on the closure of what was measured."""
    if not curator.remaining:
        return ()
    found = foreseen(curator, workload, model, log)
    each = zip(found.sets, found.shares, strict=True)
    kept = [(Marginal(c), Fraction(s)) for c, s in each if s > SMALLEST]
    return curator.measure([q for q, _ in kept], curator.remaining, [s for _, s in kept])


def foreseen(
    curator: Curator, workload: Workload, model: Model, log: Sequence[Measurement]
) -> Prospect:
    """The pass as it would be with all that the curator has left; reads nothing private."""
    domain, l2_squared = curator.domain, curator.unit.rows_changed * curator.unit.max_rows
    sets = closure(m.query.columns for m in log)
    inside = part_said(domain, sets)
    place = {c: i for i, c in enumerate(sets)}
    so_far = np.zeros(len(sets))
    for m in log:
        so_far += inside[:, place[m.query.columns]] / m.sigma**2
    tau = so_far**-0.5
    cells = np.array([heard(t, s) for t, s in zip(model.marginals(sets), tau, strict=True)])
    gain = inside * (2 * float(curator.remaining) / l2_squared)
    weights = np.array(workload.reading(sets))  # w_A
    found = shares(weights * cells, so_far, gain)
    return Prospect(sets, found, cells, (so_far + gain @ found) ** -0.5)


def part_said(domain: Domain, sets: Sequence[Columns]) -> np.ndarray:
    """n_A / n_c for each set A (row) inside the set c (column), else 0."""
    place = {c: i for i, c in enumerate(sets)}
    found = np.zeros((len(sets), len(sets)))
    for c in sets:
        for subset in subsets(c):
            found[place[subset], place[c]] = domain.cells(subset) / domain.cells(c)
    return found


def heard(counts: np.ndarray, tau: float) -> float:
    """n_eff: how many of the cells hold enough rows for noise of scale tau to be seen."""
    return float(np.square(counts / (counts + HALF_HEARD * tau)).sum())


def shares(cost: np.ndarray, so_far: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """The s >= 0 with sum 1 that minimises Σ_A cost_A (so_far_A + Σ_c gain_Ac s_c)^(-1/2)."""
    found = np.full(len(cost), 1 / len(cost))
    for _ in range(STEPS):
        pull = (cost * (so_far + gain @ found) ** -1.5) @ gain
        found *= pull ** (2 / 3)
        found /= found.sum()
    return found
