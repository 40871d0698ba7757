"""Synthetic records found one by one, as DualQuery and FEM make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from admeasure.domain import Domain
from admeasure.families.support import Records, SupportModel
from admeasure.parts.oracle import Oracle, Solver
from admeasure.planning import room
from admeasure.planning.division import Task
from admeasure.queries import WorkloadQuery
from admeasure.schema import Zero
from admeasure.workload import Workload

Record = Mapping[str, int]

MAX_TRIES = 1000


class FindsRecords:
    """What `dualquery` and `fem` have in common: a solver finds their records."""

    name: ClassVar[str]
    seconds: float
    solver: Solver

    def check(self, task: Task) -> None:
        _ = self.oracle(task).engine
        _ = task.workload.targets
        room.check_counted(task.domain, task.workload.marginals(), self.name)

    def needs(self, task: Task) -> float:
        """Answers and two scores, for a query and its negation, of everything that is asked."""
        asked = [q.columns for q in task.workload.queries]
        return room.megabytes(task.domain, asked, each=4 * room.COUNTS, largest=8 * room.COUNTS)

    def oracle(self, task: Task) -> Oracle:
        return Oracle(task.domain, task.zeros, self.seconds, self.solver)

    def limit_notes(self, limited: int, calls: int) -> list[str]:
        """That so many calls ended at their limit, if any did."""
        if not limited:
            return []
        return [
            f"{limited} of {calls} calls of the solver ended at their limit of {self.seconds:g} "
            "seconds with a record that is not proved to be the best."
        ]

    def ended(self, t: int) -> str:
        return (
            f"The run ended in round {t}: the solver found no record in {self.seconds:g} seconds. "
            "What was left of the budget was not spent."
        )


def model_of(found: Sequence[Record], domain: Domain, total: float) -> SupportModel:
    """The empirical distribution of the records."""
    rows = np.array([[record[c] for c in domain.columns] for record in found], dtype=np.int64)
    return empirical(rows, domain, total)


def empirical(rows: np.ndarray, domain: Domain, total: float) -> SupportModel:
    """The empirical distribution of lines of codes."""
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    codes = dict(zip(domain.columns, distinct.T.astype(np.uint16), strict=True))
    return SupportModel(Records(codes, domain), times / len(rows), total)


def completed(part: Record, domain: Domain, rng: np.random.Generator) -> Record:
    """A record whose other columns are drawn uniformly: nothing was said about them, and no
    [[zero]] speaks of them."""
    return {c: part[c] if c in part else int(rng.integers(domain[c])) for c in domain.columns}


def uniform(domain: Domain, zeros: Sequence[Zero], rng: np.random.Generator) -> Record | None:
    """A record drawn uniformly among those that can occur, if one is soon found."""
    for _ in range(MAX_TRIES):
        record = {c: int(rng.integers(domain[c])) for c in domain.columns}
        if not any(zero.mask[tuple(record[c] for c in zero.columns)] for zero in zeros):
            return record
    return None


def answers(model: SupportModel, workload: Workload) -> dict[WorkloadQuery, np.ndarray]:
    """What the model answers to every query of the workload, in rows."""
    tables = model.marginals([q.columns for q in workload.queries])
    return {q: q.answer(t) for q, t in zip(workload.queries, tables, strict=True)}
