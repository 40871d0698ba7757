"""The worst answered queries of the workload, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.loop import Budget
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal, Query
from admeasure.selectors.scores import CellError, MarginalError
from admeasure.workload import Workload


@dataclass(frozen=True)
class WorstCell:
    """One counting query of the workload: the cell with the largest absolute error."""

    def select(
        self, curator: Curator, workload: Workload, model: Model, budget: Budget
    ) -> Sequence[Query]:
        believed = model.marginals([q.columns for q in workload.queries])
        answers = {
            query: query.answer(table)
            for query, table in zip(workload.queries, believed, strict=True)
        }
        return [curator.choose(CellError(answers), workload.queries, budget.select)]


@dataclass(frozen=True)
class WorstMarginal:
    """One whole marginal of the workload. Thresholds take part through that of their columns."""

    def select(
        self, curator: Curator, workload: Workload, model: Model, budget: Budget
    ) -> Sequence[Query]:
        return [worst_marginal(curator, workload.marginals(), model, budget)]


def worst_marginal(
    curator: Curator, candidates: Sequence[Columns], model: Model, budget: Budget
) -> Query:
    """The largest L1 error less the cell count, q_r(D) = ||M_r(D) - M_r(model)||_1 - n_r.

    The score of MWEM+PGM (McKenna et al. 2022, Algorithm 1).
    """
    score = MarginalError(
        answers=dict(zip(candidates, model.marginals(candidates), strict=True)),
        penalty={c: curator.domain.cells(c) for c in candidates},
    )
    return curator.choose(score, [Marginal(c) for c in candidates], budget.select)
