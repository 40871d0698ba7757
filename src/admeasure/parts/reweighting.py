"""What MWEM, PEP and their public variants share: the run, the plan, the utility bound.

They differ in what they start from (every cell of the domain, or a public table's records) and in
how they update.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL, Family
from admeasure.families.explicit import ExplicitModel, check_size
from admeasure.families.reweighting import Reweighted, average
from admeasure.families.support import SupportModel
from admeasure.limits import MEGABYTE
from admeasure.loop import adaptive_measurements
from admeasure.planning import counting, room
from admeasure.planning.division import (
    ASSUMED_ROWS,
    MEASUREMENT,
    SELECTION,
    Division,
    Task,
    assumed,
    even_rounds,
    precision,
)
from admeasure.planning.mechanism import NOT_AN_OPTION, Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.public.table import PublicTable
from admeasure.queries import Marginal
from admeasure.schedules.even import Even
from admeasure.selectors.worst import Law, WorstCell, WorstMarginal
from admeasure.unit import Unit

SELECT_SHARE = Fraction(1, 2)

MOST_ROUNDS = 1000
"""Rounds of one counting query each that no default passes."""

Measure = Literal["cells", "marginals"]
Output = Literal["last", "average"]


def balanced_rounds(budget: Cost, total: float, unit: Unit) -> float:
    """(n sqrt(ρ) / m)^(2/3), n rows and at most m of them from one person.

    Error that further rounds would remove falls about as 1/T, the noise of a round rises as
    m sqrt(T) / (n sqrt(ρ)), in shares. They are in balance where T^(3/2) is n sqrt(ρ) / m, up to a
    constant that the benchmarks of docs/measurements/public-data.md show to be near 1 from a
    uniform start and near 1/2 with a public one or with projections.
    """
    return (total * math.sqrt(precision(budget)) / unit.max_rows) ** (2 / 3)


class Reweighting(ABC):
    """What the four have in common: rounds that each choose the worst answered query by the law
    `select` and measure it, single or a whole marginal, from a model that `family` then reweights.

    `pace`: where `rounds` is None and counting queries are measured, how many rounds are taken for
    each one of `balanced_rounds`.
    """

    name: ClassVar[str]
    pace: ClassVar[float] = 0.5
    rounds: int | None
    measure: Measure
    select: Law
    output: Output = "last"

    @abstractmethod
    def start(self, task: Task, total: float) -> Reweighted:
        """What is believed of `total` rows before anything is measured."""

    @abstractmethod
    def family(self, first: Any) -> Family[Any]:
        """The update, from the first model."""

    @abstractmethod
    def records(self, task: Task) -> int:
        """How many have a weight."""

    @abstractmethod
    def effort(self, task: Task, rounds: int) -> float:
        """Passes over all records in an average one of so many rounds."""

    def notes(self, task: Task) -> Sequence[str]:
        """What a release says of what was started from."""
        return ()

    def foreseen(self, task: Task, division: Division, rows: int | None) -> Sequence[str]:
        """What a plan says of that, and of the outcome."""
        return ()

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        whole = Marginal(task.workload.marginals()[0]).sensitivity(task.domain, task.unit)
        l2_squared = task.unit.max_rows**2 if self.measure == "cells" else whole.l2_squared
        rounds = self.rounds or self._default_rounds(task, left, rows)
        return Division((*counted, *even_rounds(left, rounds, SELECT_SHARE, l2_squared)))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds, records = division[SELECTION].times, self.records(task)
        seconds = 0.5 + records * 4e-9 * rounds * self.effort(task, rounds)
        notes = (*self.foreseen(task, division, rows), *assumed(rows or self.rounds))
        return Plan(division.items, str(rounds), None, 5 * records * 8 / 2**20, seconds, notes)

    def run(self, task: Task, curator: Curator) -> Outcome:
        notes = self.notes(task)
        total = counting.believed(counting.rows(curator))
        division = self.divide(task, curator.budget, total)
        first = self.start(task, total)
        iterates = (
            done.after
            for done in adaptive_measurements(
                curator,
                task.workload,
                family=self.family(first),
                selector=(WorstCell if self.measure == "cells" else WorstMarginal)(self.select),
                schedule=Even(division[SELECTION].cost, division[MEASUREMENT].cost),
                model=first,
            )
        )
        # One model at a time: a thousand of them on a large domain do not fit.
        model = average(iterates) if self.output == "average" else deque(iterates, maxlen=1).pop()
        return Outcome(model, division[SELECTION].times, notes=tuple(notes))

    def _default_rounds(self, task: Task, budget: Cost, total: float) -> int:
        """From the budget, the (noisy) number of rows and the schema alone.

        Counting queries: `pace` times `balanced_rounds`. Whole marginals: as many rounds as leave
        each measurement's noise below a fiftieth of its table; a marginal of n cells has expected
        noise sqrt(2/π) σ n in L1.
        """
        if self.measure == "cells":
            wanted = round(self.pace * balanced_rounds(budget, total, task.unit))
            return max(5, min(wanted, MOST_ROUNDS))
        sizes = sorted(map(task.domain.cells, task.workload.marginals()))
        sigma = total / 50 / (HALF_NORMAL * sizes[len(sizes) // 2])
        rounds = int(2 * precision(budget * (1 - SELECT_SHARE)) * sigma**2)
        most = 2 * len(sizes)
        return max(min(5, most), min(rounds, most))


class OnCells(Reweighting):
    """What `mwem` and `pep` have in common: weights on all cells of a small domain."""

    def check(self, task: Task) -> None:
        check_size(task.domain, self.name)
        room.check_counted(task.domain, task.workload.marginals(), self.name)

    def needs(self, task: Task) -> float:
        """Some numbers for every cell of the domain, and an answer for every query."""
        whole = 5 * room.COUNTS * task.domain.cells() / MEGABYTE
        asked = [q.columns for q in task.workload.queries]
        return whole + room.megabytes(task.domain, asked, each=room.COUNTS)

    def start(self, task: Task, total: float) -> ExplicitModel:
        return ExplicitModel.uniform(task.domain, total, task.zeros)

    def records(self, task: Task) -> int:
        return task.domain.cells()


@dataclass(frozen=True)
class OnPublicRecords(Reweighting):
    """What `pmw-pub` and `pep-pub` have in common: weights on the records of a public table."""

    rounds: int | None = None
    measure: Measure = "cells"
    select: Law = "exponential"
    initial: Literal["frequencies", "uniform"] = "frequencies"
    public: PublicTable | None = field(default=None, repr=False, metadata=NOT_AN_OPTION)

    @property
    def table(self) -> PublicTable:
        return needed(self.public, self.name)

    def with_public(self, public: PublicTable) -> Self:
        return replace(self, public=public)

    def check(self, task: Task) -> None:
        self.table.check(task.domain, task.zeros)
        room.check_counted(task.domain, task.workload.marginals(), self.name)

    def needs(self, task: Task) -> float:
        """An answer for every query, and the table of the one that is looked at."""
        asked = [q.columns for q in task.workload.queries]
        return room.megabytes(task.domain, asked, each=room.COUNTS, largest=3 * room.COUNTS)

    def start(self, task: Task, total: float) -> SupportModel:
        return self.table.start(total, task.zeros, self.initial)

    def records(self, task: Task) -> int:
        return self.table.records

    def notes(self, task: Task) -> Sequence[str]:
        return self.table.check(task.domain, task.zeros)


def needed(public: PublicTable | None, name: str) -> PublicTable:
    """The public table, or the error that it is missing."""
    if public is None:
        raise UsageError(
            f"{name} needs a public table. Give --public DATA (in Python: public=…), or use aim or "
            "mwem, which need none."
        )
    return public


def utility_bound(
    *,
    mixture_error: float,
    support: int,
    queries: int,
    rows: float,
    rounds: int,
    epsilon: float,
    sigma: float,
    sensitivity: float = 1.0,
    beta: float = 0.05,
) -> float:
    """Proposition A.1 of Liu et al. (2021): a bound on the largest error, in shares, of PMW-Pub.

    With probability 1 - beta, over the run's noise,

        max_q |q(D) - q(A)|
            <= 2 α + sqrt(4 log m / T + 2 σ²/n² + 2 sqrt(2 log(3/β)) α σ / (n sqrt T))
                   + 2 Δ log|Q| / (ε n) + sqrt(log(3/β) / (2 T)),

    letters: α `mixture_error` (best-mixture error), m `support` (records for a uniform start, rows
    of the public table for its frequencies), |Q| `queries`, n `rows`, T `rounds`, ε `epsilon` and
    Δ `sensitivity` of each selection, σ `sigma` of each measurement in rows, β `beta`.

    It is the last display of the proof, with ε and σ of a round left apart: the paper has both
    from one ε₀ (ε = ε₀, σ = 1/ε₀, Δ = 1). It speaks of the average of the iterates, of single
    counting queries and of updates with the newest measurement alone, and needs T >= 7 log(3/β).
    """
    if not 0 < beta < 1 or rounds < 1 or rows <= 0 or support < 1 or queries < 1:
        raise UsageError("utility_bound: beta lies between 0 and 1, the counts are at least 1.")
    if rounds < 7 * math.log(3 / beta):
        return 1.0
    n, T, log3 = rows, rounds, math.log(3 / beta)
    inside = (
        4 * math.log(support) / T
        + 2 * (sigma / n) ** 2
        + 2 * math.sqrt(2 * log3) * mixture_error * sigma / (n * math.sqrt(T))
    )
    bound = (
        2 * mixture_error
        + math.sqrt(inside)
        + 2 * sensitivity * math.log(queries) / (epsilon * n)
        + math.sqrt(log3 / (2 * T))
    )
    return min(1.0, bound)


def bound_note(
    public: PublicTable, task: Task, division: Division, rows: int | None, initial: str
) -> str:
    """The utility bound in words, for a plan."""
    select, measure = division[SELECTION], division[MEASUREMENT]
    if rows is None or measure.sigma is None:
        return "The utility bound (Proposition A.1) needs the number of rows; give --rows."
    bound = utility_bound(
        mixture_error=0.0,
        support=public.rows if initial == "frequencies" else public.records,
        queries=sum(math.prod(q.shape(task.domain)) for q in task.workload.queries),
        rows=rows,
        rounds=select.times,
        epsilon=select.cost.epsilon_of_choice(),
        sigma=measure.sigma,
        sensitivity=task.unit.max_rows,
    )
    said = "says nothing at this budget (1 or more)" if bound >= 1 else f"{bound:.3f}"
    return (
        "Utility bound on the largest error (Proposition A.1, average of the iterates, no reuse, "
        f"confidence 95%): {said}, plus twice the best-mixture error of the public table, which "
        "`admeasure screen` measures."
    )
