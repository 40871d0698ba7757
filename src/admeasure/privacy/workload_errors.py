"""How far a model is from the table: a statistic that a run may release as its last step.

What is released, for a model p that was fixed before (it follows from what was released earlier)
and the marginals r of a workload, m of them (of many a public sample, `Workload.certified`):
with E_r = ||M_r(D) - M_r(p)||_1 in rows,

    floor(k Σ w_r E_r / Σ w_r),  floor(E_1), …, floor(E_m),

each with discrete Gaussian noise of one scale: the mean error of the workload, k times over, and
the error of every marginal. k (`mean_factor`) is public and gives the mean about a fifth of it.

Sensitivity. Between neighbours M_r moves by at most c rows in L1, c = `unit.rows_changed` (m rows
of a person under add/remove, twice that under replace), so by the triangle inequality each E_r
moves by at most c, and so does their weighted mean. In the computer's numbers: M_r is whole, the
model's answers are rounded once to a grid of 1/GRID row, so E_r is computed as a whole number of
such parts and moves by at most c GRID of them, exactly; weights are rationals, and sums are exact.
A floor moves two numbers that are L apart, L whole, by at most L. So the mean's entry moves by at
most k c, each other by at most c, and the squared L2 sensitivity is c² (k² + m). Charged: what the
noise costs. What the bounds say of the grid and the floor is in docs/explanations/bounds.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError
from admeasure.families import Model
from admeasure.joints import batches
from admeasure.measurement import mean_factor
from admeasure.privacy.scores.score import GRID, GRID_BITS, LARGEST, to_grid
from admeasure.unit import Unit
from admeasure.workload import Workload

BATCH_CELLS = 1 << 21
"""The model answers marginals of about so many cells at a time."""


@dataclass(frozen=True, eq=False)
class WorkloadErrors:
    """The model's L1 errors on the marginals that a workload reads, and their weighted mean."""

    model: Model
    workload: Workload
    domain: Domain

    def __str__(self) -> str:
        return f"errors of {len(self.marginals):,} marginals and their mean"

    @property
    def marginals(self) -> tuple[Columns, ...]:
        return self.workload.marginals()

    def l2_squared(self, unit: Unit) -> int:
        m = len(self.marginals)
        return unit.rows_changed**2 * (mean_factor(m) ** 2 + m)

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        weights = self.workload.marginal_weights()
        errors = list(self._errors(tables))
        total = sum(w * e for w, e in zip(weights, errors, strict=True))
        mean = mean_factor(len(errors)) * total / (sum(weights) * GRID)
        return np.array([mean.__floor__(), *(e >> GRID_BITS for e in errors)], dtype=np.int64)

    def _errors(self, tables: Iterable[np.ndarray]) -> Iterator[int]:
        """E_r in parts of a row, whole numbers."""
        exact = iter(tables)
        for batch in batches(self.marginals, self.domain.cells, BATCH_CELLS):
            for believed in map(to_grid, self.model.marginals(batch)):
                # Beyond this the sum could pass 63 bits and wrap around, unlike for neighbours.
                if float(np.abs(believed).sum(dtype=np.float64)) >= LARGEST * GRID:
                    raise ResourceError("A model's answers to a marginal pass 2**37 rows.")
                yield int(np.abs((next(exact) << GRID_BITS) - believed).sum())
