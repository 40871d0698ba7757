"""The marginal that holds the worst answered cell (Liu, Vietri and Wu 2021, appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.loop import Budget
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.whole import LargestError
from admeasure.queries import Marginal, Query
from admeasure.workload import Workload

MAX_CELLS = 50_000_000
"""What one round may score: of more cells, the smallest marginals, by a public rule."""


def smallest(
    sets: Sequence[Columns], cells: Callable[[Columns], int], most: int = MAX_CELLS
) -> list[Columns]:
    """The smallest, as many as have that together; one at least."""
    ordered = sorted(sets, key=cells)
    together = np.cumsum([cells(r) for r in ordered])
    return ordered[: max(1, int(np.searchsorted(together, most, side="right")))]


@dataclass(frozen=True)
class HoldingWorst:
    """One of the candidate marginals a round, by the exponential mechanism on its largest error.

    A few hundred marginals compete where their cells would be hundreds of thousands, so a choice
    is as sharp at a fraction of the budget. Unless `again` says so, none is chosen twice before
    all were: the largest error may stay where it was just measured. Remembers what it chose.
    """

    candidates: tuple[Columns, ...]
    again: bool = False
    _chosen: set[Columns] = field(default_factory=set)

    def select(
        self, curator: Curator, workload: Workload, model: Model, budget: Budget
    ) -> Sequence[Query]:
        if self._chosen.issuperset(self.candidates):
            self._chosen.clear()
        fresh = [r for r in self.candidates if r not in self._chosen]
        offered = smallest(fresh, curator.domain.cells)
        score = LargestError(dict(zip(offered, model.marginals(offered), strict=True)))
        found = curator.choose(score, [Marginal(r) for r in offered], budget.select)
        if not self.again:
            self._chosen.add(found.columns)
        return [found]
