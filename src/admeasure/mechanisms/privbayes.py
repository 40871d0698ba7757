"""PrivBayes: a Bayesian network of low degree (Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017).

Columns are placed one after the other; each is placed with a set of parents among those before,
chosen by the exponential mechanism with score R, the L1 distance between the joint of column and
parents and the product of their marginals (section 5.3 there). The joints are then measured. As
in PrivBayes+PGM (McKenna, Sheldon and Miklau 2019) the noisy joints are fitted by a graphical
model; with `estimate = conditionals` they are what PrivBayes itself makes of them, conditionals of
each column given its parents, negative counts set to 0 (`ConditionalFamily`). Choices, measurements
and charges are the same. A parent set is considered when its joint is θ-useful: on average a cell
holds θ times the noise (section 4.5), which is a public rule, and when the model with it fits. The
score and its sensitivity are in `privacy.scores.dependence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb, prod
from typing import ClassVar, Literal

import numpy as np

from admeasure.domain import Columns, Domain, about, canonical
from admeasure.errors import UsageError
from admeasure.families.graphical.family import (
    ConditionalFamily,
    GraphicalFamily,
    GraphicalModel,
    Shrink,
)
from admeasure.loop import Budget, all_rounds
from admeasure.planning import counting, forecast, room
from admeasure.planning.division import ASSUMED_ROWS, Division, Item, Task, evenly
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.dependence import Dependence
from admeasure.queries import Marginal, Query
from admeasure.schedules.even import Even
from admeasure.workload import Workload

SELECT_SHARE = Fraction(3, 10)
"""β of the paper."""

PARENTS = "choice of a column and its parents, each"
JOINTS = "joint of a column and its parents, each"

SETS_DRAWN = 500
"""Of columns, by which a plan tells how many sets of parents are useful."""
KEPT_CELLS = 1 << 26
"""Of exact counts that a plan takes to be held; more are counted again. Each takes a quarter of
what a cell of a model does."""
LONG_SECONDS = 300
MANY_PARENTS = (
    "About {scored} sets of parents are scored. A smaller degree leaves fewer of them, and "
    "aim-plus takes less time."
)


@dataclass(frozen=True)
class PrivBayes:
    """A network in which every column has at most `degree` parents; no notice of the workload.

    `usefulness`: θ, 4 in the paper.
    `estimate`: the graphical model that fits the noisy joints, or their conditionals (the paper).
    `shrink`: which fits shrink measured effects towards what smaller marginals predict: none (the
    paper), that of the release at the end, or those of the rounds as well.
    """

    degree: int = 3
    usefulness: float = 4.0
    max_megabytes: float = 80.0
    shrink: Shrink = "no"
    estimate: Literal["graphical", "conditionals"] = "graphical"

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = "a Bayesian network of low degree, fitted as a graphical model"
    measures_all_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one(self, "degree")
        if not self.usefulness > 0:
            raise UsageError(f"privbayes: usefulness must be positive; it is {self.usefulness}.")
        if self.estimate == "conditionals" and self.shrink != "no":
            raise UsageError("privbayes: estimate = conditionals fits nothing; leave shrink out.")

    def check(self, task: Task) -> None:
        GraphicalFamily(self.max_megabytes, self.shrink).init(task.domain, task.zeros)

    def needs(self, task: Task) -> float:
        """The one-way marginals; joints are chosen among what fits."""
        return room.of_columns(task.domain)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        (counted, left), d = counting.divide(task.unit, budget), len(task.domain)
        select = left * SELECT_SHARE if d > 1 else left * 0  # one column: nothing to choose
        chosen = (Item(PARENTS, select / (d - 1), times=d - 1),) if d > 1 else ()
        return Division((*counted, *chosen, evenly(JOINTS, task.unit, left - select, d)))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        sigma = division[JOINTS].noise
        n, d = float(rows or ASSUMED_ROWS), len(task.domain)
        scored, counted, cells = self.expected_looks(task.domain, n / (self.usefulness * sigma))
        seconds = 0.1 + 6e-4 * d**2 + 6e-5 * scored + 9e-9 * n * counted
        made = forecast.graphical(
            division.items,
            task,
            rows,
            sigma_last=sigma,
            rounds="1",
            max_megabytes=self.max_megabytes,
            seconds=seconds,
            cells=min(cells, KEPT_CELLS) // 4,
        )
        if seconds < LONG_SECONDS or self.degree == 1:
            return made
        said = MANY_PARENTS.format(scored=about(scored))
        return replace(made, notes=(*made.notes, said))

    def expected_looks(self, domain: Domain, most_cells: float) -> tuple[int, int, int]:
        """About how many (column, parents) are scored, how many joints are counted for that, and
        the cells of all these, by the part of random sets of columns that are useful.

        With k columns placed each of the d - k others has C(k, p) sets of p parents: of all k
        together C(d + 1, p + 2), over C(d, p + 1) distinct sets of columns. A useful one is left
        out where it has a useful parent more.
        """
        d, rng = len(domain), np.random.default_rng(0)
        levels = np.array([domain[c] for c in domain.columns], dtype=float)
        scored, counted, cells, more = 0.0, 0.0, 0.0, 0.0
        for size in range(min(self.degree, d - 1) + 1, 0, -1):
            drawn = rng.random((SETS_DRAWN, d)).argpartition(size - 1, axis=1)[:, :size]
            each = levels[drawn].prod(axis=1)
            useful = (each <= most_cells) | (size == 1)
            left = float(useful.mean()) * (1 - more)
            scored += left * comb(d + 1, size + 1)
            counted += left * comb(d, size)
            cells += left * comb(d, size) * float(each[useful].mean()) if left else 0.0
            more = float(useful.mean())
        return int(scored), int(counted), int(cells)

    def run(self, task: Task, curator: Curator) -> Outcome:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        log = [counting.rows(curator)]
        division = self.divide(task, curator.budget, counting.believed(log[0]))
        model = family.update(family.init(task.domain, task.zeros), log)
        plain = self.estimate == "conditionals"
        fit = ConditionalFamily(self.max_megabytes) if plain else family
        schedule = Even(division.total(PARENTS), division.total(JOINTS))
        selector = Network(family, self.degree, self.usefulness)
        model, log = all_rounds(curator, task.workload, fit, selector, schedule, model, log)
        return Outcome(model if plain else family.polished(model, log), rounds=1)


@dataclass(frozen=True)
class Network:
    """Greedy structure learning: the best useful (column, parents) pair, again and again."""

    family: GraphicalFamily
    degree: int
    usefulness: float

    def select(
        self, curator: Curator, workload: Workload, model: GraphicalModel, budget: Budget
    ) -> Sequence[Query]:
        domain = curator.domain
        l2_squared = curator.unit.marginal_l2_squared
        sigma = (budget.measure / len(domain)).sigma(l2_squared)
        most_cells = model.total / (self.usefulness * sigma)
        # The first column is free to choose; the one with the most levels needs no parents.
        placed = [max(domain.columns, key=lambda c: domain[c])]
        joints: list[Columns] = [(placed[0],)]
        while len(placed) < len(domain):
            pairs = self.offered(domain, placed, most_cells)
            grown = self.family.holding(model, joints)
            fitting = set(self.family.fitting(grown, pairs, 1.0))
            alone = [(c,) for c in domain.columns if c not in placed]
            candidates = [Marginal(p) for p in pairs if p in fitting] or list(map(Marginal, alone))
            each = budget.select / (len(domain) - 1)
            chosen = curator.choose(Dependence(frozenset(placed)), candidates, each)
            joints.append(chosen.columns)
            placed += [c for c in chosen.columns if c not in placed]
        return [Marginal(columns) for columns in joints]

    def offered(self, domain: Domain, placed: Sequence[str], most_cells: float) -> list[Columns]:
        """For each column left, with every maximal useful set of parents, or with none."""
        found = []
        for child in (c for c in domain.columns if c not in placed):
            sets: list[frozenset[str]] = []
            small = sorted(domain[c] for c in placed)
            for size in range(min(self.degree, len(placed)), 0, -1):
                # Beside the smallest others, only these can be in a useful set.
                least = domain[child] * prod(small[: size - 1])
                able = [c for c in placed if least * domain[c] <= most_cells]
                for parents in combinations(able, size):
                    useful = domain.cells((child, *parents)) <= most_cells
                    if useful and not any(s.issuperset(parents) for s in sets):
                        sets.append(frozenset(parents))
            found += [canonical((child, *parents)) for parents in sets or [frozenset()]]
        return found
