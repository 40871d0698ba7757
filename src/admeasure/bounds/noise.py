"""What is known of noise: its norm, the tails of sums, and what stands behind a noisy distance.

The curator's noise is the discrete Gaussian N_Z(0, σ²) of Canonne, Kamath and Steinke (2020). Four
facts about it are used, at every σ; docs/explanations/bounds.md proves or tests each:

- a sum of n draws passes h with a probability that `sum_tail` bounds: the law itself, with a
  correction of continuity, for one draw and for sums where σ is not small;
- it is subgaussian with variance σ² (their Corollary 17), so weighted sums have Chernoff's tails;
- it lies below a normal law of variance σ² + 1/8 in the convex order, so that what is convex in the
  noise, as norms are, has no larger expectation than that law gives it;
- E|x + z| is at least that of the normal law less 0.1/σ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from admeasure.families import HALF_NORMAL

SQRT2 = math.sqrt(2)

ROUNDING = 1 / 8
"""What must be added to σ² so that a normal law of that variance lies above the discrete one in
the convex order."""

GOLDEN = (math.sqrt(5) - 1) / 2

ONE_SIGMA = NormalDist().cdf(-1.0)
"""Beyond one σ the density of the normal law is convex, and only there sums lie below integrals."""


def variance(sigma: float) -> float:
    """Of a normal law above the discrete one in the convex order; none where there is no noise."""
    return sigma**2 + ROUNDING if sigma else 0.0


@lru_cache(maxsize=65536)
def sum_tail(draws: int, sigma: float, beta: float) -> int:
    """h with P(S > h) <= beta for S the sum of `draws` independent draws of N_Z(0, σ²).

    With s = σ sqrt(n) and θ = Σ_v exp(-π²σ²v²) over all whole v, P(S >= m) <= θ^n P(N(0, s²) >= m -
    1/2) for m - 1/2 >= s, and θ^n may be left out for n = 1. Chernoff's P(S >= x) <= exp(-x²/2s²)
    holds too.

    >>> [sum_tail(1, sigma, 0.025) for sigma in (0.1, 0.3, 1.0, 10.0)]
    [0, 0, 2, 20]
    """
    return int(sum_tails(np.array([draws]), sigma, beta)[0])


def sum_tails(draws: np.ndarray, sigma: float, beta: float) -> np.ndarray:
    """`sum_tail` for many numbers of draws; 0 of none."""
    if not sigma:
        return np.zeros(draws.shape)
    s = sigma * np.sqrt(draws)
    chernoff = np.ceil(s * math.sqrt(-2 * math.log(beta)))
    parts = np.exp(math.log(beta) - np.where(draws > 1, draws * _log_theta(sigma), 0.0))
    # One number for all of them, where σ is not small.
    distinct, places = np.unique(np.minimum(parts, ONE_SIGMA), return_inverse=True)
    z = np.array([_quantile(part) for part in distinct.tolist()])[places.reshape(draws.shape)]
    law = np.ceil(s * np.where(draws, z, 0.0) * (1 + 1e-12) + 0.5)
    return np.maximum(0.0, np.minimum(chernoff, law) - 1)


def _quantile(part: float) -> float:
    """What a standard normal law passes with this probability; infinite where nothing is left."""
    return -NormalDist().inv_cdf(part) if part >= 1e-300 else math.inf


@lru_cache(maxsize=4096)
def _log_theta(sigma: float) -> float:
    most = math.ceil(2.5 / sigma)  # the terms beyond it are below 1e-26
    return math.log1p(2 * sum(math.exp(-((math.pi * sigma * v) ** 2)) for v in range(1, most + 1)))


def weighted_tail(beta: float) -> float:
    """x with P(Σ w_i z_i >= x σ ||w||) <= beta, for noise that is subgaussian with variance σ²,
    whatever the weights, and also at the worst moment of a sum that goes on (Ville)."""
    return math.sqrt(-2 * math.log(beta))


@lru_cache(maxsize=4096)
def unit_norm(cells: int, beta: float) -> float:
    """x with P(||z||_1 >= x) <= beta for z standard normal in `cells` dimensions.

    Chernoff: E exp(θ|z|) = 2 exp(θ²/2) Φ(θ), so x = (log 1/beta + n log of that) / θ for any θ > 0.
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return (
            -math.log(beta) + cells * (theta**2 / 2 + math.log1p(math.erf(theta / SQRT2)))
        ) / theta

    # θ = sqrt(2 log(1/beta) / n) would be best for normal tails of variance 1; it is within a
    # factor of two of the best θ here, and any θ gives a valid bound.
    guess = math.log(math.sqrt(-2 * math.log(beta) / cells))
    low, high = guess - 3, guess + 3
    for _ in range(40):  # by golden sections
        inner = GOLDEN * (high - low)
        if bound(high - inner) < bound(low + inner):
            high = low + inner
        else:
            low = high - inner
    return min(bound(low), bound(guess))


def paper_noise_norm(sigma: float, cells: int, beta: float) -> float:
    """Theorem 3 as printed."""
    lam = math.sqrt(math.log(1 / beta))
    return math.sqrt(2 * math.log(2)) * sigma * cells + lam * sigma * math.sqrt(2 * cells)


def folded_mean(x: float, sigma: float) -> float:
    """E|x + z| for z normal with scale sigma: the mean of a folded normal."""
    t = x / sigma
    return sigma * HALF_NORMAL * math.exp(-t * t / 2) + x * math.erf(t / SQRT2)


def least_folded_mean(x: float, sigma: float) -> float:
    """At most E|x + z| for z discrete Gaussian: convex and, for x >= 0, increasing."""
    return max(x, folded_mean(x, sigma) - 0.1 / sigma)


def error_behind(observed: float, sigma: float, cells: int, beta: float) -> float:
    """An upper bound on ||a - b||_1 from ||a - (b + z)||_1, a fixed before z was drawn.

    With probability 1 - beta the observed norm is at least its mean less λ σ sqrt(n), and its
    mean, a sum of convex folded means, is at least n g(||a - b||_1 / n): invert g.
    """
    lam = math.sqrt(2 * math.log(1 / beta))
    mean = (observed + lam * sigma * math.sqrt(cells)) / cells
    if mean <= least_folded_mean(0.0, sigma):
        return 0.0
    if least_folded_mean(mean, sigma) <= mean:  # far beyond the noise, where E|x + z| rounds to x
        return cells * mean
    # Newton's steps on a convex function that increases come down to its root from above, so that
    # the bound holds wherever they end.
    x, step = mean, math.inf
    while step > 1e-12 * x:
        folded = folded_mean(x, sigma) - 0.1 / sigma
        slope = math.erf(x / sigma / SQRT2) if folded > x else 1.0
        step = (max(x, folded) - mean) / slope
        x -= min(max(0.0, step), x / 2)
    return cells * x


@dataclass(frozen=True)
class EstimateNoise:
    """An estimate ȳ = M + S / V: V is `precision`, S within N(0, V̄ I): docs/explanations/bounds.md.

    `sigma` is sqrt(V̄) / V, the scale to compute with; `sigma_mean` is 1 / sqrt(V), the paper's σ̄.
    `part` is the part of beta that a statement about ȳ may use.
    """

    sigma: float
    sigma_mean: float
    part: float = 1.0

    def norm(self, cells: int, beta: float) -> float:
        """||ȳ - M||_1 passes this with probability at most beta."""
        return self.sigma * unit_norm(cells, self.part * beta) if self.sigma else 0.0

    def tail(self, beta: float) -> float:
        """A weighted sum of ȳ - M, with weights of L2 norm 1, passes this upwards with probability
        at most beta."""
        return self.sigma * weighted_tail(self.part * beta)


STEP, SPREAD = 1.1, 20
"""Precisions are rounded up to powers of STEP times that of the first measurement. The j-th power
has the part 1 / (1 + (j / SPREAD)²) of beta, divided by the sum over all whole j."""


def rounded_up(precision: float, first_variance: float) -> EstimateNoise:
    """What is known of the noise of an average whose precision was not fixed beforehand."""
    j = math.ceil(math.log(precision * first_variance) / math.log(STEP) - 1e-9)
    ceiling = STEP**j / first_variance
    whole = math.pi * SPREAD / math.tanh(math.pi * SPREAD)
    part = 1 / (1 + (j / SPREAD) ** 2) / whole
    sigma = math.sqrt(max(ceiling, precision)) / precision
    return EstimateNoise(sigma, precision**-0.5, part)
