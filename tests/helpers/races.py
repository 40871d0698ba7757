"""Races whose candidates come in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from admeasure.privacy.bits import BitSource
from admeasure.privacy.race import ArrayScores, Race


def raced(
    bits: BitSource, scores: Sequence[int] | np.ndarray, step: Fraction, k: int, block: int
) -> list[int]:
    """The winners, where so many candidates are added at a time."""
    runners, scores = Race(bits, step, k), np.asarray(scores, np.int64)
    for start in range(0, len(scores), block):
        runners.add(ArrayScores(scores[start : start + block]))
    return runners.result()
