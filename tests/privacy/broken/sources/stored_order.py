"""Keeps the first rows of a unit by an order that depends on how many rows the table has, as the
order of a view's rows does."""

from __future__ import annotations

import numpy as np


def broken(ids, codes, most):
    order = np.random.default_rng(len(ids)).permutation(len(ids))
    seen: dict = {}
    kept = []
    for i in order.tolist():
        seen[ids[i]] = seen.get(ids[i], 0) + 1
        if seen[ids[i]] <= most:
            kept.append(i)
    return kept
