"""Independent: every column by itself (the baseline of McKenna et al. 2022, section 6.1).

All one-way marginals are measured with the same noise; the model is their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.graphical.family import GraphicalFamily, Shrink
from admeasure.planning import forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, Division, Task, evenly
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal


@dataclass(frozen=True)
class Independent:
    """One-way marginals and nothing else; structural zeros are the only dependence.

    `shrink`: whether measured effects are shrunk towards an even spread; there are no rounds.
    """

    shrink: Shrink = "no"

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = "every column by itself; fast, and blind to dependence"
    measures_all_columns: ClassVar[bool] = True

    def check(self, task: Task) -> None:
        GraphicalFamily(shrink=self.shrink).init(task.domain, task.zeros)

    def needs(self, task: Task) -> float:
        return room.of_columns(task.domain)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return Division((evenly(ONE_WAY, task.unit, budget, len(task.domain)),))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        (one_way,) = self.divide(task, budget, rows or ASSUMED_ROWS).items
        return forecast.graphical(
            (one_way,),
            task,
            rows,
            sigma_last=one_way.noise,
            rounds="1",
            max_megabytes=1.0,
            seconds=0.1 + len(task.domain) * (0.001 + 2e-8 * (rows or ASSUMED_ROWS)),
            cells=sum(task.domain.levels),
        )

    def run(self, task: Task, curator: Curator) -> Outcome:
        family = GraphicalFamily(shrink=self.shrink)
        one_way = [Marginal((column,)) for column in task.domain.columns]
        log = curator.measure(one_way, curator.remaining)
        return Outcome(family.polished(family.init(task.domain, task.zeros), log), rounds=1)
