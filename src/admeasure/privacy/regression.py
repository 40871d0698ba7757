"""The coefficients of a logistic regression that tells private rows from public ones.

What is released: β of the strictly convex problem

    J(β) = Σ_{x in D} log(1 + exp(-β·φ(x))) + N Σ_x p(x) log(1 + exp(β·φ(x))) + Λ/2 ||β||²,

p the public shares, N the believed number of rows, Λ = λ N, φ(x) the one-hot record divided by the
root of the number of columns, so that ||φ|| = 1.

Sensitivity. The gradient of one row's term has norm at most ||φ(x)|| = 1, so the gradients of
neighbours' J differ by at most r = `unit.rows_changed` (m rows come or go; under replace up to m go
and m come). J is Λ-strongly convex, so the minimisers differ by at most r/Λ. What is computed is a
point with gradient norm at most g = `SLACK`, which is within g/Λ of the minimiser, so the computed
points differ by at most (r + 2 g)/Λ. Rounding to a grid of spacing 1/S moves the distance of d
numbers by at most sqrt(d)/S. All in all at most S (r + 2 g)/Λ + sqrt(d) in units of the grid.
Charged: rho, for the discrete Gaussian with that sensitivity.

"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit

from admeasure.domain import Columns, Domain, canonical
from admeasure.families.support import SupportModel
from admeasure.privacy.scores.score import GRID
from admeasure.unit import Unit

SLACK = 0.01
"""The gradient norm, in rows, at which the regression counts as solved."""


@dataclass(frozen=True, eq=False)
class Regression:
    """β on a grid, as a statistic of the joint table; `ridge` is Λ."""

    public: SupportModel
    ridge: float
    unit: Unit

    def __str__(self) -> str:
        return "coefficients of a logistic regression"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [canonical(self.public.domain.columns)]

    @property
    def grid(self) -> float:
        """S: such that the sensitivity is about GRID units."""
        return GRID * self.ridge / self.unit.rows_changed

    def l2_squared(self, unit: Unit) -> int:
        size = sum(self.public.domain.levels)
        moved = self.grid * (unit.rows_changed + 2 * SLACK) / self.ridge
        return math.ceil((moved * (1 + 1e-9) + math.sqrt(size)) ** 2)

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        (joint,) = tables
        columns = canonical(self.public.domain.columns)
        cells = np.nonzero(joint)
        rows = dict(zip(columns, cells, strict=True))
        beta = minimised(
            one_hot(rows, self.public.domain),
            joint[cells].astype(np.float64),
            one_hot(self.public.records.codes, self.public.domain),
            self.public.total * self.public.weights,
            self.ridge,
        )
        return np.rint(beta * self.grid).astype(np.int64)


def one_hot(codes: Mapping[str, np.ndarray], domain: Domain) -> sparse.csr_matrix:
    """φ of each record: one entry for each column, together of norm 1."""
    starts = np.cumsum([0, *domain.levels])[:-1]
    places = np.stack(
        [codes[c] + start for c, start in zip(domain.columns, starts, strict=True)], 1
    )
    rows, width = places.shape
    values = np.full(places.size, 1 / math.sqrt(width))
    ends = np.arange(0, places.size + 1, width)
    return sparse.csr_matrix((values, places.ravel(), ends), (rows, sum(domain.levels)))


def minimised(
    private: sparse.csr_matrix,
    times: np.ndarray,
    public: sparse.csr_matrix,
    weights: np.ndarray,
    ridge: float,
) -> np.ndarray:
    """A β with ||∇J(β)|| <= SLACK, by Newton's method with step halving.

    J is smooth and strongly convex, so this ends for every table.
    """
    beta = np.zeros(public.get_shape()[1])

    def value(at: np.ndarray) -> float:
        fit = times @ np.logaddexp(0, -(private @ at)) + weights @ np.logaddexp(0, public @ at)
        return float(fit + ridge / 2 * at @ at)

    while True:
        p, q = expit(-(private @ beta)), expit(public @ beta)
        gradient = ridge * beta - private.T @ (times * p) + public.T @ (weights * q)
        if np.linalg.norm(gradient) <= SLACK:
            return beta
        hessian = ridge * np.eye(beta.size)
        for matrix, curvature in ((private, times * p * (1 - p)), (public, weights * q * (1 - q))):
            hessian += (matrix.T @ matrix.multiply(curvature[:, None])).toarray()
        step = np.linalg.solve(hessian, gradient)
        size, before, slope = 1.0, value(beta), float(gradient @ step)
        while value(beta - size * step) > before - 0.25 * size * slope and size > 1e-6:
            size /= 2
        beta = beta - size * step
