"""AIM: an adaptive and iterative mechanism (McKenna, Mullins, Sheldon and Miklau 2022).

Algorithm 4, with its subroutines where they live: the one-way marginals of Algorithm 2 here, the
selection in `selectors.improvement`, the annealing of Algorithm 3 in `schedules.annealed`, the
estimation in `families.graphical`. Thresholds take part through the marginals of their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from admeasure.domain import canonical
from admeasure.families.graphical.family import GraphicalFamily, Shrink
from admeasure.loop import all_rounds
from admeasure.measurement import Measurement
from admeasure.parts.annealing import Annealing
from admeasure.planning import forecast
from admeasure.planning.division import ONE_WAY, Division, Task
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal
from admeasure.selectors.improvement import ExpectedImprovement, closure_weights

AGAIN = "the chosen marginals once more, together"


@dataclass(frozen=True)
class Aim:
    """The paper's mechanism; its hyper-parameters are the paper's and need no tuning.

    `max_megabytes`: MAX-SIZE, the most that the junction tree may take.
    `rounds`: T, from which the first round's budget follows; 16 for each column by default.
    `alpha`: the part of the budget that goes to measurement.
    `final_pass`: the part of the budget kept back to measure the chosen marginals once more, when
    all are known; 0 is the paper. docs/explanations/aim.md has what 0.3 did to the error.
    `shrink`: which fits shrink measured effects towards what smaller marginals predict: none (the
    paper), that of the release at the end, or those of the rounds as well.
    """

    max_megabytes: float = 80.0
    rounds: int | None = None
    alpha: float = 0.9
    final_pass: float = 0.0
    shrink: Shrink = "no"

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "a graphical model grown where the workload is answered worst"

    def __post_init__(self) -> None:
        _ = self._annealing  # refuses options out of range

    def check(self, task: Task) -> None:
        self._annealing.check(task)

    def needs(self, task: Task) -> float:
        return self._annealing.needs(task)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return self._annealing.divide(task, budget)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        return self._annealing.plan(task, budget, rows)

    def run(self, task: Task, curator: Curator) -> Outcome:
        budget = curator.budget
        division = self._annealing.divide(task, budget)
        schedule = self._annealing.schedule(task.domain, budget)
        weights = closure_weights(task.workload)
        one_way = [Marginal(r) for r in weights if len(r) == 1]

        curator.expect(list(weights))  # what the rounds may look at, in one pass over the table
        family = self._annealing.family
        log = curator.measure(one_way, division.total(ONE_WAY))
        model = family.update(family.init(task.domain, task.zeros), log)
        selector = ExpectedImprovement(family, weights, kept=self.final_pass)
        model, log = all_rounds(curator, task.workload, family, selector, schedule, model, log)

        again = self._again(curator, log)
        model = family.polished(model, [*log, *again])
        selections = selector.evidence(log, model)
        notes = forecast.unmeasured(task)
        return Outcome(model, len(log) - len(one_way), selections, notes)

    def _again(self, curator: Curator, log: Sequence[Measurement]) -> Sequence[Measurement]:
        """The largest marginals of the model once more, for what was kept back.

        Shares in proportion to cells^(2/3) make the expected L1 noise of all together least.
        """
        if not curator.remaining:
            return ()
        sets = {frozenset(m.query.columns) for m in log}
        largest = sorted(canonical(r) for r in sets if not any(r < other for other in sets))
        shares = [Fraction(curator.domain.cells(r) ** (2 / 3)) for r in largest]
        return curator.measure([Marginal(r) for r in largest], curator.remaining, shares)

    @property
    def _annealing(self) -> Annealing:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        return Annealing(self.name, AGAIN, family, self.rounds, self.alpha, self.final_pass)
