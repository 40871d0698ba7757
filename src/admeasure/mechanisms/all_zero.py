"""All-0: answers every question with zero and spends nothing (Avent and Korolova 2023, 3.4).

The baseline that a workload of rare events must be measured against: where most true answers are
close to nothing, saying nothing is hard to beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.answers import AnswersModel
from admeasure.planning.division import Division, Task
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator


@dataclass(frozen=True)
class AllZero:
    """Zero, always, for nothing."""

    name: ClassVar[str] = "all-zero"
    summary: ClassVar[str] = "answers zero to everything and spends nothing; a baseline"
    makes_rows: ClassVar[bool] = False

    def check(self, task: Task) -> None:
        """Serves every workload."""

    def needs(self, task: Task) -> float:
        return 0.0

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return Division(())

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        return Plan((), "0", 1.0, 0.0, 0.0, ("Every answer is zero; nothing is measured.",))

    def run(self, task: Task, curator: Curator) -> Outcome:
        return Outcome(AnswersModel(task.domain, 0.0, {}, {}), rounds=0)
