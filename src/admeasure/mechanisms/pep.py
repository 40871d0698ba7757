"""PEP: private entropy projection (Liu, Vietri and Wu 2021, section 5 and Algorithm 4).

The loop of MWEM; each round then looks for the distribution nearest to the uniform one that agrees
with everything measured so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from admeasure.errors import UsageError
from admeasure.families import Family
from admeasure.families.entropy_projection import EntropyProjection, ExactProjection
from admeasure.families.reweighting import W
from admeasure.parts.reweighting import Measure, OnCells, Reweighting
from admeasure.planning.division import Task
from admeasure.planning.mechanism import at_least_one
from admeasure.selectors.worst import Law

Solver = Literal["projection", "dual"]
Begin = Literal["last", "start"]


class Projecting(Reweighting):
    """What `pep` and `pep-pub` have in common: the update, as their options name it."""

    steps: int
    gamma: float
    begin: Begin
    solver: Solver

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "steps")
        if not 0 <= self.gamma < 1:
            raise UsageError(
                f"{self.name}: gamma is a share, at least 0 and below 1; it is {self.gamma}."
            )

    def family(self, first: W) -> Family[W]:
        if self.solver == "dual":
            return ExactProjection(first, self.gamma)
        return EntropyProjection(first, self.steps, self.gamma, self.begin)


@dataclass(frozen=True)
class Pep(Projecting, OnCells):
    """An explicit distribution over a small domain, by entropy projection.

    `rounds`: T; None takes a number from the budget and the noisy number of rows.
    `measure`: one counting query a round, as in the paper, or one whole marginal.
    `steps`: T_max, the most projections in a round. `gamma`: errors, in shares, that are let be.
    `begin`: project the last round's distribution, or the first one anew; `EntropyProjection`.
    `solver`: Algorithm 4, or the dual problem solved to a tolerance.
    `select`: the exponential mechanism, or permute and flip, which costs more here.
    """

    rounds: int | None = None
    measure: Measure = "marginals"
    steps: int = 25
    gamma: float = 0.0
    begin: Begin = "last"
    solver: Solver = "projection"
    select: Law = "exponential"

    name: ClassVar[str] = "pep"
    summary: ClassVar[str] = "a number for every cell of a small domain, by entropy projection"

    def effort(self, task: Task, rounds: int) -> float:
        used = 0.1 if self.measure == "cells" else 1.0
        return len(task.workload.marginals()) / 8 + self.steps * (1 + used * rounds / 2)
