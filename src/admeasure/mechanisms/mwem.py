"""MWEM: multiplicative weights and the exponential mechanism (Hardt, Ligett and McSherry 2012).

Figure 1 of that paper: start from the uniform distribution; in each of T rounds choose the query
that is answered worst, measure it, and update the weight of every cell of the domain. Differences
from the figure, each a choice of ours under zCDP instead of pure DP: discrete Gaussian noise
instead of Laplace, and the number of rows bought with a small share where it is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL
from admeasure.families.explicit import ExplicitModel, MultiplicativeWeights, average, check_size
from admeasure.loop import adaptive_measurements
from admeasure.mechanisms.base import Item, Outcome, Plan
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.privacy.unit import Unit
from admeasure.queries import Marginal
from admeasure.schedules.even import Even
from admeasure.schema import Zero
from admeasure.selectors.worst import WorstCell, WorstMarginal
from admeasure.workload import Workload

ROWS_SHARE = Fraction(1, 50)
SELECT_SHARE = Fraction(1, 2)


@dataclass(frozen=True)
class Mwem:
    """An explicit distribution over a small domain.

    `rounds`: T; None takes a number from the budget and the noisy number of rows.
    `measure`: one counting query a round, as in the paper, or one whole marginal.
    `passes`: how often each update goes through all past measurements; 1 uses the newest alone.
    `output`: the last iterate, or the average of all, of which the utility theorem speaks.
    """

    rounds: int | None = None
    measure: Literal["cells", "marginals"] = "marginals"
    passes: int = 50
    output: Literal["last", "average"] = "last"

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = "a number for every cell of a small domain, by multiplicative weights"

    def __post_init__(self) -> None:
        for option in ("rounds", "passes"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise UsageError(f"mwem: {option} must be at least 1; it is {value}.")

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        check_size(domain, self.name)

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: int | None
    ) -> Plan:
        rounds = self.rounds or self._default_rounds(domain, workload, rho, rows or 10_000)
        each = rho * (1 - ROWS_SHARE) / rounds
        l2_squared = (
            unit.max_rows**2
            if self.measure == "cells"
            else Marginal(domain.columns[:1]).sensitivity(domain, unit).l2_squared
        )
        measured = each * (1 - SELECT_SHARE)
        items = (
            Item("number of rows", rho * ROWS_SHARE, sigma_for(rho * ROWS_SHARE, unit.max_rows**2)),
            Item("selection, each round", each * SELECT_SHARE, times=rounds),
            Item("measurement, each round", measured, sigma_for(measured, l2_squared), rounds),
        )
        cells = domain.cells()
        seconds = cells * 4e-9 * rounds * rounds * self.passes / 2
        return Plan(items, str(rounds), None, 5 * cells * 8 / 2**20, seconds)

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        counted = curator.rows(curator.ledger.total * ROWS_SHARE)
        total = max(1.0, float(counted.values))
        rho = curator.remaining
        rounds = self.rounds or self._default_rounds(curator.domain, workload, rho, total)
        models = [
            done.after
            for done in adaptive_measurements(
                curator,
                workload,
                family=MultiplicativeWeights(self.passes),
                selector=WorstCell() if self.measure == "cells" else WorstMarginal(),
                schedule=Even(rho, rounds, SELECT_SHARE),
                model=ExplicitModel.uniform(curator.domain, total, zeros),
            )
        ]
        model = average(models) if self.output == "average" else models[-1]
        return Outcome(model, rounds=rounds)

    def _default_rounds(
        self, domain: Domain, workload: Workload, rho: Fraction, total: float
    ) -> int:
        """As many rounds as leave each measurement's noise below a fiftieth of its table.

        A whole marginal of n cells has expected noise sqrt(2/π) σ n in L1, a counting query σ.
        """
        cells = 1.0
        if self.measure == "marginals":
            sizes = sorted(domain.cells(c) for c in workload.marginals())
            cells = HALF_NORMAL * sizes[len(sizes) // 2]
        sigma = total / 50 / cells
        rounds = int(2 * float(rho * (1 - SELECT_SHARE)) * sigma**2)
        most = 100 if self.measure == "cells" else 2 * len(workload.marginals())
        return max(min(5, most), min(rounds, most))
