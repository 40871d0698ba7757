"""RAP: relaxed adaptive projection (Aydore et al. 2021; Avent and Korolova 2023, Algorithms 1-4).

T rounds; in each, K queries that the rows answer worst are chosen at once (Algorithm 4), measured,
and the rows are fitted to everything measured (Algorithm 3). Half of a round's budget goes to the
choice, half to the answers. With T = 1 and K = all queries it is the non-adaptive variant, which
chooses nothing. Differences from the paper, each under zCDP with exact noise: add/remove as well as
replace neighbours, the number of rows bought with a small share where it is private, and T, K and
n' from public facts where they are not given (the paper reports the best of a search).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from admeasure.domain import Domain
from admeasure.mechanisms import projection
from admeasure.mechanisms.base import Outcome, Plan
from admeasure.privacy.curator import Curator
from admeasure.privacy.unit import Unit
from admeasure.schema import Zero
from admeasure.workload import Workload

if TYPE_CHECKING:
    from admeasure.families.products.optimise import How


@dataclass(frozen=True)
class Rap:
    """Product rows on the simplex, by sparsemax after each step.

    `rounds` T, `queries` K a round (single queries, or whole marginals), `product_rows` n'; None
    takes a number from the budget, the noisy number of rows and the workload.
    `measure`: single queries as in the paper; whole marginals, of which one costs what one cell
    costs; or all: every marginal of the workload once, without choosing (T = 1).
    """

    rounds: int | None = None
    queries: int | None = None
    product_rows: int | None = None
    measure: Literal["cells", "marginals", "all"] = "cells"
    steps: int = 1000

    name: ClassVar[str] = "rap"
    summary: ClassVar[str] = "rows of product distributions, fitted to the worst answered queries"

    def __post_init__(self) -> None:
        projection.check_options(self.name, self)

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        projection.check(self.name, self, domain, workload)

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: int | None
    ) -> Plan:
        return projection.plan(self, domain, workload, unit, rho, rows)

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        return projection.run(self, self.how(), curator, workload, zeros)

    def how(self) -> How:
        from admeasure.families.products.optimise import How

        return How("sparsemax", learning_rate=0.03, steps=self.steps)
