"""Marginals put together from noisy residuals (Xiao et al. 2023): without bias, and with variances
that are known before anything is measured.

`Residual` measures R_B y_B + z with whole noise z of scale γ. Divided by Π_B n it is the residual
P_B y_B with noise of scale σ_B = γ / Π_B n in every cell; P_B once more takes out what of the noise
is none of a residual. The marginal on A is the sum of these over all B inside it, each spread
evenly over the columns that B lacks, with the covariance

    Σ_B σ_B² ⊗_B P ⊗_{A-B} J/n².

One cell has the variance Σ_B σ_B² Π_B (1 - 1/n) Π_{A-B} 1/n², and the terms are multiples of
projections orthogonal to each other, so that σ_B² / Π_{A-B} n are all its eigenvalues. A column of
one level has no residual. The residual of no columns is the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain, subsets
from admeasure.measurement import Measurement
from admeasure.queries import Marginal, Residual


def inside(domain: Domain, columns: Columns) -> Iterator[Columns]:
    """The sets whose residuals make up a marginal, the empty one first."""
    yield ()
    yield from subsets(tuple(c for c in columns if domain[c] > 1))


def cell_share(domain: Domain, part: Columns, whole: Columns) -> float:
    """a_AB: the part that σ² of one residual has in the variance of a cell of one marginal."""
    kept = math.prod(1 - 1 / domain[c] for c in part)
    return kept * (domain.cells(part) / domain.cells(whole)) ** 2


def query_of(columns: Columns) -> Marginal | Residual:
    """What is measured of a set of columns."""
    return Residual(columns) if columns else Marginal(())


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured residuals, by their columns."""

    domain: Domain
    measured: Mapping[Columns, Measurement]

    @classmethod
    def of(cls, domain: Domain, log: Iterable[Measurement]) -> Residuals:
        found = {m.query.columns: m for m in log if m.query == query_of(m.query.columns)}
        return cls(domain, found)

    def hold(self, columns: Columns) -> bool:
        """Whether all was measured that the marginal is made of."""
        return all(part in self.measured for part in inside(self.domain, columns))

    def table(self, columns: Columns) -> np.ndarray:
        """The marginal, without bias: its cells may be negative and are not whole."""
        found = np.zeros(self.domain.shape(columns))
        for part in inside(self.domain, columns):
            shape = [self.domain[c] if c in part else 1 for c in columns]
            found += self._centred(part).reshape(shape) / self.domain.cells(columns)
        return found

    def _centred(self, part: Columns) -> np.ndarray:
        """The residual times Π n."""
        values = self.measured[part].values.astype(float)
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        return values

    def variance(self, columns: Columns) -> float:
        """Of every cell of `table`."""
        return math.fsum(
            cell_share(self.domain, part, columns)
            * (self.measured[part].sigma / self.domain.cells(part)) ** 2
            for part in inside(self.domain, columns)
        )

    def largest_variance(self, columns: Columns, of_noise: Callable[[float], float]) -> float:
        """Of any sum of cells of `table` with weights of L2 norm 1, where noise of a scale has the
        variance `of_noise`."""
        cells = self.domain.cells(columns)
        return max(
            of_noise(self.measured[part].sigma) / (self.domain.cells(part) * cells)
            for part in inside(self.domain, columns)
        )
