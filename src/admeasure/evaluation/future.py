"""How well a release answers queries that nobody has asked yet. NOT PRIVATE.

Avent and Korolova (2023), Definition 5.3: the future error is the expectation, over queries Q drawn
from a distribution T_F and over the mechanism, of the largest error of any cell or target of Q, in
shares of the rows. Estimated by the mean over independent draws, with Student's interval. One
release is one outcome of the mechanism, and its interval is over draws alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admeasure.evaluation.errors import CountsOf
from admeasure.workload.history import Future

TABLES_AT_ONCE = 16


@dataclass(frozen=True)
class FutureError:
    """The mean of the draws' largest errors, and an interval that holds with `confidence`."""

    error: float
    low: float
    high: float
    draws: int
    distinct: int
    confidence: float


def largest_errors(truth: CountsOf, estimate: CountsOf, future: Future) -> np.ndarray:
    """For each draw the largest error of its query."""
    drawn = future.counts()
    queries = sorted(drawn, key=lambda q: q.columns)
    rows = float(truth([()])[0])
    found: list[float] = []
    for start in range(0, len(queries), TABLES_AT_ONCE):
        batch = queries[start : start + TABLES_AT_ONCE]
        columns = [query.columns for query in batch]
        for query, true, believed in zip(batch, truth(columns), estimate(columns), strict=True):
            total = float(np.sum(believed))
            answer = np.asarray(query.answer(believed), np.float64) / (total if total > 0 else 1.0)
            worst = float(np.abs(answer - query.answer(true) / rows).max())
            found += [worst] * drawn[query]
    return np.asarray(found)


def future_error(
    truth: CountsOf, estimate: CountsOf, future: Future, *, confidence: float = 0.95
) -> FutureError:
    """The future error of one release, or of any synthetic table."""
    from scipy.special import stdtrit  # a fifth of a second to import: who asks for it pays

    errors = largest_errors(truth, estimate, future)
    mean, draws = float(np.mean(errors)), len(errors)
    spread = float(np.std(errors, ddof=1)) / math.sqrt(draws)
    wide = float(stdtrit(draws - 1, (1 + confidence) / 2)) * spread
    distinct = len(future.counts())
    return FutureError(mean, max(0.0, mean - wide), mean + wide, draws, distinct, confidence)
