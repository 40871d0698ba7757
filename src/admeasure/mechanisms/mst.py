"""MST: a maximum spanning tree of two-way marginals (McKenna, Miklau and Sheldon 2021).

"Winning the NIST contest", section 3: measure all one-way marginals, choose d - 1 pairs that make
a spanning tree of strongly dependent columns, measure those pairs, estimate. A third of the budget
goes to each step. The tree is chosen edge by edge, by the exponential mechanism among the pairs
that join two components, with score ||M_ab(D) - M_ab(p)||_1 where p knows the one-way marginals
only. The paper merges levels below three scales of the noise before pairs are measured; here every
level is measured, and the fitted model takes the rare ones together (`parts.rare_levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError
from admeasure.families.graphical.family import GraphicalFamily, GraphicalModel, Shrink
from admeasure.limits import MEGABYTE
from admeasure.loop import Budget, all_rounds
from admeasure.parts.rare_levels import with_rare_levels
from admeasure.planning import forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, Division, Item, Task, evenly
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.whole import MarginalError
from admeasure.queries import Marginal, Query
from admeasure.schedules.even import Even
from admeasure.workload import Workload

THIRD = Fraction(1, 3)

TREE, LARGEST = 15, 16
"""What estimation holds, in sizes of the model and of its largest pair. Measured with 3 columns of
1,500, 2,000 and 3,000 levels and 12 of 700: `needs` is from 9% below to 25% above what was held
beside the counts that a curator keeps if it has room."""
EDGES, PAIRS = "choice of an edge, each", "two-way marginals, each"

PAIR_BYTES = 1500
"""Of each pair beside its cells: 124,750 of them took 240 MB in all."""


@dataclass(frozen=True)
class Mst:
    """One-way marginals and a spanning tree of pairs; takes no notice of the workload.

    `shrink`: which fits shrink measured effects towards what smaller marginals predict: none (the
    paper), that of the release at the end, or those of the rounds as well.
    `rare`: levels below so many scales of the noise are taken together in the release; 0 leaves
    them. Where fits are shrunk it gains nothing and is left out.
    """

    max_megabytes: float = 80.0
    shrink: Shrink = "no"
    rare: float = 3.0

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "one-way marginals and a spanning tree of dependent pairs"
    measures_all_columns: ClassVar[bool] = True

    def check(self, task: Task) -> None:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        model = family.init(task.domain, task.zeros)
        pairs = sorted(self._pairs(task.domain), key=task.domain.cells)
        if len(task.domain) > 1 and not family.fitting(model, pairs[:1], 1.0):
            raise ResourceError(
                f"mst: no pair of columns fits a model of {self.max_megabytes:g} MB. Raise "
                "--max-megabytes, give columns fewer bins, or use independent."
            )

    def needs(self, task: Task) -> float:
        """The answers of all pairs at once, and the smallest model with one for each column."""
        pairs = self._pairs(task.domain)
        held = room.megabytes(task.domain, pairs, each=room.COUNTS)
        held += len(pairs) * PAIR_BYTES / MEGABYTE
        if pairs:
            smallest, *others = sorted(task.domain.levels)
            for cells, times in ((smallest * sum(others), TREE), (smallest * others[-1], LARGEST)):
                held += times * min(self.max_megabytes, room.COUNTS * cells / MEGABYTE)
        return held

    def _pairs(self, domain: Domain) -> tuple[Columns, ...]:
        """Pairs that alone fit the limit of the model."""
        return room.pairs(domain, self.max_megabytes * MEGABYTE / room.COUNTS)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        unit, edges, third = task.unit, len(task.domain) - 1, budget * THIRD
        if not edges:
            return Division((evenly(ONE_WAY, unit, budget, 1),))
        columns, pairs = evenly(ONE_WAY, unit, third, edges + 1), evenly(PAIRS, unit, third, edges)
        return Division((columns, Item(EDGES, third / edges, times=edges), pairs))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        items = self.divide(task, budget, rows or ASSUMED_ROWS).items
        columns = len(task.domain)
        pairs = columns * (columns - 1) // 2
        cells = (sum(task.domain.levels) ** 2 - sum(n**2 for n in task.domain.levels)) // 2
        # Every pair is scored again for each edge; benchmarks/plans.py.
        seconds = 0.1 + pairs * (3.5e-6 * columns + 4e-9 * (rows or ASSUMED_ROWS)) + 9e-6 * cells
        return forecast.graphical(
            items,
            task,
            rows,
            sigma_last=items[-1].noise,
            rounds="1",
            max_megabytes=1.0,
            seconds=seconds,
            cells=cells,
        )

    def run(self, task: Task, curator: Curator) -> Outcome:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        one_way = [Marginal((column,)) for column in task.domain.columns]
        division = self.divide(task, curator.remaining, ASSUMED_ROWS)
        log = curator.measure(one_way, division.total(ONE_WAY))
        model = family.update(family.init(task.domain, task.zeros), log)
        if len(one_way) > 1:
            schedule = Even(division.total(EDGES), division.total(PAIRS))
            tree = SpanningTree(family, self._pairs(task.domain))
            model, log = all_rounds(curator, task.workload, family, tree, schedule, model, log)
        model = family.polished(model, log)
        if self.rare > 0 and self.shrink == "no":
            model = with_rare_levels(model, log, self.rare)
        return Outcome(model, rounds=1)


@dataclass(frozen=True)
class SpanningTree:
    """Kruskal's algorithm with a private choice at each step.

    A pair is considered while the model with it fits, a public rule. Columns that no such pair
    joins to the others stay apart.
    """

    family: GraphicalFamily
    pairs: Sequence[Columns]

    def select(
        self, curator: Curator, workload: Workload, model: GraphicalModel, budget: Budget
    ) -> Sequence[Query]:
        columns = curator.domain.columns
        believed = dict(zip(self.pairs, model.marginals(self.pairs), strict=True))
        score = MarginalError(believed, penalty=dict.fromkeys(self.pairs, 0.0))
        component = {column: column for column in columns}
        tree: list[Columns] = []
        for _ in range(len(columns) - 1):
            joining = [(a, b) for a, b in self.pairs if component[a] != component[b]]
            fitting = self._fitting(model, tree, joining)
            if not fitting:
                break
            candidates = [Marginal(pair) for pair in fitting]
            edge = curator.choose(score, candidates, budget.select / (len(columns) - 1)).columns
            tree.append(edge)
            old, new = component[edge[0]], component[edge[1]]
            component = {c: new if owner == old else owner for c, owner in component.items()}
        return [Marginal(edge) for edge in tree]

    def _fitting(
        self, model: GraphicalModel, tree: Sequence[Columns], joining: Sequence[Columns]
    ) -> list[Columns]:
        levels = model.domain.levels
        largest = max(levels)
        star = largest * (sum(levels) - largest)  # no tree of pairs has more cells
        if not model.core.zeros and star * room.COUNTS <= self.family.max_megabytes * MEGABYTE:
            return list(joining)
        fitting = set(self.family.fitting(self.family.holding(model, tree), joining, 1.0))
        return [pair for pair in joining if pair in fitting]
