"""MWEM with relaxed projection: MWEM+PGM's loop on product rows (McKenna et al. 2022, appendix F).

Identical to `mwem-pgm` (Algorithm 1 there) but for the model: after each round the rows of `rap`
are fitted to everything measured (Aydore et al. 2021; `families.products.optimise`) in the place of
Private-PGM. So the two differ in what can be believed and in nothing that is asked, chosen or paid:
in each of T rounds the marginal with the largest ||M_r(D) - M_r(p)||_1 - n_r is chosen by the
exponential mechanism (one person moves that by at most the rows that a person changes) and measured
whole, half of the round's budget for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from admeasure.domain import Domain
from admeasure.families.products.tensor import check_query_size
from admeasure.loop import adaptive_measurements
from admeasure.parts.relaxed_projection import (
    check_fitted,
    check_rows,
    expected_seconds,
    fitted_megabytes,
    fitted_rows,
    product_rows,
)
from admeasure.planning import forecast, room
from admeasure.planning.division import (
    ASSUMED_ROWS,
    MEASUREMENT,
    SELECTION,
    Division,
    Task,
    believed_rows,
    count_rows,
    halved_rounds,
)
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.schedules.even import Even
from admeasure.schema import Zero
from admeasure.selectors.worst import WorstMarginal
from admeasure.workload import Workload


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

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        check_fitted(self.name, workload)
        check_query_size(workload.queries, domain, self.name)

    def needs(self, domain: Domain, workload: Workload) -> float:
        """The rows, their gradient and what Adam remembers of it; the answers to all marginals,
        which are compared at once."""
        rows = product_rows(self.product_rows, domain)
        answers = room.megabytes(domain, workload.marginals(), each=20, largest=40)
        return fitted_megabytes(domain, rows) + answers

    def start_libraries(self) -> None:
        room.start_jax(self.name)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return halved_rounds(task, budget, self.rounds or len(task.domain))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[MEASUREMENT].times
        cells = sum(task.domain.cells(c) for c in task.workload.marginals())
        size = product_rows(self.product_rows, task.domain)
        seconds = expected_seconds(task.domain, rounds, cells, size)
        needs = self.needs(task.domain, task.workload)
        return Plan(division.items, str(rounds), None, needs, seconds)

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        family = fitted_rows("sparsemax", 0.03, self.steps)
        total = believed_rows(count_rows(curator))
        division = self.divide(Task.of(curator, workload, zeros), curator.budget, total)
        rows = product_rows(self.product_rows, curator.domain)
        model = family.init(curator.domain, total, rows, zeros)
        schedule = Even(division[SELECTION].cost, division[MEASUREMENT].cost)
        for done in adaptive_measurements(
            curator, workload, family, WorstMarginal(), schedule, model
        ):
            model = done.after
        notes = forecast.unmeasured(curator.domain, workload)
        return Outcome(model, division[SELECTION].times, notes=notes)
