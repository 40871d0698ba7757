"""aim-plus: AIM (McKenna, Mullins, Sheldon and Miklau 2022) with less noise in what it measures.

The same loop as `aim`, Algorithm 4 of the paper, with five changes, each an option that can be left
out (docs/explanations/aim.md has what they do to the error):

- a part of the budget is kept for a last pass over all that the model holds, with shares that make
  the workload's error from noise least (`final_pass.py`);
- scores weigh marginals of all sizes alike and allow for less noise, since the last pass takes some
  of it away;
- a round that taught little makes the next one twice as expensive, not four times, and fewer do;
  after three of them in a row all that is left goes to the last pass;
- where marginals have few cells a round spends more on its choice (`measured_part`);
- measured effects are shrunk towards what smaller marginals predict, in every fit
  (`families/graphical/estimation/shrinkage.py`).

Of more than 48 columns a round chooses several marginals by one set of scores, a batch, and fits
once. What is on offer for the next of them is a function of the choices before it and of public
sizes (`Curator.in_turn`). Such rounds end as soon as the last pass would gain more by what they
cost (`worthwhile.py`).

Released: noisy marginals and private choices, as of `aim`, each charged to the ledger in rho: the k
choices of a batch rho/k each of what the round has for choosing, its measurements alike. The score
moves by the rows that a person changes (both relations) times the largest weight, for each choice.
Shares, penalties and shrinkage are functions of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, median
from typing import ClassVar

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL
from admeasure.families.graphical.family import GraphicalFamily, Shrink
from admeasure.families.graphical.structure.junction_tree import BYTES_PER_CELL, MEGABYTE
from admeasure.loop import adaptive_measurements
from admeasure.parts import final_pass
from admeasure.parts.annealing import Annealing
from admeasure.parts.worthwhile import Stretches
from admeasure.planning import forecast
from admeasure.planning.division import ONE_WAY, ROUNDS, Division
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal
from admeasure.schema import Zero
from admeasure.selectors.improvement import ExpectedImprovement, Penalty, even_weights
from admeasure.unit import Unit
from admeasure.workload import Workload

AGAIN = "all that the model holds once more, together, with what the rounds leave"
PER_COLUMN = 8
ONE_BY_ONE, COLUMNS_A_CHOICE = 48, 12
"""Up to so many columns a round chooses one marginal; of more, one for each so many columns."""
DEARER = 4
"""How many times what a round of one costs each choice of a batch costs at first, with what it
measures: of many columns that leaves about two choices a column."""
TREES_OF_PAIRS = 64
HOPELESS = 0.5
"""The part of the table that a marginal's penalty may be at most for it to be scored."""
MOST_MEASURED = 0.9
GUMBEL = math.pi / math.sqrt(6)
"""The standard deviation of standard Gumbel noise, which the exponential mechanism adds."""


def measured_part(domain: Domain, workload: Workload) -> float:
    """The part α of a round's ρ that its measurement gets, as far as it is not given; the choice
    gets the rest. It follows from the sizes of the workload's marginals, which are public.

    For a person of one row, scores are judged with Gumbel noise of scale 2/ε = 1/sqrt(2ρ(1 - α)),
    and n cells measured with noise of expected L1 norm sqrt(2/π) n / sqrt(2ρα). The sum of that
    norm and the other noise's standard deviation is least where

        (1 - α)/α = (π/sqrt(6) / (sqrt(2/π) n))^(2/3).

    n is the median. Beyond 43 cells that would be more than the paper's 0.9, which stays. Single
    columns are not counted: all of them are measured first, and there is little left to choose.
    """
    cells = [domain.cells(r) for r in workload.marginals() if len(r) > 1]
    if not cells:
        return MOST_MEASURED
    return min(MOST_MEASURED, 1 / (1 + (GUMBEL / (HALF_NORMAL * median(cells))) ** (2 / 3)))


def batch_of(domain: Domain) -> int:
    """How many marginals a round chooses: a public rule."""
    return 1 if len(domain) <= ONE_BY_ONE else len(domain) // COLUMNS_A_CHOICE


def room_of(domain: Domain, batch: int, max_megabytes: float) -> float:
    """The part of the size limit that rounds of so large a batch may fill: a batch-th of it, and no
    more than so many times what a tree of pairs takes. Every fit goes through the whole tree, and
    choices that do not see each other's measurements fill it sooner than they are worth."""
    if batch == 1:
        return 1.0
    levels = domain.levels
    pairs = len(levels) * fmean(levels) ** 2 * BYTES_PER_CELL / MEGABYTE
    return min(1 / batch, TREES_OF_PAIRS * pairs / max_megabytes)


@dataclass(frozen=True)
class AimPlus:
    """AIM with a last pass, lower penalties, gentler annealing and shrinkage.

    `max_megabytes`, `rounds`: as of `aim`, but for 8 rounds a column by default.
    `alpha`: the part of a round's budget that goes to measurement; by default 0.9, or less where
    marginals have few cells (`measured_part`).
    `final_pass`: the part of the budget kept for the last pass; 0 leaves it out.
    `penalty`: what a score takes off for noise, in units of the noise's expected L1 norm.
    `growth`, `threshold`: a round costs so many times the last one if that moved the model by no
    more than so many times the expected L1 norm of noise.
    `patience`: after so many such rounds in a row the last pass gets what is left.
    `shrink`: in no fit, in that of the release at the end, or in those of the rounds as well.
    `batch`: how many marginals a round chooses, each at four times the cost of a round of one; the
    tree has less room (`room_of`). By default one up to 48 columns, then one for each 12.
    With alpha 0.9 and 0, 1, 4, 1, any, "no" and 1 it is `aim` but for weights, `HOPELESS` and
    `PER_COLUMN`.
    """

    max_megabytes: float = 80.0
    rounds: int | None = None
    alpha: float | None = None
    final_pass: float = 0.3
    penalty: float = 0.5
    growth: int = 2
    threshold: float = 0.6
    patience: int = 3
    shrink: Shrink = "rounds"
    batch: int | None = None

    name: ClassVar[str] = "aim-plus"
    summary: ClassVar[str] = "aim with shrunk fits and a last pass over all that its model holds"

    def __post_init__(self) -> None:
        _ = self._annealing(MOST_MEASURED, 1)  # refuses options out of range
        if not 0 <= self.penalty < float("inf"):
            raise UsageError(f"aim-plus: penalty must not be negative; it is {self.penalty}.")

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        self._annealing(MOST_MEASURED, batch_of(domain)).check(domain, workload, zeros)

    def needs(self, domain: Domain, workload: Workload) -> float:
        return self._annealing(MOST_MEASURED, batch_of(domain)).needs(domain)

    def divide(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: float
    ) -> Division:
        annealing = self._annealing(measured_part(domain, workload), batch_of(domain))
        return annealing.divide(domain, workload, unit, budget)

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: int | None
    ) -> Plan:
        annealing = self._annealing(measured_part(domain, workload), batch_of(domain))
        return annealing.plan(domain, workload, unit, budget, rows)

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        domain, budget = curator.domain, curator.budget
        annealing = self._annealing(measured_part(domain, workload), batch_of(domain))
        division = annealing.divide(domain, workload, curator.unit, budget)
        schedule = annealing.schedule(domain, budget)
        weights = even_weights(workload)
        one_way = [Marginal(r) for r in weights if len(r) == 1]

        curator.expect(list(weights))  # what the rounds may look at, in one pass over the table
        family = annealing.family
        log = list(curator.measure(one_way, division.total(ONE_WAY)))
        model = family.update(family.init(domain, zeros), log)
        # What is kept will be divided among about three sets a column.
        ahead = division.total(AGAIN) / (3 * len(domain))
        penalty = Penalty(self.penalty, ahead=ahead, hopeless=HOPELESS)
        batch, room = annealing.batch, room_of(domain, annealing.batch, self.max_megabytes)
        selector = ExpectedImprovement(family, weights, penalty, self.final_pass, batch, room)
        rounds = adaptive_measurements(curator, workload, family, selector, schedule, model, log)
        stretches = Stretches(curator, workload, model, log)
        for done in rounds:
            log += done.answers
            model = done.after
            if self.final_pass and batch > 1 and stretches.ended(model, log):
                break

        last = final_pass.again(curator, workload, model, log)
        model = family.polished(model, [*log, *last])
        most = division.total(ROUNDS) * (1 - Fraction(annealing.alpha))
        selections = selector.evidence(log, model, most)
        notes = forecast.unmeasured(domain, workload)
        return Outcome(model, len(log) - len(one_way), selections, notes)

    def _annealing(self, alpha: float, batch: int) -> Annealing:
        """The schedule with the `alpha` and the `batch` that were given, or else these."""
        batch = batch if self.batch is None else self.batch
        return Annealing(
            self.name,
            AGAIN,
            GraphicalFamily(self.max_megabytes, self.shrink),
            self.rounds,
            alpha if self.alpha is None else self.alpha,
            self.final_pass,
            self.growth,
            self.threshold,
            self.patience,
            PER_COLUMN,
            batch,
            DEARER if batch > 1 else 1,
            forecast.PLUS,
        )
