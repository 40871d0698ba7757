"""MWEM: multiplicative weights and the exponential mechanism (Hardt, Ligett and McSherry 2012).

Figure 1 of that paper: start from the uniform distribution; in each of T rounds choose the query
that is answered worst, measure it, and update the weight of every cell of the domain. Differences
from the figure, each a choice of ours under zCDP instead of pure DP: discrete Gaussian noise
instead of Laplace, and the number of rows bought with a small share where it is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from admeasure.families.reweighting import MultiplicativeWeights, Reweighted
from admeasure.parts.reweighting import Measure, OnCells, Output
from admeasure.planning.division import Task
from admeasure.planning.mechanism import at_least_one
from admeasure.selectors.worst import Law


@dataclass(frozen=True)
class Mwem(OnCells):
    """An explicit distribution over a small domain.

    `rounds`: T; None takes a number from the budget and the noisy number of rows.
    `measure`: one counting query a round, as in the paper, or one whole marginal.
    `reuse`: what an update does with earlier measurements: "none" (the figure), "large" (those
    with large errors, the rule of PMW-Pub) or "all"; see `MultiplicativeWeights`.
    `passes`: how often each update is repeated.
    `select`: the exponential mechanism, or permute and flip, which costs more here.
    `output`: the last iterate, or the average of all, of which the utility theorem speaks.
    """

    rounds: int | None = None
    measure: Measure = "cells"
    reuse: Literal["none", "large", "all"] = "large"
    passes: int = 1
    select: Law = "exponential"
    output: Output = "last"

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = "a number for every cell of a small domain, by multiplicative weights"
    pace: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "passes")

    def effort(self, task: Task, rounds: int) -> float:
        used = 1 if self.reuse == "none" else rounds / 2
        return len(task.workload.marginals()) / 8 + used * self.passes

    def family(self, first: Reweighted) -> MultiplicativeWeights:
        return MultiplicativeWeights(self.reuse, self.passes)
