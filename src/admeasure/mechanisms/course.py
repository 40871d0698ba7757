"""The course of a run that trains a network: its options, and what they become in numbers.

Everything here follows from public facts: the budget, the noisy number of rows, the workload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from admeasure.domain import Domain
from admeasure.loop import Schedule
from admeasure.queries import Marginal
from admeasure.schedules.annealed import Annealed
from admeasure.schedules.even import Even
from admeasure.selectors.top import distinct
from admeasure.workload import Workload

FIRST_SHARE = Fraction(1, 10)

Measure = Literal["marginals", "cells"]


class Options(Protocol):
    """The options of a mechanism that trains a network; `gem` says what each is."""

    @property
    def measure(self) -> Measure: ...
    @property
    def schedule(self) -> Literal["annealed", "even"]: ...
    @property
    def rounds(self) -> int | None: ...
    @property
    def alpha(self) -> float | None: ...
    @property
    def candidates(self) -> Literal["closure", "workload"]: ...
    @property
    def select(self) -> Literal["largest", "distance"]: ...
    @property
    def hidden(self) -> str | None: ...
    @property
    def noise(self) -> int: ...
    @property
    def product_rows(self) -> int | None: ...
    @property
    def learning_rate(self) -> float | None: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def resample(self) -> Literal["no", "yes"]: ...


@dataclass(frozen=True)
class Course:
    """A run's settings, all from public facts: budget, noisy number of rows, workload.

    `rounds`: T of the even schedule. `each`: what the first rounds of the annealed one cost.
    `select`: the part of each round that goes to selection. `first`: the one-way marginals that
    are measured before anything is chosen, `rho_first` for all of them together.
    """

    select: Fraction
    annealed: bool
    rounds: int
    each: Fraction
    first: tuple[Marginal, ...]
    rho_first: Fraction

    @classmethod
    def of(
        cls,
        options: Options,
        domain: Domain,
        workload: Workload,
        rho: Fraction,
        total: float,
        *,
        informed: bool,
    ) -> Course:
        """`informed`: the network knows something already, so nothing is measured unchosen."""
        cells = options.measure == "cells"
        select = share_of(options.alpha or (0.67 if cells else 0.37))
        annealed = options.schedule == "annealed"
        columns = len({c for r in workload.marginals() for c in r})
        rounds = options.rounds
        if rounds is None and annealed:
            rounds = 8 * columns
        rounds = rounds or default_rounds(options, domain, workload, rho, select, total)
        wide = not cells and options.candidates == "closure" and not informed
        first = tuple(Marginal(r) for r in workload.closure() if len(r) == 1) if wide else ()
        rho_first = rho * FIRST_SHARE if first else Fraction(0)
        return cls(select, annealed, rounds, (rho - rho_first) / rounds, first, rho_first)

    def schedule(self, rho: Fraction) -> Schedule:
        """The schedule of what is left after the first measurements."""
        if self.annealed:
            return Annealed(self.each, 1 - self.select)
        return Even(rho, self.rounds, self.select)


def share_of(alpha: float) -> Fraction:
    """The part of a round's ρ that selection gets: (αε₀)²/2 of ((αε₀)² + ((1-α)ε₀)²)/2."""
    a = Fraction(alpha).limit_denominator(1000)
    return a**2 / (a**2 + (1 - a) ** 2)


def default_rounds(
    options: Options,
    domain: Domain,
    workload: Workload,
    rho: Fraction,
    select: Fraction,
    total: float,
) -> int:
    """T of the even schedule.

    Whole marginals: sqrt(n sqrt(ρ)) / 2, between 4 and twice the number of marginals. Noise of a
    cell is about sqrt(T / ρ) rows, and what T rounds leave unlearned falls about as 1 / T; where
    the two balance, T grows with a power of n sqrt(ρ), and this one was found on adult_pmwpub, a
    public table (docs/gem.md). Single queries: as many as leave the noise of a count below a
    fiftieth of the table, at most the 100 of the paper's speed setting.
    """
    if options.measure == "cells":
        offered = sum(domain.cells(q.columns) for q in distinct(workload))
        most, rounds = min(100, offered), 2 * float(rho * (1 - select)) * (total / 50) ** 2
    else:
        most, rounds = 2 * len(workload.closure()), math.sqrt(total * math.sqrt(rho)) / 2
    return max(min(4, most), min(round(rounds), most))
