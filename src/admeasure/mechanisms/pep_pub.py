"""PEP-Pub: entropy projection on the records of a public table (Liu, Vietri and Wu 2021, D.2).

PEP with two changes: the distribution lives on the public table's records, and the distribution
that each round projects is the public table's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from admeasure.mechanisms.pep import Begin, Projecting, Solver
from admeasure.parts.reweighting import OnPublicRecords
from admeasure.planning.division import Division, Task


@dataclass(frozen=True)
class PepPub(Projecting, OnPublicRecords):
    """A weight for each record of a public table; the options are those of `pep` and `pmw-pub`."""

    steps: int = 25
    gamma: float = 0.0
    begin: Begin = "last"
    solver: Solver = "projection"

    name: ClassVar[str] = "pep-pub"
    summary: ClassVar[str] = "a public table's records, reweighted by entropy projection"

    def effort(self, task: Task, rounds: int) -> float:
        return len(task.workload.marginals()) + self.steps * (1 + rounds / 20)

    def foreseen(self, task: Task, division: Division, rows: int | None) -> Sequence[str]:
        return self.table.notes
