"""Whole numbers that are close to given expectations."""

from __future__ import annotations

import numpy as np


def rounded_counts(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Integers that sum to `rows`, each within 1 of its share rows * weight, unbiased.

    Systematic sampling: one uniform offset, and a count for every whole number that the running
    sum passes. Cells are visited in random order, so that neighbours are not rounded in step, and
    cells of weight zero are not visited at all: they get no count, whatever rounding does.
    """
    counts = np.zeros(weights.size, dtype=np.int64)
    order = rng.permutation(np.flatnonzero(weights))
    ends = np.cumsum(weights[order])
    passed = np.floor(ends * (rows / ends[-1]) + rng.random()).astype(np.int64)
    passed[-1] = rows
    counts[order] = np.diff(np.minimum(passed, rows), prepend=0)
    return counts
