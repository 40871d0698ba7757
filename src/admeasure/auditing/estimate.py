"""Lower bounds on the privacy loss of a mechanism, from runs on two neighbouring tables.

A statistic of the outcome is larger under D than under D'. Whatever the statistic and the
thresholds, provided they were fixed before looking, an event E = {statistic > t} gives

    (epsilon, delta)-DP:  P_D(E) <= e^epsilon P_D'(E) + delta,
    mu-GDP:               (P_D(E) + 1 - P_D'(E)) / 2 <= Phi(mu / 2)   (Dong, Roth and Su 2022),

so Clopper-Pearson bounds on the two probabilities bound epsilon from below, and one on how often
the event tells the tables apart bounds mu. Each bound here is at most the true one with probability
at least 1 - `alpha`, over all thresholds and both directions together (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv, ndtri


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Bounds on a probability, each wrong with probability at most alpha.

    >>> low, high = clopper_pearson(0, 10, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.2589)
    """
    low = float(betaincinv(successes, trials - successes + 1, alpha)) if successes else 0.0
    high = 1.0
    if successes < trials:
        high = float(betaincinv(successes + 1, trials - successes, 1 - alpha))
    return low, high


def epsilon_lower(
    under_d: np.ndarray,
    under_other: np.ndarray,
    delta: float,
    thresholds: Sequence[float],
    alpha: float,
) -> float:
    """A lower bound on epsilon at this delta; 0 where the runs show none."""
    best = 0.0
    for low, high in _events(under_d, under_other, thresholds, alpha):
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def mu_lower(under_d: np.ndarray, under_other: np.ndarray, alpha: float) -> float:
    """A lower bound on mu of Gaussian differential privacy; 0 where the runs show none.

    A run whose statistic is positive is taken for one on D. Of as many runs on either table the
    right ones are a sum of two binomial counts, whose mean chance is at most Phi(mu / 2). Above its
    mean, such a sum has no heavier tail than one binomial count with that chance (Hoeffding 1956,
    theorem 5); so Clopper and Pearson's bound on the chance holds for it.
    """
    if len(under_d) != len(under_other):
        raise ValueError("as many runs on either table")
    right = int((under_d > 0).sum()) + int((under_other <= 0).sum())
    low, _ = clopper_pearson(right, 2 * len(under_d), alpha)
    return max(0.0, 2 * float(ndtri(low)))


def _events(
    under_d: np.ndarray, under_other: np.ndarray, thresholds: Sequence[float], alpha: float
) -> list[tuple[float, float]]:
    """For each event a lower bound on its larger and an upper bound on its smaller probability."""
    each = alpha / (4 * len(thresholds))
    bounds = []
    for t in thresholds:
        for larger, smaller in (
            (under_d > t, under_other > t),
            (under_other < -t, under_d < -t),
        ):
            low, _ = clopper_pearson(int(larger.sum()), len(larger), each)
            _, high = clopper_pearson(int(smaller.sum()), len(smaller), each)
            bounds.append((low, high))
    return bounds
