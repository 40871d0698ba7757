"""Counts of a marginal that has far more cells than rows: the cells that occur, and how often.

Exact and private, like every count of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain

LARGEST_POSITION = 2**62


@dataclass(frozen=True, eq=False)
class SparseCounts:
    """`codes` (cells, columns): distinct, in lexicographic order; `counts`: positive int64."""

    columns: Columns
    codes: np.ndarray
    counts: np.ndarray

    def copy(self) -> SparseCounts:
        return SparseCounts(self.columns, self.codes.copy(), self.counts.copy())

    def positions(self, domain: Domain) -> np.ndarray:
        """Places of the cells in the flat array of all cells, in C order; ascending."""
        shape = domain.shape(self.columns)
        if domain.cells(self.columns) > LARGEST_POSITION:
            raise OverflowError("positions of so many cells do not fit 64 bits")
        if not self.columns:
            return np.zeros(len(self.counts), np.int64)
        parts = tuple(self.codes[:, i].astype(np.int64) for i in range(len(shape)))
        return np.ravel_multi_index(parts, shape).astype(np.int64)

    def dense(self, domain: Domain) -> np.ndarray:
        """The whole marginal."""
        table = np.zeros(domain.cells(self.columns), np.int64)
        table[self.positions(domain)] = self.counts
        return table.reshape(domain.shape(self.columns))


@dataclass(frozen=True, eq=False)
class TextCounts:
    """How many units hold each of some texts."""

    texts: Sequence[str]
    counts: np.ndarray
