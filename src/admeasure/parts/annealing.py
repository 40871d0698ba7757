"""What `aim` and `aim-plus` have in common: what they refuse, and how their rounds divide a budget.

One-way marginals, each for the measured part of ρ/T; then rounds, the first of which cost ρ/T and
later ones more (`schedules/annealed.py`); then, where a part is kept, a last pass. All of it
follows from public facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.planning import forecast, room
from admeasure.planning.division import ONE_WAY, ROUNDS, Division, Item, Task
from admeasure.planning.mechanism import Plan
from admeasure.privacy.cost import Cost
from admeasure.schedules.annealed import Annealed

LEAST_KEPT = 1e-6
"""A smaller part of the budget, divided once more, could buy noise beyond what is drawn."""


@dataclass(frozen=True)
class Annealing:
    """The options that both have, of the mechanism `who`; `again` is what the last pass is called.

    `growth`, `threshold`: a round costs so many times the last one if that moved the model by no
    more than so many times the expected L1 norm of noise. T is `rounds`, or else `per_column` for
    each column. `batch`: how many marginals a round chooses and measures; `dearer`: what each of
    them costs at first, in units of ρ/T. `room`: the part of the size limit that rounds may fill.
    `may_end`: the part of the budget that they have spent before they may end. `look`: what is
    measured besides, after the columns. The paper's are the defaults.
    """

    who: str
    again: str
    family: GraphicalFamily
    rounds: int | None
    alpha: float
    final_pass: float
    growth: int = 4
    threshold: float = 1.0
    per_column: int = 16
    batch: int = 1
    dearer: Fraction = Fraction(1)
    room: float = 1.0
    may_end: Fraction = Fraction(1)
    rates: forecast.Rates = forecast.ONE_A_ROUND
    look: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        most = self.family.max_megabytes
        kept = not self.final_pass or LEAST_KEPT <= self.final_pass < 1
        rules = {
            "alpha must lie between 0 and 1": (self.alpha, 0 < self.alpha < 1),
            f"final-pass must be 0, or from {LEAST_KEPT:g} to below 1": (self.final_pass, kept),
            "max-megabytes must be positive": (most, most > 0),
            "batch must be at least 1": (self.batch, self.batch >= 1),
            "growth must be at least 2": (self.growth, self.growth >= 2),
            "threshold must not be negative": (self.threshold, self.threshold >= 0),
        }
        for rule, (value, followed) in rules.items():
            if not followed:
                raise UsageError(f"{self.who}: {rule}; it is {value}.")

    def check(self, task: Task) -> None:
        named = len(task.workload.columns)
        if self.rounds is not None and self.rounds < named:
            raise UsageError(
                f"{self.who}: rounds must be at least the workload's {named} columns, each of "
                f"which is measured once; it is {self.rounds}."
            )
        self.family.init(task.domain, task.zeros)

    def needs(self, task: Task) -> float:
        """The one-way marginals; what is measured later is chosen among what fits."""
        return room.of_columns(task.domain)

    def divide(self, task: Task, budget: Cost) -> Division:
        singles = sum(len(r) == 1 for r in task.workload.closure())
        keep = budget * Fraction(self.final_pass)
        measured = self.first(task.domain, budget) * Fraction(self.alpha)
        sigma = measured.sigma(task.unit.marginal_l2_squared)
        rounds = budget - keep - measured * singles
        for item in self.look:
            rounds -= item.total
        return Division(
            (
                Item(ONE_WAY, measured, sigma, singles),
                *self.look,
                Item(ROUNDS, rounds),
                *([Item(self.again, keep)] if keep else []),
            )
        )

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        domain, unit, division = task.domain, task.unit, self.divide(task, budget)
        left, each = division.total(ROUNDS), self.first(domain, budget) * (self.batch * self.dearer)
        last = left * Fraction(self.alpha) / self.growth / self.batch
        ends = budget * self.may_end
        fewest = forecast.fewest_rounds(ends if ends <= left else left, each, self.growth)
        sigma, batch = last.sigma(unit.marginal_l2_squared), self.batch
        return forecast.graphical(
            division.items,
            task,
            rows,
            sigma_last=sigma,
            rounds=f"{fewest} to {int(left.ratio(each)) + 1}",
            max_megabytes=self.family.max_megabytes * self.room,
            rates=self.rates,
            seconds=None if batch == 1 else forecast.seconds_of_batches(task, rows, sigma, batch),
        )

    def schedule(self, domain: Domain, budget: Cost) -> Annealed:
        """Rounds until nothing is left but what the last pass is to have."""
        keep = budget * Fraction(self.final_pass)
        return Annealed(
            self.first(domain, budget) * (self.batch * self.dearer),
            Fraction(self.alpha),
            keep,
            self.growth,
            self.threshold,
        )

    def first(self, domain: Domain, budget: Cost) -> Cost:
        """ρ/T of what is not kept: what a one-way marginal and the first rounds cost, σ_0 and ε_0
        of lines 4 and 9 of the paper's Algorithm 4 in one number."""
        return (
            budget
            * (1 - Fraction(self.final_pass))
            / (self.rounds or self.per_column * len(domain))
        )
