"""PrivMRF: a Markov random field on a graph of dependent columns (Cai, Lei, Wei and Xiao 2021).

1. A tenth of the budget buys how far every pair of columns is from independent
   (`privacy.independence`, sensitivity 4 a row).
2. The attribute graph: edges in descending order of those noisy scores, as long as the model of the
   triangulated graph fits the size limit. All that is measured lies inside its cliques.
3. θ-usefulness, θ = 6: a marginal of two columns or more is considered where its cells hold θ times
   the noise on average.
4. A marginal for each column at first: the column with parents of much merit
   (`parts.attribute_graph`).
5. Then, in some steps, more marginals, 0.8 for each column in all: in each step the ones with the
   largest L1 distance from the model among at most 400, for a tenth of the budget.

All marginals get the same share of the 80% that are left. Everything is fitted by the graphical
family. Choices of ours: the number of rows is bought where it is private; in step 2 the paper
searches for the graph whose edges, those of triangulation included, have the largest sum less a
small penalty of size; in step 4 parents are added one by one; in step 5 the paper adds noise to
every norm, here the exponential mechanism chooses (its code has both); the attribute hierarchies of
its ADULT are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily, GraphicalModel
from admeasure.loop import Budget, all_rounds
from admeasure.parts.attribute_graph import drawn, first_marginals, useful_subsets
from admeasure.planning import counting, forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, Division, Item, Task, evenly
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.independence import IndependenceErrors
from admeasure.privacy.scores.whole import MarginalError
from admeasure.queries import Marginal, Query
from admeasure.schedules.even import Even
from admeasure.workload import Workload

TENTH = Fraction(1, 10)
PAIRS, CHOICES = "how far pairs are from independent, together", "choice of marginals, each step"
MARGINALS = "marginals, together"
PAIR_CELLS = 1 << 20
MOST_STEPS, LATER, LOOKED_AT = 8, 0.8, 400


@dataclass(frozen=True)
class PrivMrf:
    """A graph of dependent columns and marginals inside its cliques; no notice of the workload.

    `usefulness`: θ, 6 in the paper.
    """

    usefulness: float = 6.0
    max_megabytes: float = 80.0

    name: ClassVar[str] = "privmrf"
    summary: ClassVar[str] = "a Markov random field on a graph of dependent columns"
    measures_all_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.usefulness > 0:
            raise UsageError(f"privmrf: usefulness must be positive; it is {self.usefulness}.")

    def check(self, task: Task) -> None:
        GraphicalFamily(self.max_megabytes).init(task.domain, task.zeros)
        room.check_counted(task.domain, [(c,) for c in task.domain.columns], self.name)

    def needs(self, task: Task) -> float:
        """The one-way marginals and the largest pair; others are chosen among what fits."""
        pairs = room.pairs(task.domain, PAIR_CELLS)
        largest = room.megabytes(task.domain, pairs, each=0, largest=40)
        return room.of_columns(task.domain) + largest

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        pairs, steps, _ = room.pairs(task.domain, PAIR_CELLS), *_later(task.domain)
        if not pairs:
            return Division((*counted, evenly(ONE_WAY, task.unit, left, len(task.domain))))
        looked = left * TENTH
        noise = looked.sigma(IndependenceErrors(pairs).l2_squared(task.unit))
        choices = Item(CHOICES, left * TENTH / steps, times=steps)
        marginals = Item(MARGINALS, left * (1 - 2 * TENTH))
        return Division((*counted, Item(PAIRS, looked, noise), choices, marginals))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        steps, each = _later(task.domain)
        measured = len(task.domain) + steps * each if room.pairs(task.domain, PAIR_CELLS) else 1
        last = division.items[-1].cost / measured
        return forecast.graphical(
            division.items,
            task,
            rows,
            sigma_last=last.sigma(task.unit.marginal_l2_squared),
            rounds=str(steps),
            max_megabytes=self.max_megabytes,
        )

    def run(self, task: Task, curator: Curator) -> Outcome:
        domain, unit = task.domain, task.unit
        family = GraphicalFamily(self.max_megabytes)
        log = [counting.rows(curator)]
        total = counting.believed(log[0])
        division = self.divide(task, curator.budget, total)
        model = family.update(family.init(domain, task.zeros), log)
        pairs, (steps, later) = room.pairs(domain, PAIR_CELLS), _later(domain)
        if not pairs:
            log += curator.measure(
                [Marginal((c,)) for c in domain.columns], division.total(ONE_WAY)
            )
            return Outcome(family.polished(model, log), rounds=1)
        noisy = curator.statistic(IndependenceErrors(pairs), division[PAIRS].cost)
        scores = {p: max(0.0, v / (2 * total)) for p, v in zip(pairs, noisy.values, strict=True)}
        cliques = attribute_graph(scores, family, model)
        each = division[MARGINALS].cost / (len(domain) + steps * later)
        sigma = each.sigma(unit.marginal_l2_squared)
        useful = total / (self.usefulness * sigma)
        first = first_marginals(cliques, scores, domain, useful)
        part = division[MARGINALS].cost / (len(first) + steps * later)
        log += curator.measure([Marginal(c) for c in first], part * len(first))
        model = family.update(model, log)
        selector = InsideCliques(family, useful_subsets(cliques, domain, useful), later, {*first})
        schedule = Even(division[CHOICES].cost, part * later)
        model, log = all_rounds(curator, task.workload, family, selector, schedule, model, log)
        return Outcome(family.polished(model, log), rounds=steps)


@dataclass
class InsideCliques:
    """The marginals farthest from the model, among some that were not measured before. Remembers
    what it chose, and how often it was asked, which is the seed of what it looks at."""

    family: GraphicalFamily
    offered: Mapping[Columns, float]
    count: int
    measured: set[Columns] = field(default_factory=set)
    asked: int = 0

    def select(
        self, curator: Curator, workload: Workload, model: GraphicalModel, budget: Budget
    ) -> Sequence[Query]:
        left = {c: w for c, w in self.offered.items() if c not in self.measured}
        if len(left) < self.count:  # all were measured: once more
            left = dict(self.offered)
        looked = self.family.fitting(model, drawn(left, LOOKED_AT, self.asked), 1.0)
        self.asked += 1
        believed = dict(zip(looked, model.marginals(looked), strict=True))
        score = MarginalError(believed, penalty=dict.fromkeys(looked, 0.0))
        candidates = [Marginal(c) for c in looked]
        chosen = curator.top_k(score, candidates, min(self.count, len(looked)), budget.select)
        self.measured |= {q.columns for q in chosen}
        return chosen


def attribute_graph(
    scores: Mapping[Columns, float], family: GraphicalFamily, model: GraphicalModel
) -> list[Columns]:
    """The cliques of the graph: edges by descending score while the triangulated model fits."""
    for pair in sorted(scores, key=lambda p: (-scores[p], p)):
        if scores[pair] > 0 and pair in family.fitting(model, [pair], 1.0):
            model = family.holding(model, [pair])
    names = canonical(model.domain.columns)
    return [canonical(names[i] for i in node) for node in model.core.tree.nodes]


def _later(domain: Domain) -> tuple[int, int]:
    """How many steps choose marginals, and how many each: about 0.8 for each column in all."""
    steps = max(1, min(len(domain) // 2, MOST_STEPS))
    return steps, max(1, round(LATER * len(domain) / steps))
