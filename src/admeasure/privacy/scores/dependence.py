"""How strongly a column depends on others: PrivBayes's score R, in counts.

The score in counts is f(D) = ||M_XΠ - M_X M_Π / n||_1 with n the number of rows. Adding a row of
cell (x, π) moves M_XΠ by 1, and M_X M_Π / n by
[- n p q + n p e_π + n e_x q + e_x e_π] / (n + 1), in L1 at most (3 n + 1) / (n + 1) <= 3, where p
and q are the shares. So f moves by at most 4 for each row added or removed. It is computed exactly:
n f is an integer, and f is rounded down to the grid in integer arithmetic, which can move it by
one more unit of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admeasure.privacy.scores.score import GRID
from admeasure.queries import Query
from admeasure.unit import Unit


def from_independence(joint: np.ndarray, parts: int = 1) -> int:
    """f(D) of a matrix of counts, in parts of a row, rounded down in integer arithmetic."""
    n = int(joint.sum())
    if n >= 1 << 31:  # 2 n² would not fit 64 bits
        joint = joint.astype(object)
    outer = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    distance = int(np.abs(n * joint - outer).sum())
    return distance * parts // n if n else 0


@dataclass(frozen=True)
class Dependence:
    """f(D) on the grid; the child is the candidate's one column that is not placed yet."""

    placed: frozenset[str]

    def sensitivity(self, unit: Unit) -> int:
        return 4 * unit.rows_changed * GRID + 1

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        axis = next(i for i, c in enumerate(query.columns) if c not in self.placed)
        joint = np.moveaxis(counts, axis, 0).reshape(counts.shape[axis], -1)
        return np.array([from_independence(joint, GRID)])

    def chosen(self, query: Query, index: int) -> Query:
        return query
