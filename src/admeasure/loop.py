"""Adaptive Measurements: select, measure, update (Liu, Vietri and Wu 2021, Algorithm 1).

Every mechanism that measures, learns and asks again runs through this file. What to measure next is
the selector's decision, what it may cost is the schedule's, what is believed afterwards is the
family's. Private data is behind the curator; the other three see its noisy results only.

The others have no such turn: `independent`, `gaussian`, `residual`, `privsyn` and `ji-elkan`
measure once, `dualquery` and `fem` choose and never measure, `all-zero` does neither. They ask the
same curator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from admeasure.families import Family, M, Model
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Query
from admeasure.workload import Workload

M_contra = TypeVar("M_contra", bound=Model, contravariant=True)


@dataclass(frozen=True)
class Budget:
    """What one round may spend."""

    select: Cost
    measure: Cost


@dataclass(frozen=True, eq=False)
class Round(Generic[M]):
    """One turn of the loop: what was allowed, asked and answered, and the belief on both sides."""

    budget: Budget
    answers: tuple[Measurement, ...]
    before: M
    after: M


class Schedule(Protocol):
    """What the next round may spend, from what is left and what the last round showed."""

    def next(self, remaining: Cost, last: Round[Any] | None) -> Budget | None: ...


class Selector(Protocol[M_contra]):
    """Which queries to measure next. Whatever it learns of the table it buys from the curator."""

    def select(
        self, curator: Curator, workload: Workload, model: M_contra, budget: Budget
    ) -> Sequence[Query]: ...


def adaptive_measurements(
    curator: Curator,
    workload: Workload,
    family: Family[M],
    selector: Selector[M],
    schedule: Schedule,
    model: M,
    log: Sequence[Measurement] = (),
) -> Iterator[Round[M]]:
    """Run until the schedule ends; yield each round as it is done."""
    log = list(log)
    last = None
    while budget := schedule.next(curator.remaining, last):
        queries = selector.select(curator, workload, model, budget)
        answers = curator.measure(queries, budget.measure)
        log += answers
        before, model = model, family.update(model, log)
        last = Round(budget, answers, before, model)
        yield last


def all_rounds(
    curator: Curator,
    workload: Workload,
    family: Family[M],
    selector: Selector[M],
    schedule: Schedule,
    model: M,
    log: Sequence[Measurement] = (),
) -> tuple[M, list[Measurement]]:
    """The model after the last of them, and the log with all that they measured."""
    log = list(log)
    for done in adaptive_measurements(curator, workload, family, selector, schedule, model, log):
        log += done.answers
        model = done.after
    return model, log
