"""MWEM+PGM: the loop of MWEM on a graphical model (McKenna et al. 2022, Algorithm 1).

ε = 2 sqrt(ρ/T) and σ = sqrt(T/ρ) there: half of the budget for selection, half for measurement,
the same in each of T rounds. The paper's mechanism has no safeguard against models that do not
fit; here a candidate whose model would pass the limit is not considered, a public rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from admeasure.errors import ResourceError
from admeasure.families.graphical.family import GraphicalFamily, GraphicalModel, Shrink
from admeasure.limits import MEGABYTE
from admeasure.loop import Budget, all_rounds
from admeasure.planning import counting, forecast, room
from admeasure.planning.division import ASSUMED_ROWS, MEASUREMENT, SELECTION, Division, Task
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Query
from admeasure.schedules.even import Even
from admeasure.selectors.worst import worst_marginal
from admeasure.workload import Workload

AT_A_TIME = 64
"""Marginals whose models are sized together."""


@dataclass(frozen=True)
class MwemPgm:
    """One whole marginal of the workload a round, `rounds` rounds (one a column by default).

    `shrink`: which fits shrink measured effects towards what smaller marginals predict: none (the
    paper), that of the release at the end, or those of the rounds as well.
    """

    rounds: int | None = None
    max_megabytes: float = 80.0
    shrink: Shrink = "no"

    name: ClassVar[str] = "mwem-pgm"
    summary: ClassVar[str] = "MWEM's loop on a graphical model, a fixed number of rounds"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds")

    def check(self, task: Task) -> None:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        model = family.init(task.domain, task.zeros)
        marginals = task.workload.marginals()
        ordered = sorted(marginals, key=task.domain.cells)  # the first ones fit, if any
        parts = (ordered[i : i + AT_A_TIME] for i in range(0, len(ordered), AT_A_TIME))
        if not any(family.fitting(model, part, 1.0) for part in parts):
            raise ResourceError(
                f"mwem-pgm: no marginal of the workload fits a model of {self.max_megabytes:g} MB. "
                "Raise --max-megabytes, or use aim, which answers large ones from smaller ones."
            )

    def needs(self, task: Task) -> float:
        """The model's answers to all marginals that fit are compared at once."""
        most = self.max_megabytes * MEGABYTE / room.COUNTS
        offered = [r for r in task.workload.marginals() if task.domain.cells(r) <= most]
        return room.megabytes(task.domain, offered, each=room.COUNTS)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return counting.halved_rounds(task, budget, self.rounds or len(task.domain))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        measured = division[MEASUREMENT]
        return forecast.graphical(
            division.items,
            task,
            rows,
            sigma_last=measured.noise,
            rounds=str(measured.times),
            max_megabytes=self.max_megabytes,
            rates=forecast.FEW_FITS,
        )

    def run(self, task: Task, curator: Curator) -> Outcome:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        log = [counting.rows(curator)]
        division = self.divide(task, curator.budget, counting.believed(log[0]))
        model = family.update(family.init(task.domain, task.zeros), log)
        schedule = Even(division[SELECTION].cost, division[MEASUREMENT].cost)
        selector = _Fitting(family)
        model, log = all_rounds(curator, task.workload, family, selector, schedule, model, log)
        notes = forecast.unmeasured(task)
        return Outcome(family.polished(model, log), division[MEASUREMENT].times, notes=notes)


@dataclass(frozen=True)
class _Fitting:
    """The worst marginal among those whose model fits."""

    family: GraphicalFamily

    def select(
        self, curator: Curator, workload: Workload, model: GraphicalModel, budget: Budget
    ) -> Sequence[Query]:
        fitting = self.family.fitting(model, workload.marginals(), 1.0)
        return [worst_marginal(curator, fitting, model, budget)]
