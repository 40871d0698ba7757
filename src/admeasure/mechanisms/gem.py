"""GEM: generative networks with the exponential mechanism (Liu, Vietri and Wu 2021).

Algorithms 2 and 3 of Iterative Methods for Private Synthetic Data, and the marginal trick (A.1,
D.4), which is the default because it is far better: a whole marginal costs as much as one of its
cells. The exponent of the selection is α ε₀ n |q(P) - q(D)| (section 3.1; Algorithm 2 prints half
of it).

Released: noisy answers and choices, each charged by the curator; the network is computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from admeasure.domain import Domain
from admeasure.parts import generator
from admeasure.parts.course import Options
from admeasure.planning import room
from admeasure.planning.division import Division
from admeasure.planning.mechanism import NOT_AN_OPTION, Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Predicate
from admeasure.schema import Zero
from admeasure.unit import Unit
from admeasure.workload import Workload


@dataclass(frozen=True)
class Gem(Options):
    """A network from Gaussian noise to product rows, trained where the workload is answered worst.

    `Options` says what each option is.
    """

    predicates: tuple[Predicate, ...] = field(default=(), repr=False, metadata=NOT_AN_OPTION)

    name: ClassVar[str] = "gem"
    summary: ClassVar[str] = "a generator network trained on what is answered worst"

    def __post_init__(self) -> None:
        generator.check_options(self.name, self)

    def with_predicates(self, predicates: tuple[Predicate, ...]) -> Self:
        """The mechanism with a user's predicates: each is measured once, before the rounds."""
        return replace(self, predicates=predicates)

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        generator.check(self.name, self, domain, workload)
        generator.check_predicates(self.name, self, self.predicates, domain)

    def needs(self, domain: Domain, workload: Workload) -> float:
        return generator.needs(self.name, self, domain, workload)

    def start_libraries(self) -> None:
        room.start_jax(self.name)

    def divide(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: float
    ) -> Division:
        _, division = generator.divided(
            self, domain, workload, unit, budget, rows, predicates=self.predicates
        )
        return division

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: int | None
    ) -> Plan:
        return generator.plan(
            self.name, self, domain, workload, unit, budget, rows, predicates=self.predicates
        )

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        return generator.run(self.name, self, curator, workload, zeros, predicates=self.predicates)
