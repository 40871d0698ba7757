"""GEM: generative networks with the exponential mechanism (Liu, Vietri and Wu 2021).

Algorithms 2 and 3 of Iterative Methods for Private Synthetic Data, and the marginal trick (A.1,
D.4), which is the default because it is far better: a whole marginal costs as much as one of its
cells. The exponent of the selection is α ε₀ n |q(P) - q(D)| (section 3.1; Algorithm 2 prints half
of it).

Released: noisy answers and choices, each charged by the curator; the network is computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from admeasure.parts.generator import NetworkMechanism
from admeasure.planning.division import Task
from admeasure.planning.mechanism import Plan
from admeasure.privacy.cost import Cost
from admeasure.queries import Predicate


@dataclass(frozen=True)
class Gem(NetworkMechanism):
    """A network from Gaussian noise to product rows, trained where the workload is answered worst.

    `Options` says what each option is.
    """

    name: ClassVar[str] = "gem"
    summary: ClassVar[str] = "a generator network trained on what is answered worst"
    informed: ClassVar[bool] = False

    def with_predicates(self, predicates: tuple[Predicate, ...]) -> Self:
        """The mechanism with a user's predicates."""
        return replace(self, predicates=predicates)

    def check(self, task: Task) -> None:
        self.check_network(task)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        return self.planned(task, budget, rows)

    def begun(self, task: Task) -> tuple[None, Sequence[str]]:
        return None, ()
