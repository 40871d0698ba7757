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

from admeasure.domain import Domain, canonical
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily, Shrink
from admeasure.loop import adaptive_measurements
from admeasure.measurement import Measurement
from admeasure.planning import forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, ROUNDS, Division, Item
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.queries import Marginal
from admeasure.schedules.annealed import Annealed
from admeasure.schema import Zero
from admeasure.selectors.improvement import ExpectedImprovement, closure_weights
from admeasure.unit import Unit
from admeasure.workload import Workload

AGAIN = "the chosen marginals once more, together"


@dataclass(frozen=True)
class Aim:
    """The paper's mechanism; its hyper-parameters are the paper's and need no tuning.

    `max_megabytes`: MAX-SIZE, the most that the junction tree may take.
    `rounds`: T, from which the first round's budget follows; 16 for each column by default.
    `alpha`: the part of the budget that goes to measurement.
    `final_pass`: the part of the budget kept back to measure the chosen marginals once more, when
    all are known; 0 is the paper. docs/aim.md has what 0.3 did to the error.
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
        if not 0 < self.alpha < 1:
            raise UsageError(f"aim: alpha must lie between 0 and 1; it is {self.alpha}.")
        if not 0 <= self.final_pass < 1:
            raise UsageError(f"aim: final-pass must be from 0 to below 1; it is {self.final_pass}.")
        if not self.max_megabytes > 0:
            raise UsageError(f"aim: max-megabytes must be positive; it is {self.max_megabytes}.")

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        named = {column for r in workload.marginals() for column in r}
        if self.rounds is not None and self.rounds < len(named):
            raise UsageError(
                f"aim: rounds must be at least the workload's {len(named)} columns, each of "
                f"which is measured once; it is {self.rounds}."
            )
        self._family.init(domain, zeros)

    def needs(self, domain: Domain, workload: Workload) -> float:
        """The one-way marginals; what is measured later is chosen among what fits."""
        return room.megabytes(domain, [(c,) for c in domain.columns], each=40)

    def divide(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: float
    ) -> Division:
        singles = sum(len(r) == 1 for r in workload.closure())
        keep = rho * Fraction(self.final_pass)
        measured = self._each(domain, rho) * Fraction(self.alpha)
        sigma = sigma_for(measured, unit.rows_changed * unit.max_rows)
        return Division(
            (
                Item(ONE_WAY, measured, sigma, singles),
                Item(ROUNDS, rho - keep - measured * singles),
                *([Item(AGAIN, keep)] if keep else []),
            )
        )

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: int | None
    ) -> Plan:
        division = self.divide(domain, workload, unit, rho, rows or ASSUMED_ROWS)
        left, each = division.total(ROUNDS), self._each(domain, rho)
        last = left * Fraction(self.alpha) / 4
        return forecast.graphical(
            division.items,
            domain,
            workload,
            rows,
            sigma_last=sigma_for(last, unit.rows_changed * unit.max_rows),
            rounds=f"{forecast.fewest_rounds(left, each)} to {int(left / each) + 1}",
            max_megabytes=self.max_megabytes,
        )

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        domain, rho = curator.domain, curator.ledger.total
        division = self.divide(domain, workload, curator.unit, rho, ASSUMED_ROWS)
        schedule = Annealed(self._each(domain, rho), Fraction(self.alpha), division.total(AGAIN))
        weights = closure_weights(workload)
        one_way = [Marginal(r) for r in weights if len(r) == 1]

        curator.expect(list(weights))  # what the rounds may look at, in one pass over the table
        family = self._family
        log = list(curator.measure(one_way, division.total(ONE_WAY)))
        model = family.update(family.init(domain, zeros), log)
        selector = ExpectedImprovement(family, weights)
        rounds = adaptive_measurements(curator, workload, family, selector, schedule, model, log)
        for done in rounds:
            log += done.answers
            model = done.after

        again = self._again(curator, log)
        model = family.polished(model, [*log, *again])
        selections = selector.evidence(log, model)
        notes = forecast.unmeasured(domain, workload)
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
    def _family(self) -> GraphicalFamily:
        return GraphicalFamily(self.max_megabytes, self.shrink)

    def _each(self, domain: Domain, rho: Fraction) -> Fraction:
        """ρ/T: what the first rounds cost, σ_0 and ε_0 of lines 4 and 9 in one number."""
        return rho * (1 - Fraction(self.final_pass)) / (self.rounds or 16 * len(domain))
