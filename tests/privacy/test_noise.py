"""The distributions of the noise: against exact probabilities, and against OpenDP's samplers.

Seeds are fixed where the noise can be seeded. `ALARM` is the chance that a right sampler fails a
test, given the seeds had been drawn at random; for noise that cannot be seeded it is 1e-9.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from admeasure.privacy.bits import SeededBits
from admeasure.privacy.noise import ExactNoise, SeededNoise
from races import raced

ALARM = 1e-6
UNSEEDED_ALARM = 1e-9
DRAWS = 1_000_000

pytestmark = pytest.mark.statistical


def gaussian_pmf(sigma: float) -> dict[int, float]:
    reach = math.ceil(12 * sigma) + 2
    weights = {y: math.exp(-y * y / (2 * sigma * sigma)) for y in range(-reach, reach + 1)}
    return normalised(weights)


def laplace_pmf(scale: float) -> dict[int, float]:
    reach = math.ceil(45 * scale) + 2
    return normalised({y: math.exp(-abs(y) / scale) for y in range(-reach, reach + 1)})


def normalised(weights: dict) -> dict:
    total = math.fsum(weights.values())
    return {key: w / total for key, w in weights.items()}


def chi_square_p(counts: Counter, pmf: dict, draws: int) -> float:
    """The p-value; outcomes expected fewer than 20 times are put together."""
    assert set(counts) <= set(pmf)
    common = [key for key in pmf if pmf[key] * draws >= 20]
    observed = [counts[key] for key in common]
    expected = [pmf[key] * draws for key in common]
    rest = draws - math.fsum(expected)
    if rest >= 20:
        observed.append(draws - sum(observed))
        expected.append(rest)
    else:  # too few for the approximation: judge them by their Poisson tail
        assert stats.poisson.sf(draws - sum(observed) - 1, max(rest, 1e-9)) > ALARM / 2
        expected = [e * sum(observed) / math.fsum(expected) for e in expected]
    if len(expected) == 1:
        return 1.0
    return float(stats.chisquare(observed, expected, sum_check=False).pvalue)


def counted(draws: np.ndarray) -> Counter:
    values, counts = np.unique(draws, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


@pytest.mark.parametrize("sigma", [0.2, 0.5, 0.75, 1.0, 3.7, 50.0])
def test_the_discrete_gaussian_has_its_exact_probabilities(sigma):
    """False alarm 1e-6 a case."""
    draws = SeededNoise(11).discrete_gaussian(sigma, DRAWS)
    assert chi_square_p(counted(draws), gaussian_pmf(sigma), DRAWS) > ALARM


@pytest.mark.parametrize("sigma", [0.5, 3.7])
def test_unseeded_the_discrete_gaussian_has_its_exact_probabilities(sigma):
    """False alarm 1e-9 a case."""
    draws = ExactNoise().discrete_gaussian(sigma, DRAWS)
    assert chi_square_p(counted(draws), gaussian_pmf(sigma), DRAWS) > UNSEEDED_ALARM


@pytest.mark.parametrize("scale", [0.2, 0.5, 1.0, 3.7, 50.0])
def test_the_discrete_laplace_has_its_exact_probabilities(scale):
    """False alarm 1e-6 a case."""
    draws = SeededNoise(12).discrete_laplace(scale, DRAWS)
    assert chi_square_p(counted(draws), laplace_pmf(scale), DRAWS) > ALARM


@pytest.mark.parametrize("size", [1, 2, 7])
def test_small_requests_have_the_same_law_as_large_ones(size):
    """A surplus of proposals is thrown away, and that must not prefer some draws. 1e-6."""
    noise = SeededNoise(13)
    draws = np.concatenate([noise.discrete_gaussian(1.3, size) for _ in range(30_000 // size)])
    assert chi_square_p(counted(draws), gaussian_pmf(1.3), len(draws)) > ALARM


@pytest.mark.parametrize("sigma", [1e4, 1e6, 1e9, 2.0**40])
def test_a_large_discrete_gaussian_is_normal_as_far_as_samples_tell(sigma):
    """Kolmogorov-Smirnov, mean and variance, 1e-6 each. 100,000 draws cannot see the grid."""
    size = 100_000 if sigma < 1e10 else 20_000
    z = SeededNoise(14).discrete_gaussian(sigma, size) / sigma
    assert stats.kstest(z, "norm").pvalue > ALARM
    limit = stats.norm.isf(ALARM / 2)
    assert abs(z.mean()) < limit / math.sqrt(size)
    assert abs(z.var() - 1) < limit * math.sqrt(2 / size)


def test_the_last_bits_of_a_large_discrete_gaussian_are_uniform():
    """Rounding would show here: at sigma = 1e6 the residue modulo 64 is uniform. 1e-6."""
    draws = SeededNoise(15).discrete_gaussian(1e6, DRAWS)
    assert stats.chisquare(np.bincount(draws % 64, minlength=64)).pvalue > ALARM


def test_a_tiny_sigma_gives_zeros():
    """exp(-5000) is no chance at all."""
    assert not SeededNoise(16).discrete_gaussian(0.01, 100_000).any()
    assert not ExactNoise().discrete_gaussian(0.01, 100_000).any()


def test_successive_draws_are_uncorrelated():
    """Lags 1 to 3 and the sign against the magnitude, 1e-6 each."""
    z = SeededNoise(17).discrete_gaussian(20.0, DRAWS) / 20
    limit = stats.norm.isf(ALARM / 2) / math.sqrt(DRAWS)
    for lag in (1, 2, 3):
        assert abs(np.mean(z[lag:] * z[:-lag])) < limit
    assert abs(np.mean(np.sign(z) * (np.abs(z) - np.abs(z).mean()))) < limit


@pytest.mark.parametrize("block", [2, 8192])
@pytest.mark.parametrize("step", [Fraction(0), Fraction(1, 3), Fraction(5, 2)])
def test_the_exponential_choice_has_its_exact_probabilities(block, step):
    """False alarm 1e-6 a case; small blocks exercise the merging of blocks."""
    scores, bits = [0, 3, -2, 5, 5, 1], SeededBits(18)
    counts = Counter(raced(bits, scores, step, 1, block)[0] for _ in range(10_000))
    pmf = normalised({i: math.exp(step * (s - 5)) for i, s in enumerate(scores)})
    assert chi_square_p(counts, pmf, 10_000) > ALARM


@pytest.mark.parametrize("block", [2, 8192])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_top_k_follow_the_law_of_k_choices_without_replacement(block, k):
    """Every set's probability is summed over the orders in which it can be chosen. 1e-6."""
    scores, step = [0, 2, 3, 3, 5, 1], Fraction(2, 5)
    weights = [math.exp(step * s) for s in scores]
    pmf: dict[tuple[int, ...], float] = Counter()
    for order in itertools.permutations(range(len(scores)), k):
        left, chance = sum(weights), 1.0
        for i in order:
            chance *= weights[i] / left
            left -= weights[i]
        pmf[tuple(sorted(order))] += chance
    bits = SeededBits(19)
    counts = Counter(tuple(raced(bits, scores, step, k, block)) for _ in range(10_000))
    assert chi_square_p(counts, pmf, 10_000) > ALARM


def test_a_choice_among_many_candidates_has_its_exact_probabilities():
    """30,000 candidates in four groups of scores; the group chosen is judged. 1e-6."""
    scores = np.repeat(np.array([0, 1, 2, 8]), [10_000, 10_000, 9_990, 10])
    order = np.random.default_rng(0).permutation(len(scores))
    scores = scores[order]
    noise = SeededNoise(20)
    counts = Counter(
        int(scores[noise.exponential_choice(scores, Fraction(1))]) for _ in range(2000)
    )
    sizes = {0: 10_000, 1: 10_000, 2: 9_990, 8: 10}
    pmf = normalised({s: n * math.exp(s) for s, n in sizes.items()})
    assert chi_square_p(counts, pmf, 2000) > ALARM


@pytest.mark.parametrize("scale", [0.8, 3.7, 40.0])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_opendp_draws_from_the_same_distribution(kind, scale):
    """Two samples, OpenDP's unseeded, judged by their common frequencies. False alarm 1e-9."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    size = 20_000
    space = (
        dp.vector_domain(dp.atom_domain(T=int)),
        (dp.l2_distance(T=int) if kind == "gaussian" else dp.l1_distance(T=int)),
    )
    make = dp.m.make_gaussian if kind == "gaussian" else dp.m.make_laplace
    theirs = np.array(make(*space, scale=scale)([0] * size))
    noise = ExactNoise()
    draw = noise.discrete_gaussian if kind == "gaussian" else noise.discrete_laplace
    ours = draw(scale, 10 * size)
    edges = np.unique(np.quantile(ours, np.linspace(0, 1, 40)))
    table = [
        np.bincount(np.searchsorted(edges, x, "right"), minlength=len(edges) + 1)
        for x in (ours, theirs)
    ]
    table = np.array(table)[:, np.sum(table, axis=0) >= 50]
    assert stats.chi2_contingency(table).pvalue > UNSEEDED_ALARM
