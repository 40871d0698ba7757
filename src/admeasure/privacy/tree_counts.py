"""The counts of every node of a tree over a column's leaves, from which its levels are cut: private
bins, or levels of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.queries import Marginal
from admeasure.unit import Unit


@dataclass(frozen=True, eq=False)
class TreeCounts:
    """One column's marginal on its leaves, added up at each level of a tree.

    `levels`: of each level the first leaf of every node, ascending; the last level is the leaves.
    Levels after the leaves (`other`, `missing`) are counted once, beside the last level.

    Released: the count of every node, level by level, with discrete Gaussian noise of one scale;
    which nodes there are is public. Sensitivity: each level is a partition of the leaves, so its
    counts are those of a marginal, and a unit moves them by a squared L2 distance of at most m²
    under add/remove and 2 m² under replace, m the rows of one unit (`queries.sensitivity`). All
    levels together, as one vector, move by at most that times their number: m rows of one leaf do
    it. A row that is `other` or missing lies in no node, and moves less. Charged: what the noise
    costs for this bound.

    The levels follow from the noisy counts alone and so cost nothing more. They depend on this very
    noise: no bound on an error is claimed from these counts (`analyses` has intervals from them, by
    their scale, that are measured to hold), and what is measured on the levels later has noise of
    its own. It is a statistic and no measurement of a run's log: the release's domain has no such
    cells.
    """

    column: str
    domain: Domain
    levels: tuple[np.ndarray, ...]
    cut_into: str = "bins"

    def __str__(self) -> str:
        return f"counts of a tree over {self.column}, for its {self.cut_into}"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [(self.column,)]

    def l2_squared(self, unit: Unit) -> int:
        level = Marginal((self.column,)).sensitivity(self.domain, unit).l2_squared
        return len(self.levels) * level

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        (counts,) = tables
        leaves = len(self.levels[-1])
        nodes = [np.add.reduceat(counts[:leaves], first) for first in self.levels]
        return np.concatenate([*nodes, counts[leaves:]])

    def divided(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The numbers of `of`, or noisy ones, level by level."""
        ends = np.cumsum([len(first) for first in self.levels])
        return np.split(numbers[: ends[-1]], ends[:-1])
