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
from fractions import Fraction
from typing import ClassVar, Literal, Self

from admeasure.domain import Domain
from admeasure.mechanisms import generator
from admeasure.mechanisms.base import NOT_AN_OPTION, Outcome, Plan
from admeasure.mechanisms.course import Measure
from admeasure.privacy.curator import Curator
from admeasure.privacy.unit import Unit
from admeasure.queries import Predicate
from admeasure.schema import Zero
from admeasure.workload import Workload


@dataclass(frozen=True)
class Gem:
    """A network from Gaussian noise to product rows, trained where the workload is answered worst.

    `measure`: whole marginals (squared errors in units of their noise), or single queries (absolute
    errors above γ, average of the weights of the second half of the rounds), as in the paper.
    `schedule`: `even`, or `annealed` as in AIM, which begins with small rounds.
    `rounds`: T of the even schedule; of the annealed one the most that there can be.
    `alpha`: the paper's privacy weight of selection against measurement; 0.37 for marginals (a
    quarter of the budget), 0.67 for single queries.
    `candidates`: marginals of the workload and of subsets of their columns, or the workload alone.
    `select`: the marginal that holds the worst answered cell (A.1), or, as in AIM, the one at the
    largest L1 distance less noise, which gives bounds for what was not measured.
    `hidden`, `noise`, `product_rows`: layers of the network, size of its noise, batch B.
    `learning_rate`, `steps`: Adam's, and T_max of each round.
    `resample`: new noise in every step instead of one batch for the run (B.2).
    """

    measure: Measure = "marginals"
    schedule: Literal["annealed", "even"] = "even"
    rounds: int | None = None
    alpha: float | None = None
    candidates: Literal["closure", "workload"] = "closure"
    select: Literal["largest", "distance"] = "largest"
    hidden: str | None = None
    noise: int = 64
    product_rows: int | None = None
    learning_rate: float | None = None
    steps: int | None = None
    resample: Literal["no", "yes"] = "no"
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

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, rho: Fraction, rows: int | None
    ) -> Plan:
        return generator.plan(self.name, self, domain, workload, unit, rho, rows)

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        return generator.run(self.name, self, curator, workload, zeros, predicates=self.predicates)
