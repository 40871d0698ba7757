"""PEP-Pub: entropy projection on the records of a public table (Liu, Vietri and Wu 2021, D.2).

PEP with two changes: the distribution lives on the public table's records, and the distribution
that each round projects is the public table's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families import Family
from admeasure.families.reweighting import W
from admeasure.mechanisms.pep import Begin, Solver, check_gamma, projection
from admeasure.parts.reweighting import Loop, OnPublicRecords, plan_of
from admeasure.planning.division import ASSUMED_ROWS, SELECTION, Task, assumed
from admeasure.planning.mechanism import Plan, at_least_one
from admeasure.privacy.cost import Cost


@dataclass(frozen=True)
class PepPub(OnPublicRecords):
    """A weight for each record of a public table; the options are those of `pep` and `pmw-pub`."""

    steps: int = 25
    gamma: float = 0.0
    begin: Begin = "last"
    solver: Solver = "projection"

    name: ClassVar[str] = "pep-pub"
    summary: ClassVar[str] = "a public table's records, reweighted by entropy projection"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "steps")
        check_gamma(self.name, self.gamma)

    @property
    def loop(self) -> Loop:
        return Loop(self.rounds, self.measure, self.select)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        public = self.table
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[SELECTION].times
        steps = len(task.workload.marginals()) + self.steps * (1 + rounds / 20)
        notes = (*public.notes, *assumed(rows or self.rounds))
        return plan_of(division, public.records, steps, notes)

    def family(self, first: W) -> Family[W]:
        return projection(first, self.solver, self.steps, self.gamma, self.begin)
