"""Budget annealing (McKenna, Mullins, Sheldon and Miklau 2022, Algorithm 3).

In the paper's letters a round has selection parameter ε_t and noise σ_t and costs
ε_t²/8 + 1/(2σ_t²). Doubling ε and halving σ multiplies both parts by four, so the state of the
schedule is one number, what the last round cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from admeasure.families import HALF_NORMAL
from admeasure.loop import Budget, Round
from admeasure.privacy.cost import Cost

DULL = 0.3
"""The part of a batch that taught little for the round to count as one that did."""


@dataclass(frozen=True)
class Annealed:
    """Rounds of cost `first`, `growth` times as much after one that taught little, until spent.

    `alpha` is the part of each round that goes to measurement. The last round spends exactly what
    is left (line 8 compares with two rounds at the *new* cost), but for `keep`, which stays. A
    round taught little if the answer to what it measured moved by no more than `threshold` times
    the expected L1 norm of its noise. The paper's values are the defaults.
    """

    first: Cost
    alpha: Fraction
    keep: Cost | None = None
    growth: int = 4
    threshold: float = 1.0

    def next(self, remaining: Cost, last: Round[Any] | None) -> Budget | None:
        if self.keep is not None:
            remaining -= self.keep
        if remaining <= self.first * 0:
            return None
        each = self.first
        if last is not None:
            each = last.budget.select + last.budget.measure
            if _dull(last, self.threshold) >= DULL:
                each *= self.growth
        if remaining <= each * 2:
            each = remaining
        return Budget(each * (1 - self.alpha), each * self.alpha)


def _dull(last: Round[Any], threshold: float) -> float:
    """The part of what the round measured that moved by no more than `threshold` times the expected
    L1 norm of noise: ||M_rt(p_t) - M_rt(p_{t-1})||_1 against sqrt(2/π) σ_t n_rt."""
    sets = [m.query.columns for m in last.answers]
    tables = zip(last.after.marginals(sets), last.before.marginals(sets), strict=True)
    dull = 0
    for m, (after, before) in zip(last.answers, tables, strict=True):
        moved = float(np.abs(m.query.answer(after) - m.query.answer(before)).sum())
        dull += moved <= threshold * HALF_NORMAL * m.sigma * m.values.size
    return dull / len(last.answers)
