"""A race over blocks has the law of exponential mechanisms without replacement, lazy or not."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from admeasure.privacy import race
from admeasure.privacy.bits import SeededBits
from admeasure.privacy.race import ArrayScores, Race

SCORES = np.array([0, 3, 1, 7, 2, 2, 5, 0, 1, 4] + [0] * 40 + [6, 1, 3, 2, 8, 0])


def winners(
    bits: SeededBits, scores: np.ndarray, step: Fraction, k: int, block: int, without=None, **sizes
):
    runners = Race(bits, step, k, **sizes)
    for start in range(0, len(scores), block):
        runners.add(ArrayScores(scores[start : start + block]), without)
    return runners.result()


def first_law(scores: np.ndarray, step: Fraction) -> np.ndarray:
    weights = np.exp(float(step) * (scores - scores.max()))
    return weights / weights.sum()


def pair_law(scores: np.ndarray, step: Fraction) -> dict[tuple[int, int], float]:
    """Two exponential mechanisms, one after the other, order forgotten."""
    p = first_law(scores, step)
    return {
        (i, j): p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        for i in range(len(p))
        for j in range(i + 1, len(p))
    }


@pytest.mark.statistical
@pytest.mark.parametrize("step", [Fraction(0), Fraction(1, 2), Fraction(1, 10)])
def test_one_winner_has_the_probabilities_of_the_exponential_mechanism(step) -> None:
    """Chi-square at 1e-6, with most draws lazy."""
    bits = SeededBits(1)
    found = Counter(winners(bits, SCORES, step, 1, 50, head=4)[0] for _ in range(8000))
    law = first_law(SCORES, step) * 8000
    assert chisquare([found[i] for i in range(len(SCORES))], law).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("step", [Fraction(0), Fraction(1, 2), Fraction(1, 10)])
def test_deciding_leading_ones_first_keeps_the_law(monkeypatch, step) -> None:
    """Chi-square at 1e-6. Of 50 candidates about 12 begin with two ones; the others that pass the
    cut are drawn under the condition that they do not."""
    bits, used = SeededBits(11), []
    inner = Race.ones_first
    monkeypatch.setattr(Race, "ones_first", lambda *args: (used.append(1), inner(*args)))
    found = Counter(winners(bits, SCORES, step, 1, 56, few_bits=3)[0] for _ in range(8000))
    law = first_law(SCORES, step) * 8000
    assert len(used) == 8000
    assert chisquare([found[i] for i in range(len(SCORES))], law).pvalue > 1e-6


@pytest.mark.statistical
def test_two_winners_keep_their_law_when_leading_ones_are_decided_first() -> None:
    """Chi-square at 1e-6 over all pairs of ten candidates in one block."""
    scores, step = np.array([0, 2, 1, 5, 0, 3, 3, 1, 4, 2]), Fraction(1, 3)
    bits, law = SeededBits(12), pair_law(scores, step)
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(8000):
        runners = Race(bits, step, 2, few_bits=3)
        runners.ones_first(ArrayScores(scores), 0, np.empty(0, np.int64))
        found[tuple(runners.result())] += 1
    assert chisquare([found[p] for p in law], np.array(list(law.values())) * 8000).pvalue > 1e-6


def test_words_that_may_not_begin_with_ones_do_not() -> None:
    bits = SeededBits(13)
    words = Race(bits, Fraction(1), 1).without_ones(bits.words(10_000), 2)
    assert len(words) == 10_000
    assert np.all(words >> np.uint64(62) != 3)


@pytest.mark.statistical
def test_two_winners_have_the_law_of_two_mechanisms_in_turn() -> None:
    """Chi-square at 1e-6 over all 28 pairs of eight candidates in three blocks."""
    scores, step = np.array([0, 2, 1, 5, 0, 3, 3, 1]), Fraction(1, 3)
    bits = SeededBits(2)
    found = Counter(tuple(winners(bits, scores, step, 2, 3, head=1)) for _ in range(8000))
    law = pair_law(scores, step)
    assert chisquare([found[p] for p in law], np.array(list(law.values())) * 8000).pvalue > 1e-6


@pytest.mark.statistical
def test_lazy_and_eager_draws_agree_on_many_candidates() -> None:
    """Where the winner comes from among 40,000 candidates of four heights; chi-square at 1e-6."""
    heights = np.arange(40_000) % 4
    step = Fraction(7, 10)
    expected = np.exp(0.7 * np.arange(4))
    bits = SeededBits(3)
    found = Counter(int(heights[winners(bits, heights, step, 1, 15_000)[0]]) for _ in range(2000))
    law = 2000 * expected / expected.sum()
    assert chisquare([found[h] for h in range(4)], law).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("ones", [4, 9])
def test_leading_ones_come_with_their_probability(ones: int) -> None:
    """Two-sided binomial test at 1e-6; and gaps are as often short as independent trials make
    them."""
    runners = Race(SeededBits(4), Fraction(1), 1)
    size = 4_000_000
    places = runners.with_ones(ones, size)
    p = 2.0**-ones
    assert binomtest(len(places), size, p).pvalue > 1e-6
    assert np.all(np.diff(places) > 0)
    assert 0 <= places.min() <= places.max() < size
    short = int(np.sum(np.diff(places) == 1))
    assert binomtest(short, len(places) - 1, p).pvalue > 1e-6


@pytest.mark.parametrize("ones", [4, 8, 20, 40])
@pytest.mark.parametrize("bits", [52, 116])
def test_the_correction_of_gaps_is_bounded_from_both_sides(ones: int, bits: int) -> None:
    low, high = race.keep_bounds(ones, bits)
    with mpmath.workdps(120):
        p = 1 - mpmath.exp(-mpmath.mpf(1) / (2**ones - 1))
        true = mpmath.mpf(2) ** (bits - ones) / p
        assert low <= true <= high
        assert high - low <= 3
        assert true < 2**bits


def test_numpy_computes_log1p_within_the_error_that_the_proof_assumes() -> None:
    """docs/explanations/noise.md, A3: 2^-48 relative, of -2^-b v with v amid a cell of [0, 1).

    Arrays of one and of many elements, which numpy may compute by different instructions."""
    rng = np.random.default_rng(5)
    middles = (rng.integers(0, 2**52, 600) + 0.5) * 2.0**-52
    points = -np.ldexp(middles, -rng.integers(0, 41, 600))
    with mpmath.workdps(60):
        for point, many in zip(points, np.log1p(points), strict=True):
            truth = mpmath.log1p(mpmath.mpf(float(point)))
            bound = abs(truth) * mpmath.mpf(2) ** -48
            assert abs(many - truth) <= bound
            assert abs(float(np.log1p(np.array([point]))[0]) - truth) <= bound


def test_who_is_barred_never_wins() -> None:
    scores = np.zeros(20_000, np.int64)
    scores[[5, 9_000]] = 10_000
    runners = Race(SeededBits(5), Fraction(1), 1)
    runners.add(ArrayScores(scores), np.array([5, 9_000]))
    runners.add(ArrayScores(np.array([5_000])))
    assert runners.result() == [20_000]


def test_the_best_win_when_the_step_is_large_wherever_their_block_is() -> None:
    scores = np.zeros(100_000, np.int64)
    best = [3, 17_000, 60_001, 99_999]
    scores[best] = 1_000
    for block in (1_000, 30_000, 100_000):
        assert winners(SeededBits(6), scores, Fraction(1), 4, block) == best


def test_few_candidates_are_kept() -> None:
    runners = Race(SeededBits(7), Fraction(1, 1000), 8)
    for _ in range(20):
        runners.add(ArrayScores(np.random.default_rng(0).integers(0, 500, 100_000)))
    assert len(runners._index) < 100


def test_fewer_candidates_than_winners_is_an_error() -> None:
    runners = Race(SeededBits(8), Fraction(1), 3)
    runners.add(ArrayScores(np.array([1, 2])))
    with pytest.raises(ValueError, match="fewer candidates"):
        runners.result()


@pytest.mark.parametrize("places", [[0, 3], [-1, 0], [0, 0, 1], [1, 0]])
def test_a_block_that_offers_what_it_does_not_have_is_refused(places: list[int]) -> None:
    """Whatever is wrong with it: the race dies, and no candidate that does not exist can win."""

    class Wrong:
        size = 3

        def above(self, cut, most):
            return np.array(places), np.zeros(len(places), np.int64)

        def at(self, positions):
            return np.zeros(len(positions), np.int64)

    runners = Race(SeededBits(1), Fraction(1, 1000), 1)
    runners.add(ArrayScores(np.array([1, 2])))
    with pytest.raises(AssertionError, match="candidates that it does not have"):
        runners.add(Wrong())
