"""The counts of a column's fine cells, from which its private bins are cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.queries import Marginal
from admeasure.unit import Unit


@dataclass(frozen=True)
class FineCounts:
    """One column's marginal on the fine grid.

    Released: every count of it, with discrete Gaussian noise; the cells are public. Sensitivity:
    as of every marginal (`queries.sensitivity`), squared L2 m² under add/remove and 2 m² under
    replace, m the rows of one unit. Charged: what the noise costs. The bins follow from the noisy
    counts alone, so they cost nothing more; what is measured on them later has noise of its own, so
    that knowing the bins changes no bound.

    It is a statistic and no measurement of a run's log: the release's domain has no such cells.
    """

    column: str
    domain: Domain

    def __str__(self) -> str:
        return f"counts of fine cells of {self.column}, for its bins"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [(self.column,)]

    def l2_squared(self, unit: Unit) -> int:
        return Marginal((self.column,)).sensitivity(self.domain, unit).l2_squared

    def of(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        return tables[0]
