"""Permute and flip has exactly its law, and the curator charges it as pure DP."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from admeasure.privacy.bits import SeededBits
from admeasure.privacy.flip import permute_and_flip
from admeasure.privacy.noise import SeededNoise


def law(scores: list[int], step: float) -> np.ndarray:
    """By the definition: over all orders, the first candidate whose coin shows heads."""
    p = [math.exp(step * (s - max(scores))) for s in scores]
    found = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        none_yet = 1.0
        for i in order:
            found[i] += none_yet * p[i] / len(orders)
            none_yet *= 1 - p[i]
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("scores", [[0, 1, 3], [5, 5, 4, 2], [-7, 0, 0, 0]])
def test_draws_follow_the_definition(scores: list[int]) -> None:
    """Chi-square over 20,000 seeded draws; false alarms at 1e-6 (and none: the seed is fixed)."""
    step = Fraction(2, 3)
    noise = SeededNoise(11)
    draws = np.array([noise.permute_and_flip(scores, step) for _ in range(20_000)])
    seen = np.bincount(draws, minlength=len(scores))
    assert chisquare(seen, 20_000 * law(scores, float(step))).pvalue > 1e-6


def test_a_candidate_that_is_far_behind_does_not_win() -> None:
    scores = np.array([0, 2**62], dtype=np.int64)
    assert {permute_and_flip(SeededBits(s), scores, Fraction(1)) for s in range(50)} == {1}


def test_equal_scores_are_equally_likely_and_extremes_do_not_overflow() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    scores = np.array([low, high, high], dtype=np.int64)
    drawn = {permute_and_flip(SeededBits(s), scores, Fraction(1, 2)) for s in range(60)}
    assert drawn == {1, 2}


class _Bits:
    """Bits that leave the first comparison open: a prefix of zeros, then what decides it."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> np.ndarray:
        return np.array([self._words.pop(0) for _ in range(count)], dtype=np.uint64)


def test_a_coin_that_floating_point_cannot_decide_is_decided_exactly() -> None:
    # exp(-80) is about 1.8e-35, below 2^-52: only further bits tell.
    tails = _Bits([0, 0, 2**63, 2**62])  # two prefixes, the second coin's next word, the draw
    scores = np.array([80, 0], dtype=np.int64)
    assert permute_and_flip(tails, scores, Fraction(1)) == 0
    heads = _Bits([0, 0, 0, 1])  # U below 2^-116, less than exp(-80): heads, then a draw of two
    assert permute_and_flip(heads, scores, Fraction(1)) == 1
