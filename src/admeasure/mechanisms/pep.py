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
from admeasure.parts.reweighting import Loop, Measure, OnCells, plan_of
from admeasure.planning.division import ASSUMED_ROWS, SELECTION, Task, assumed
from admeasure.planning.mechanism import Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.selectors.worst import Law

Solver = Literal["projection", "dual"]
Begin = Literal["last", "start"]


def projection(start: W, solver: Solver, steps: int, gamma: float, begin: Begin) -> Family[W]:
    """The update that the options name."""
    if solver == "dual":
        return ExactProjection(start, gamma)
    return EntropyProjection(start, steps, gamma, begin)


def check_gamma(name: str, gamma: float) -> None:
    if not 0 <= gamma < 1:
        raise UsageError(f"{name}: gamma is a share, at least 0 and below 1; it is {gamma}.")


@dataclass(frozen=True)
class Pep(OnCells):
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

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "steps")
        check_gamma(self.name, self.gamma)

    @property
    def loop(self) -> Loop:
        return Loop(self.rounds, self.measure, self.select)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[SELECTION].times
        used = 0.1 if self.measure == "cells" else 1.0
        steps = len(task.workload.marginals()) / 8 + self.steps * (1 + used * rounds / 2)
        return plan_of(division, task.domain.cells(), steps, assumed(rows or self.rounds))

    def family(self, first: W) -> Family[W]:
        return projection(first, self.solver, self.steps, self.gamma, self.begin)
