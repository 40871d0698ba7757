"""How far each pair of columns is from independent: PrivSyn's InDif, with noise.

Released: for each pair (a, b), which pairs being public, floor(f_ab) with
f_ab = ||M_ab - M_a M_b / n||_1 in rows, n the exact number of rows, each with discrete Gaussian
noise of one scale. Sensitivity: adding a row moves f_ab by at most 4 (`scores.dependence` has the
proof; Zhang et al., PrivSyn 2021, state the same), so c rows that come or go move it by at most
4 c, c = `unit.rows_changed`: the rows of a person under add/remove, twice that under replace. 4 c
is whole, and a floor moves two numbers that are L apart, L whole, by at most L. So m pairs together
move by at most 16 c² m in squared L2. Charged: what the noise costs for this bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns
from admeasure.privacy.scores.dependence import from_independence
from admeasure.unit import Unit


@dataclass(frozen=True)
class IndependenceErrors:
    """f_ab of each of these pairs."""

    pairs: tuple[Columns, ...]

    def __str__(self) -> str:
        return f"how far {len(self.pairs):,} pairs are from independent"

    @property
    def marginals(self) -> Sequence[Columns]:
        return self.pairs

    def l2_squared(self, unit: Unit) -> int:
        return 16 * unit.rows_changed**2 * len(self.pairs)

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        return np.array([from_independence(table) for table in tables], dtype=np.int64)
