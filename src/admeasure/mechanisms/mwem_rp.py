"""MWEM with relaxed projection: MWEM+PGM's loop on product rows (McKenna et al. 2022, appendix F).

Identical to `mwem-pgm` (Algorithm 1 there) but for the model: after each round the rows of `rap`
are fitted to everything measured (Aydore et al. 2021; `families.products.optimise`) in the place of
Private-PGM. So the two differ in what can be believed and in nothing that is asked, chosen or paid:
in each of T rounds the marginal with the largest ||M_r(D) - M_r(p)||_1 - n_r is chosen by the
exponential mechanism (one person moves that by at most the rows that a person changes) and measured
whole, half of the round's budget for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.products.tensor import check_query_size
from admeasure.loop import all_rounds
from admeasure.parts.relaxed_projection import (
    check_fitted,
    check_rows,
    expected_seconds,
    fitted_megabytes,
    fitted_rows,
    product_rows,
)
from admeasure.planning import counting, forecast, room
from admeasure.planning.division import ASSUMED_ROWS, MEASUREMENT, SELECTION, Division, Task
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.schedules.even import Even
from admeasure.selectors.worst import WorstMarginal


@dataclass(frozen=True)
class MwemRp:
    """One whole marginal of the workload a round, `rounds` rounds (one a column by default).

    `product_rows`: n', by default 16 for each level, 64 to 1000. `steps`: the most steps of one
    fit.
    """

    rounds: int | None = None
    product_rows: int | None = None
    steps: int = 1000

    name: ClassVar[str] = "mwem-rp"
    summary: ClassVar[str] = "MWEM's loop on rows of product distributions"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "product_rows", "steps")
        check_rows(self.name, self.product_rows)

    def check(self, task: Task) -> None:
        check_fitted(self.name, task.workload)
        check_query_size(task.workload.queries, task.domain, self.name)

    def needs(self, task: Task) -> float:
        """The rows, their gradient and what Adam remembers of it; the answers to all marginals,
        which are compared at once."""
        rows = product_rows(self.product_rows, task.domain)
        answers = room.megabytes(task.domain, task.workload.marginals(), each=20, largest=40)
        return fitted_megabytes(task.domain, rows) + answers

    def start_libraries(self) -> None:
        room.start_jax(self.name)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return counting.halved_rounds(task, budget, self.rounds or len(task.domain))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[MEASUREMENT].times
        cells = sum(task.domain.cells(c) for c in task.workload.marginals())
        size = product_rows(self.product_rows, task.domain)
        seconds = expected_seconds(task.domain, rounds, cells, size)
        needs = self.needs(task)
        return Plan(division.items, str(rounds), None, needs, seconds)

    def run(self, task: Task, curator: Curator) -> Outcome:
        family = fitted_rows("sparsemax", 0.03, self.steps)
        total = counting.believed(counting.rows(curator))
        division = self.divide(task, curator.budget, total)
        rows = product_rows(self.product_rows, task.domain)
        model = family.init(task.domain, total, rows, task.zeros)
        schedule = Even(division[SELECTION].cost, division[MEASUREMENT].cost)
        model, _ = all_rounds(curator, task.workload, family, WorstMarginal(), schedule, model)
        notes = forecast.unmeasured(task)
        return Outcome(model, division[MEASUREMENT].times, notes=notes)
