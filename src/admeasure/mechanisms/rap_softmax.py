"""RAP-softmax: RAP on logits (Liu, Vietri and Wu 2021, section 3; appendix A.2).

Rows are softmax(M) with M free, so that a row is always a distribution and no projection is needed:
to raise one level is to lower the others. Everything else is as in `rap`.
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
class RapSoftmax:
    """Product rows by softmax; options as in `rap`."""

    rounds: int | None = None
    queries: int | None = None
    product_rows: int | None = None
    measure: Literal["cells", "marginals", "all"] = "cells"
    steps: int = 1000

    name: ClassVar[str] = "rap-softmax"
    summary: ClassVar[str] = "rap with softmax rows: usually closer at the same budget"

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

        return How("softmax", learning_rate=0.1, steps=self.steps)
