"""PMW-Pub: MWEM on the records of a public table (Liu, Vietri, Steinke, Ullman and Wu 2021).

Algorithm 1 of Leveraging Public Data for Practical Private Query Release: the same loop as MWEM,
with a weight for each distinct record of the public table instead of each cell of the domain, and
the table's own frequencies to begin with. No reweighting reaches below the best-mixture error of
the table (`admeasure screen`), however large the budget is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from admeasure.families.reweighting import MultiplicativeWeights, Reweighted
from admeasure.parts.reweighting import Loop, OnPublicRecords, Output, bound_note, plan_of
from admeasure.planning.division import ASSUMED_ROWS, SELECTION, Task, assumed
from admeasure.planning.mechanism import Plan, at_least_one
from admeasure.privacy.cost import Cost


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

    @property
    def loop(self) -> Loop:
        return Loop(self.rounds, self.measure, self.select, self.output)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        public = self.table
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[SELECTION].times
        steps = len(task.workload.marginals()) + (1 if self.reuse == "none" else rounds / 8)
        facts = public, task.domain, task.workload, task.unit
        note = bound_note(*facts, division, rows, self.initial)
        notes = (*public.notes, note, *assumed(rows or self.rounds))
        return plan_of(division, public.records, steps * self.passes, notes)

    def family(self, first: Reweighted) -> MultiplicativeWeights:
        return MultiplicativeWeights(self.reuse, self.passes)
