"""PMW-Pub: MWEM on the records of a public table (Liu, Vietri, Steinke, Ullman and Wu 2021).

Algorithm 1 of Leveraging Public Data for Practical Private Query Release: the same loop as MWEM,
with a weight for each distinct record of the public table instead of each cell of the domain, and
the table's own frequencies to begin with. No reweighting reaches below the best-mixture error of
the table (`admeasure screen`), however large the budget is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from admeasure.families.reweighting import MultiplicativeWeights, Reweighted
from admeasure.parts.reweighting import OnPublicRecords, Output, bound_note
from admeasure.planning.division import Division, Task
from admeasure.planning.mechanism import at_least_one


@dataclass(frozen=True)
class PmwPub(OnPublicRecords):
    """A weight for each record of a public table.

    `initial`: start from the public frequencies or from equal weights. The other options are those
    of `mwem`; by default one counting query a round, as in the paper.
    """

    reuse: Literal["none", "large", "all"] = "large"
    passes: int = 1
    output: Output = "last"

    name: ClassVar[str] = "pmw-pub"
    summary: ClassVar[str] = "a public table's records, reweighted by multiplicative weights"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "passes")

    def effort(self, task: Task, rounds: int) -> float:
        used = 1 if self.reuse == "none" else rounds / 8
        return (len(task.workload.marginals()) + used) * self.passes

    def foreseen(self, task: Task, division: Division, rows: int | None) -> Sequence[str]:
        return *self.table.notes, bound_note(self.table, task, division, rows, self.initial)

    def family(self, first: Reweighted) -> MultiplicativeWeights:
        return MultiplicativeWeights(self.reuse, self.passes)
