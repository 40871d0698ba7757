"""MWEM+PGM: the loop of MWEM on a graphical model (McKenna et al. 2022, Algorithm 1).

ε = 2 sqrt(ρ/T) and σ = sqrt(T/ρ) there: half of the budget for selection, half for measurement,
the same in each of T rounds. The paper's mechanism has no safeguard against models that do not
fit; here a candidate whose model would pass the limit is not considered, a public rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.families.graphical.family import GraphicalFamily, GraphicalModel
from admeasure.loop import Budget, adaptive_measurements
from admeasure.mechanisms import planning
from admeasure.mechanisms.base import Item, Outcome, Plan
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.privacy.unit import Unit
from admeasure.queries import Query
from admeasure.schedules.even import Even
from admeasure.schema import Zero
from admeasure.selectors.worst import worst_marginal
from admeasure.workload import Workload

HALF = Fraction(1, 2)
ROWS_SHARE = Fraction(1, 50)


@dataclass(frozen=True)
class MwemPgm:
    """One whole marginal of the workload a round, `rounds` rounds (one a column by default)."""

    rounds: int | None = None
    max_megabytes: float = 80.0

    name: ClassVar[str] = "mwem-pgm"
    summary: ClassVar[str] = "MWEM's loop on a graphical model, a fixed number of rounds"

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise UsageError(f"mwem-pgm: rounds must be at least 1; it is {self.rounds}.")

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        family = GraphicalFamily(self.max_megabytes)
        if not family.fitting(family.init(domain, zeros), workload.marginals(), 1.0):
            raise ResourceError(
                f"mwem-pgm: no marginal of the workload fits a model of {self.max_megabytes:g} MB. "
                "Raise --max-megabytes, or use aim, which answers large ones from smaller ones."
            )

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: int | None
    ) -> Plan:
        rounds = self.rounds or len(domain)
        each = rho * (1 - ROWS_SHARE) / rounds * HALF
        sigma = sigma_for(each, unit.rows_changed * unit.max_rows)
        items = (
            Item("number of rows", rho * ROWS_SHARE, sigma_for(rho * ROWS_SHARE, unit.max_rows**2)),
            Item("selection, each round", each, times=rounds),
            Item("measurement, each round", each, sigma, rounds),
        )
        return planning.graphical(
            items,
            domain,
            workload,
            rows,
            sigma_last=sigma,
            rounds=str(rounds),
            max_megabytes=self.max_megabytes,
        )

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        family = GraphicalFamily(self.max_megabytes)
        log = [curator.rows(curator.ledger.total * ROWS_SHARE)]
        model = family.update(family.init(curator.domain, zeros), log)
        rounds = self.rounds or len(curator.domain)
        schedule = Even(curator.remaining, rounds, HALF)
        selector = _Fitting(family)
        for done in adaptive_measurements(
            curator, workload, family, selector, schedule, model, log
        ):
            log += done.answers
            model = done.after
        notes = planning.unmeasured(curator.domain, workload)
        return Outcome(family.polished(model, log), rounds, notes=notes)


@dataclass(frozen=True)
class _Fitting:
    """The worst marginal among those whose model fits."""

    family: GraphicalFamily

    def select(
        self, curator: Curator, workload: Workload, model: GraphicalModel, budget: Budget
    ) -> Sequence[Query]:
        fitting = self.family.fitting(model, workload.marginals(), 1.0)
        return [worst_marginal(curator, fitting, model, budget)]
