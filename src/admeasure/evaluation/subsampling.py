"""The error of a plain sample, to compare with (McKenna et al. 2022, AIM, appendix C).

Resample K of N records with replacement. The share of rows that meet a condition, p in the table,
is k/K in the sample with k binomial, and by De Moivre

    E|p - k/K| = (2/K) s C(K, s) p^s (1 - p)^(K - s + 1),   s = ceil(K p)
               = 2 p (1 - p) P[Binomial(K - 1, p) = s - 1].

(The paper's Lemma 2 prints a sum over s in the first form; its Theorem 7 has the sum right, over
the cells of a marginal.) The second form is stable for every K, since the probability of a
binomial is. The error falls as K grows: k/K is a reverse martingale. So there is one K at which a
sample is as good as a release, which says how good the release is in terms anybody knows.

NOT PRIVATE: every number here is computed from true counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

LARGEST_SAMPLE = 10**12
"""Beyond this many records a sample is taken to be the table itself."""


@dataclass(frozen=True)
class Equivalent:
    """A sample of `rows` records, the `fraction` of the table, is as good."""

    rows: int
    fraction: float


@dataclass
class Resampling:
    """The expected error of a resample of a table of `rows` rows.

    Add the exact answers of each query (the cells of a marginal, say) with its weight; what is
    kept is how much weight each count has, so a workload of any size takes little memory.
    """

    rows: int
    _weights: dict[int, float] = field(default_factory=dict)
    _total: float = 0.0

    def add(self, counts: np.ndarray, weight: float = 1.0) -> None:
        """Take in the answers of one query of the workload."""
        values, times = np.unique(counts, return_counts=True)
        for value, number in zip(values.tolist(), times.tolist(), strict=True):
            if 0 < value < self.rows:  # all or none of the rows: a sample makes no error
                self._weights[value] = self._weights.get(value, 0.0) + weight * number
        self._total += weight

    def curve(self) -> Callable[[int], float]:
        """The weighted mean over queries of the expected L1 error, as a function of K."""
        from scipy.stats import binom  # takes half a second to import: who asks for it pays

        counts = list(self._weights)
        shares = np.array(counts, dtype=np.float64) / self.rows
        weights = np.array(list(self._weights.values())) / (self._total or 1)

        def expected(sample: int) -> float:
            # Exact integers: K times a count may pass 64 bits, and ceil must not round.
            s = np.array([-(-sample * count // self.rows) for count in counts], dtype=np.float64)
            chance = binom.pmf(s - 1, sample - 1, shares)
            return float(np.sum(weights * 2 * shares * (1 - shares) * chance))

        return expected

    def equivalent(self, error: float) -> Equivalent | None:
        """The smallest sample whose expected error is at most `error`; None where even
        `LARGEST_SAMPLE` records are not enough."""
        expected = self.curve()
        high = 1
        while expected(high) > error:
            high *= 2
            if high > LARGEST_SAMPLE:
                return None
        # Half as many are not enough, or none.
        sample = bisect_left(range(high), -error, high // 2 + 1, key=lambda k: -expected(k))
        return Equivalent(sample, sample / self.rows)
