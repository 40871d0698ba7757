"""aim-plus: AIM (McKenna, Mullins, Sheldon and Miklau 2022) with less noise in what it measures.

The same loop as `aim`, Algorithm 4 of the paper, with five changes, each an option that can be left
out (docs/explanations/aim.md has what they do to the error):

- a part of the budget is kept for a last pass over all that the model holds, with shares that make
  the workload's error from noise least (`final_pass.py`);
- scores weigh marginals of all sizes alike and allow for less noise, since the last pass takes some
  of it away;
- a round that taught little makes the next one twice as expensive, not four times, and fewer do;
  when the rounds are not worth what they take from the last pass, it gets all that is left
  (`worthwhile.py`);
- where marginals have few cells a round spends more on its choice (`measured_part`);
- measured effects are shrunk towards what smaller marginals predict, in every fit
  (`families/graphical/estimation/shrinkage.py`).

Of more than 48 columns a round chooses several marginals by one set of scores, a batch, and fits
once. What is on offer for the next of them is a function of the choices before it and of public
sizes (`Curator.in_turn`). If the pairs of a table of more than 24 columns are dependent beyond what
a tree can hold, all of them are measured with what is left and a mixture of products takes the
tree's place (`hand_over.py`).

Released: noisy marginals and private choices, as of `aim`, each charged to the ledger in rho: the k
choices of a batch rho/k each of what the round has for choosing, its measurements alike; so are the
pairs of a look and of a hand-over. The score moves by the rows that a person changes (both
relations) times the largest weight, for each choice. Shares, penalties, shrinkage, what a choice
costs, how large a tree may grow and when to hand over are functions of what was released: rows are
counted by the noisy one-way marginals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import fmean, median
from typing import ClassVar, Literal, get_args

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL
from admeasure.families.graphical.family import GraphicalFamily, Shrink
from admeasure.families.graphical.structure.junction_tree import BYTES_PER_CELL
from admeasure.families.products.pairs import handed_over
from admeasure.limits import MEGABYTE
from admeasure.loop import adaptive_measurements
from admeasure.parts import final_pass, hand_over
from admeasure.parts.annealing import Annealing
from admeasure.parts.worthwhile import STRETCH, Stretches
from admeasure.planning import forecast
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, ROUNDS, Division, Item, Task, assumed
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal
from admeasure.selectors.improvement import ExpectedImprovement, Penalty, even_weights
from admeasure.workload import Workload

AGAIN = "all that the model holds once more, together, with what the rounds leave"
LOOK = "a look at pairs, for dependence that a tree cannot hold, each"
HandsOver = Literal["wide", "always", "never"]
"""On which tables pairs may go to a mixture: those of more than FEW_COLUMNS columns, all, none."""
FEW_COLUMNS = 24
PER_COLUMN = 8
ONE_BY_ONE, COLUMNS_A_CHOICE = 48, 12
"""Up to so many columns a round chooses one marginal; of more, one for each so many columns."""
DEAREST, FAINT = 4, 0.1
"""How many times what a round of one costs each choice of a batch costs at first, with what it
measures, at the most: that leaves about two choices a column. It is as many times as make the noise
in a pair this part of the table (`dearer_of`)."""
FEW_TREES, MANY_TREES = 64, 512
"""How many times what a tree of pairs takes is the room of few rows, and the most of a batch."""
CELLS_A_ROW, LITTLE_NOISE = 150, 2.0
"""How many cells a tree may have for each row; so many times as many as noise is less than that, if
one marginal had the whole budget."""
HOPELESS = 0.5
"""The part of the table that the penalty of three columns and more may be for it to be scored."""
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


def room_of(domain: Domain, batch: int, max_megabytes: float, rows: float, sigma: float) -> float:
    """The part of the size limit that rounds of so large a batch may fill. Every fit and every
    answer goes through the whole tree.

    Of one marginal a round: so many cells for each of the (noisy) `rows`, more where the whole
    budget in one marginal would leave little noise, `sigma`. A larger tree says no more of them.
    Of a batch: a batch-th of the limit, and no more than so many times what a tree of pairs takes,
    since choices that do not see each other's measurements fill it sooner than they are worth.
    """
    levels = domain.levels
    cell = BYTES_PER_CELL / MEGABYTE / max_megabytes
    pairs = len(levels) * fmean(levels) ** 2
    if batch > 1:
        return min(1 / batch, MANY_TREES * pairs * cell)
    cells = CELLS_A_ROW * rows * max(1.0, LITTLE_NOISE / sigma)
    return min(1.0, max(FEW_TREES * pairs, cells) * cell)


def dearer_of(domain: Domain, rows: float, sigma: float) -> Fraction:
    """How many times ρ/T each choice of a batch costs at first, in eighths, where ρ/T would leave
    noise of scale `sigma`. Choices of a batch do not see what the others find, so they are few and
    dear where noise is loud beside the (noisy) number of rows; where it is not, many cheap ones
    find more."""
    noise = HALF_NORMAL * sigma * fmean(domain.levels) ** 2 / rows
    return Fraction(math.ceil(8 * min(DEAREST, max(1.0, (noise / FAINT) ** 2))), 8)


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
    `shrink`: in no fit, in that of the release at the end, or in those of the rounds as well.
    `batch`: how many marginals a round chooses, each at up to four times the cost of a round of one
    (`dearer_of`); the tree has less room (`room_of`). By default one up to 48 columns, then one for
    each 12.
    `hand_over`: which tables may be handed over to a mixture of products, where their pairs are
    dependent beyond what a tree can hold: those of more than 24 columns ("wide"), any ("always") or
    none ("never"). Never one with structural zeros, which a mixture does not keep.
    With alpha 0.9 and 0, 1, 4, 1, "no", 1 and "never" it is `aim` but for weights, `HOPELESS`
    and `PER_COLUMN`.
    """

    max_megabytes: float = 80.0
    rounds: int | None = None
    alpha: float | None = None
    final_pass: float = 0.3
    penalty: float = 0.5
    growth: int = 2
    threshold: float = 0.6
    shrink: Shrink = "rounds"
    batch: int | None = None
    hand_over: HandsOver = "wide"

    name: ClassVar[str] = "aim-plus"
    summary: ClassVar[str] = "aim with shrunk fits and a last pass over all that its model holds"

    def __post_init__(self) -> None:
        _ = self._annealing(MOST_MEASURED, 1)  # refuses options out of range
        if not 0 <= self.penalty < float("inf"):
            raise UsageError(f"aim-plus: penalty must not be negative; it is {self.penalty}.")
        if self.hand_over not in get_args(HandsOver):
            known = ", ".join(get_args(HandsOver))
            raise UsageError(f"aim-plus: hand-over is one of {known}; it is {self.hand_over!r}.")

    def check(self, task: Task) -> None:
        self._annealing(MOST_MEASURED, batch_of(task.domain)).check(task)

    def needs(self, task: Task) -> float:
        return self._annealing(MOST_MEASURED, batch_of(task.domain)).needs(task)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return self._planned(task, budget, rows).divide(task, budget)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        look = self._look(task, budget, rows or ASSUMED_ROWS)
        plan = self._planned(task, budget, rows or ASSUMED_ROWS).plan(task, budget, rows)
        if self._look(task, budget, math.inf):  # so it depends on the number of rows
            plan = replace(plan, notes=(*plan.notes, *assumed(rows)))
        if not look:
            return plan
        seconds, megabytes = hand_over.takes(task.domain, task.workload)
        megabytes += forecast.process_megabytes(task.domain, rows)
        return replace(
            plan,
            megabytes=max(plan.megabytes, megabytes),
            notes=(*plan.notes, hand_over.MAY.format(seconds=seconds)),
        )

    def run(self, task: Task, curator: Curator) -> Outcome:
        domain, workload, budget = task.domain, task.workload, curator.budget
        annealing = self._planned(task, budget, None)
        weights = even_weights(workload)
        one_way = [Marginal(r) for r in weights if len(r) == 1]

        curator.expect(list(weights))  # what the rounds may look at, in one pass over the table
        family = annealing.family
        singles = annealing.divide(task, budget).total(ONE_WAY)
        log = list(curator.measure(one_way, singles))
        model = family.update(family.init(domain, task.zeros), log)
        look = self._look(task, budget, model.total)
        annealing = self._planned(task, budget, model.total)
        division = annealing.divide(task, budget)
        watch = hand_over.watch(look, curator, workload, model, division.total(LOOK))
        schedule = annealing.schedule(domain, budget)
        # What is kept will be divided among about three sets a column.
        keep = division.total(AGAIN)
        penalty = Penalty(self.penalty, ahead=keep / (3 * len(domain)), hopeless=HOPELESS)
        batch, room = annealing.batch, annealing.room
        selector = ExpectedImprovement(family, weights, penalty, self.final_pass, batch, room)
        rounds = adaptive_measurements(curator, workload, family, selector, schedule, model, log)
        together = batch == 1
        stretches = Stretches(curator, workload, model, log, together=together) if keep else None
        made = 0
        for done in rounds:
            made += 1
            log += done.answers
            model = done.after
            if stretches and stretches.ended(done, log):
                break
            spanned = len(log) >= 2 * len(one_way) - 1
            if watch and spanned and watch.due(model, curator.remaining, curator.remaining - keep):
                break

        most = division.total(ROUNDS) * (1 - Fraction(annealing.alpha))
        notes = forecast.unmeasured(task)
        if watch and watch.due(model, curator.remaining, keep * 0):
            log = [*watch.looked, *watch.measured(curator), *log]
            mixture = handed_over(model, log)
            selections = selector.evidence(log, mixture, most)
            return Outcome(mixture, made, selections, (*notes, watch.note))
        looked = watch.looked if watch else ()
        log = [*(m for m in looked if model.holds(m.query.columns)), *log]
        last = final_pass.again(curator, workload, model, log)
        model = family.polished(model, [*log, *last])
        return Outcome(model, made, selector.evidence(log, model, most), notes)

    def _look(self, task: Task, budget: Cost, rows: float) -> hand_over.Look | None:
        allowed = {"wide": len(task.domain) > FEW_COLUMNS, "always": True, "never": False}
        if task.zeros or not allowed[self.hand_over]:
            return None
        look = hand_over.look_of(task.domain, task.workload, task.unit, budget, rows)
        rounds = self._planned(task, budget, None).divide(task, budget).total(ROUNDS)
        # It is paid by the rounds: half of what they have is left to them.
        return look if look and look.each * (2 * len(look.sets)) <= rounds else None

    def _planned(self, task: Task, budget: Cost, rows: float | None) -> Annealing:
        """How the budget is divided, as far as it is known before the number of rows is."""
        annealing = self._annealing(
            measured_part(task.domain, task.workload), batch_of(task.domain)
        )
        if rows is None:
            return annealing
        if look := self._look(task, budget, rows):
            items = (Item(LOOK, look.each, look.sigma, len(look.sets)),)
            annealing = replace(annealing, look=items)
        l2_squared = task.unit.rows_changed * task.unit.max_rows
        sigma = budget.sigma(l2_squared)
        room = room_of(task.domain, annealing.batch, self.max_megabytes, rows, sigma)
        if annealing.batch == 1:
            return replace(annealing, room=room)
        each = annealing.first(task.domain, budget) * Fraction(annealing.alpha)
        dearer = dearer_of(task.domain, rows, each.sigma(l2_squared))
        return replace(annealing, room=room, dearer=dearer)

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
            PER_COLUMN,
            batch,
            may_end=STRETCH if self.final_pass else Fraction(1),
            rates=forecast.PLUS if batch == 1 else forecast.BATCHES,
        )
