"""Residuals of a marginal: what it says beyond the marginals inside it, in whole numbers.

With n_i the levels of column i, I the identity and J the matrix of ones, the residual of a marginal
y is (P_1 ⊗ … ⊗ P_k) y, where P_i = I - J/n_i takes the mean over column i off. Times Π n_i it is

    R y,   R = ⊗ (n_i I - J),

whole numbers, so that discrete Gaussian noise can be added to them. Residuals of different sets of
columns are orthogonal: a marginal is the sum of the residuals inside it, spread evenly.

Sensitivity, with the arguments of `admeasure.queries.sensitivity`. A row changes y by a unit
vector, and the answer by a column of R. Since (nI - J)² = n (nI - J), the inner product of the
columns of two rows is the product over i of n_i (n_i - 1) where their codes agree and -n_i where
they differ. So

    c = Π n_i (n_i - 1)                          is the squared L2 norm of what one row changes,
    d = 2 (c + c / (n - 1)), n the least n_i,    the largest of what two rows exchanged change:

the inner product is c Π (-1/(n_i - 1)) over the columns that differ, and is least where one does,
that of the fewest levels. For a person's m rows the triangle inequality gives m² c (add or remove)
and m² d (replace, as d >= c); m like rows attain both. In the same way ‖v‖∞ is m Π (n_i - 1) and,
for replace, 1 + 1/(n - 1) times that; ‖v‖₁ is m Π 2 (n_i - 1) and at most twice that.

Noise of scale σ Π n_i is noise of scale σ on the residual, and costs c / (σ Π n_i)² =
Π (1 - 1/n_i) / σ²: what Gaussian noise on it costs (Xiao et al. 2023). Whole numbers lose nothing.
Numbers too large for 64 bits wrap around, before the noise is added as after it: what is released
is then still a function of the noisy numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.queries.query import PerCell, arrange, as_counts
from admeasure.queries.sensitivity import Sensitivity
from admeasure.unit import Neighbours, Unit


@dataclass(frozen=True, init=False)
class Residual(PerCell):
    """The residual of a marginal times its number of cells.

    >>> Residual(["sex"]).answer(np.array([5, 2]))
    array([ 3, -3])
    """

    columns: Columns

    def __init__(self, columns: Iterable[str]) -> None:
        object.__setattr__(self, "columns", arrange(columns)[0])
        if not self.columns:
            raise WorkloadError("A residual needs at least one column.")

    def __str__(self) -> str:
        return f"residual ({', '.join(self.columns)})"

    def answer(self, counts: np.ndarray) -> np.ndarray:
        return _centred(as_counts(counts, len(self.columns)))

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        """R is symmetric."""
        return _centred(np.broadcast_to(values, self.shape(domain)))

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        """Where a column has one level the residual is 0, and charged as if it could change."""
        levels = domain.shape(self.columns)
        m, least = unit.max_rows, min(levels) - 1
        if not least:
            return Sensitivity(m, m * m, m)
        c, largest = math.prod(n * (n - 1) for n in levels), math.prod(n - 1 for n in levels)
        norm = math.prod(2 * (n - 1) for n in levels)
        if unit.neighbours is Neighbours.REPLACE:
            c, largest, norm = 2 * (c + c // least), largest + largest // least, 2 * norm
        return Sensitivity(l1=m * norm, l2_squared=m * m * c, linf=m * largest)


def _centred(table: np.ndarray) -> np.ndarray:
    """R times a table, column by column."""
    for axis, levels in enumerate(table.shape):
        table = levels * table - table.sum(axis=axis, keepdims=True)
    return table
