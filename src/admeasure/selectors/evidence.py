"""What a private selection says about what it did not select."""

from __future__ import annotations

from dataclasses import dataclass

from admeasure.domain import Columns


@dataclass(frozen=True, eq=False)
class Selection:
    """What one private selection says about the candidates that were not chosen (AIM, section 5).

    Names follow Theorem 4: `chosen` r_t, `weights` w_r over the candidates C_t, `sigma` σ_t,
    `epsilon` ε_t, `sensitivity` in rows times max weight, `estimated` ||M_rt(p_{t-1}) - y_t||_1,
    and for each candidate for which this round was kept the distance
    ||M_r(final model) - M_r(p_{t-1})||_1. `penalty` is what the score took off for each cell, in
    the paper sqrt(2/π) σ_t. `share` is the round's part of what all selections of the run cost,
    known before the round began.
    """

    chosen: Columns
    candidates: int
    weights: dict[Columns, float]
    distances: dict[Columns, float]
    sigma: float
    penalty: float
    epsilon: float
    sensitivity: float
    estimated: float
    share: float
