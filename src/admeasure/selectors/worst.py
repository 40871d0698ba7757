"""The worst answered queries of the workload, by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.loop import Budget
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.whole import CellError, MarginalError
from admeasure.queries import Marginal, Query
from admeasure.workload import Workload

Law = Literal["exponential", "permute-and-flip"]
"""How the choice is randomised; docs/explanations/noise.md says what each costs."""


@dataclass(frozen=True)
class WorstCell:
    """One counting query of the workload: the cell with the largest absolute error."""

    law: Law = "exponential"

    def select(
        self, curator: Curator, workload: Workload, model: Model, budget: Budget
    ) -> Sequence[Query]:
        believed = model.marginals([q.columns for q in workload.queries])
        answers = {
            query: query.answer(table)
            for query, table in zip(workload.queries, believed, strict=True)
        }
        choose = curator.flip if self.law == "permute-and-flip" else curator.choose
        return [choose(CellError(answers), workload.queries, budget.select)]


@dataclass(frozen=True)
class WorstMarginal:
    """One whole marginal of the workload. Thresholds take part through that of their columns."""

    law: Law = "exponential"

    def select(
        self, curator: Curator, workload: Workload, model: Model, budget: Budget
    ) -> Sequence[Query]:
        return [worst_marginal(curator, workload.marginals(), model, budget, self.law)]


def worst_marginal(
    curator: Curator,
    candidates: Sequence[Columns],
    model: Model,
    budget: Budget,
    law: Law = "exponential",
) -> Query:
    """The largest L1 error less the cell count, q_r(D) = ||M_r(D) - M_r(model)||_1 - n_r.

    The score of MWEM+PGM (McKenna et al. 2022, Algorithm 1).
    """
    score = MarginalError(
        answers=dict(zip(candidates, model.marginals(candidates), strict=True)),
        penalty={c: curator.domain.cells(c) for c in candidates},
    )
    choose = curator.flip if law == "permute-and-flip" else curator.choose
    return choose(score, [Marginal(c) for c in candidates], budget.select)
