"""The course of a run that trains a network: its options, and what they become in numbers.

Everything here follows from public facts: the budget, the noisy number of rows, the workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from admeasure.loop import Schedule
from admeasure.planning.division import (
    MEASUREMENT,
    ONE_WAY,
    ROUNDS,
    SELECTION,
    Division,
    Item,
    Task,
    even_rounds,
    evenly,
    precision,
)
from admeasure.privacy.cost import Cost
from admeasure.queries import Marginal, Predicate
from admeasure.schedules.annealed import Annealed
from admeasure.schedules.even import Even

PREDICATES = "predicates, each"
FIRST_SHARE = Fraction(1, 10)

Measure = Literal["marginals", "cells"]


@dataclass(frozen=True)
class Options:
    """The options of a mechanism that trains a network.

    `measure`: whole marginals (squared errors in units of their noise), or single queries (absolute
    errors above γ, average of the weights of the second half of the rounds), as in the paper.
    `schedule`: `even`, or `annealed` as in AIM, which begins with small rounds.
    `rounds`: T of the even schedule; of the annealed one the most that there can be.
    `alpha`: the paper's privacy weight of selection against measurement; 0.37 for marginals (a
    quarter of the budget), 0.67 for single queries.
    `candidates`: marginals of the workload and of subsets of their columns, or the workload alone.
    `select`: the marginal that holds the worst answered cell (A.1), or, as in AIM, the one at the
    largest L1 distance less noise, which gives bounds for what was not measured.
    `hidden`, `noise`, `product_rows`: layers of the network, size of its noise, batch B.
    `learning_rate`, `steps`: Adam's, and T_max of each round.
    `resample`: new noise in every step instead of one batch for the run (B.2).
    """

    measure: Measure = "marginals"
    schedule: Literal["annealed", "even"] = "even"
    rounds: int | None = None
    alpha: float | None = None
    candidates: Literal["closure", "workload"] = "closure"
    select: Literal["largest", "distance"] = "largest"
    hidden: str | None = None
    noise: int = 64
    product_rows: int | None = None
    learning_rate: float | None = None
    steps: int | None = None
    resample: Literal["no", "yes"] = "no"


@dataclass(frozen=True)
class Course:
    """A run's settings, all from public facts: budget, noisy number of rows, workload.

    `rounds`: T of the even schedule. `each`: what the first rounds of the annealed one cost.
    `select`: the part of each round that goes to selection. `first`: the one-way marginals that
    are measured before anything is chosen, `cost_first` for all of them together.
    """

    select: Fraction
    annealed: bool
    rounds: int
    each: Cost
    first: tuple[Marginal, ...]
    cost_first: Cost

    @classmethod
    def of(
        cls, options: Options, task: Task, budget: Cost, total: float, *, informed: bool
    ) -> Course:
        """`informed`: the network knows something already, so nothing is measured unchosen."""
        cells = options.measure == "cells"
        select = share_of(options.alpha or (0.67 if cells else 0.37))
        annealed = options.schedule == "annealed"
        rounds = options.rounds
        if rounds is None and annealed:
            rounds = 8 * len(task.workload.columns)
        rounds = rounds or default_rounds(options, task, budget, select, total)
        wide = not cells and options.candidates == "closure" and not informed
        first = tuple(Marginal(r) for r in task.workload.closure() if len(r) == 1) if wide else ()
        cost_first = budget * FIRST_SHARE if first else budget * 0
        return cls(select, annealed, rounds, (budget - cost_first) / rounds, first, cost_first)

    def divide(
        self, task: Task, budget: Cost, one: int, predicates: Sequence[Predicate]
    ) -> tuple[Item, ...]:
        """How `budget` is spent; `one` is the squared L2 sensitivity of what a round measures.

        A predicate is measured once, at the cost of a round, or all together for a quarter of the
        budget where they are many.
        """
        items, left = [], budget - self.cost_first
        if self.first:
            items.append(evenly(ONE_WAY, task.unit, self.cost_first, len(self.first)))
        if predicates:
            count = len(predicates)
            part = left * min(Fraction(count, self.rounds + count), Fraction(1, 4)) / count
            most = max(p.sensitivity(task.domain, task.unit).l2_squared for p in predicates)
            items.append(Item(PREDICATES, part, part.sigma(most), count))
            left -= part * count
        if self.annealed:
            return (*items, Item(ROUNDS, left))
        return (*items, *even_rounds(left, self.rounds, self.select, one))

    def schedule(self, division: Division) -> Schedule:
        """The schedule of the rounds."""
        if self.annealed:
            return Annealed(self.each, 1 - self.select)
        return Even(division[SELECTION].cost, division[MEASUREMENT].cost)


def share_of(alpha: float) -> Fraction:
    """The part of a round's ρ that selection gets: (αε₀)²/2 of ((αε₀)² + ((1-α)ε₀)²)/2."""
    a = Fraction(alpha).limit_denominator(1000)
    return a**2 / (a**2 + (1 - a) ** 2)


def default_rounds(
    options: Options, task: Task, budget: Cost, select: Fraction, total: float
) -> int:
    """T of the even schedule.

    Whole marginals: sqrt(n sqrt(ρ)) / 2, between 4 and twice the number of marginals. Noise of a
    cell is about sqrt(T / ρ) rows, and what T rounds leave unlearned falls about as 1 / T; where
    the two balance, T grows with a power of n sqrt(ρ), and this one was found on adult_pmwpub, a
    public table (docs/measurements/gem.md). Single queries: as many as leave the noise of a count
    below a fiftieth of the table, at most the 100 of the paper's speed setting.
    """
    if options.measure == "cells":
        offered = sum(task.domain.cells(q.columns) for q in task.workload.targets)
        most, rounds = min(100, offered), 2 * precision(budget * (1 - select)) * (total / 50) ** 2
    else:
        most = 2 * len(task.workload.closure())
        rounds = math.sqrt(total * math.sqrt(precision(budget))) / 2
    return max(min(4, most), min(round(rounds), most))
