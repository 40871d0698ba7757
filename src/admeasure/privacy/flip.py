"""Permute and flip (McKenna and Sheldon 2020), exactly.

The mechanism visits the candidates in a random order, flips for each a coin that shows heads with
probability exp(step (score - largest score)), and stops at the first head. The coins do not depend
on the order, so one may flip them all first: the winner is then a uniform draw among the heads,
of which there is at least one, since the best candidate's coin always shows heads.

Promise: given independent uniform bits, the draw has exactly this law. Floating point decides a
coin only where its error bound leaves no doubt; `exact` decides the rest from the same bits.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from admeasure.privacy.bits import BitSource
from admeasure.privacy.exact import PREFIX, LazyUniform

CERTAIN_TAILS = 64.0
"""Beyond this exponent a coin shows heads with probability below 2^-92."""

COIN_ERROR = 2.0**-40
"""Bounds the relative error of a computed exp(-x) for x up to `CERTAIN_TAILS`: x itself is a
product of an integer below 2^64, rounded to a double, and a rounded step, so it is off by less than
2^-45; numpy's exp adds a few units of 2^-52."""

BLOCK = 65_536


def permute_and_flip(bits: BitSource, scores: NDArray[np.int64], step: Fraction) -> int:
    """One position, with the law above."""
    best = int(scores.max())
    heads: list[int] = []
    for start in range(0, len(scores), BLOCK):
        block = scores[start : start + BLOCK]
        behind = np.uint64(best % 2**64) - block.view(np.uint64)
        words = bits.words(len(block)) >> np.uint64(64 - PREFIX)
        low = words.astype(np.float64) * 2.0**-PREFIX
        high = low + 2.0**-PREFIX
        x = behind.astype(np.float64) * float(step)
        p = np.exp(-np.minimum(x, CERTAIN_TAILS))
        shows = high <= p * (1 - COIN_ERROR)
        doubt = ~shows & (low < p * (1 + COIN_ERROR)) & (behind > 0)
        shows |= behind == 0
        for i in np.flatnonzero(doubt):
            coin = LazyUniform(bits, int(words[i]), PREFIX)
            shows[i] = coin.below_exp(step * int(behind[i]))
        heads += (start + np.flatnonzero(shows)).tolist()
    return heads[_below(bits, len(heads))]


def _below(bits: BitSource, n: int) -> int:
    """A uniform whole number from 0 to n - 1: words beyond the last full multiple are redrawn."""
    limit = 2**64 - 2**64 % n
    while True:
        word = int(bits.words(1)[0])
        if word < limit:
            return word % n
