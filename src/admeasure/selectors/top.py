"""The K worst answered queries of a workload, chosen at once.

Avent and Korolova (2023), Algorithm 4 (one-shot adaptive selection): Gumbel noise on the error of
every query that was not chosen before, the K largest win. Equal in law to K exponential mechanisms
without replacement. The scores and their sensitivity are in `privacy.scores.streamed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from admeasure.families import HALF_NORMAL
from admeasure.loop import Budget
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.streamed import BlockModel, CellErrors, MarginalErrors
from admeasure.queries import Cell, Marginal, Query, ThresholdCell
from admeasure.workload import Workload


@dataclass
class TopCells:
    """K single queries a round, never the same twice. Remembers what it chose."""

    queries: int
    _chosen: set[Cell | ThresholdCell] = field(default_factory=set)

    def select(
        self, curator: Curator, workload: Workload, model: BlockModel, budget: Budget
    ) -> Sequence[Query]:
        score = CellErrors(model, frozenset(self._chosen))
        found = curator.top_k(score, workload.targets, self.queries, budget.select)
        self._chosen.update(q for q in found if isinstance(q, Cell | ThresholdCell))
        return found


@dataclass(frozen=True)
class TopMarginals:
    """K whole marginals a round. Thresholds take part through the marginal of their columns."""

    marginals: int

    def select(
        self, curator: Curator, workload: Workload, model: BlockModel, budget: Budget
    ) -> Sequence[Query]:
        l2_squared = curator.unit.marginal_l2_squared
        sigma = (budget.measure / self.marginals).sigma(l2_squared)
        candidates = [Marginal(c) for c in workload.marginals()]
        score = MarginalErrors(model, HALF_NORMAL * sigma)
        return curator.top_k(score, candidates, self.marginals, budget.select)
