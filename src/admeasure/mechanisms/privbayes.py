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
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, Literal

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import UsageError
from admeasure.families.graphical.family import (
    ConditionalFamily,
    GraphicalFamily,
    GraphicalModel,
    Shrink,
)
from admeasure.loop import Budget, adaptive_measurements
from admeasure.planning import forecast, room
from admeasure.planning.division import (
    ASSUMED_ROWS,
    Division,
    Item,
    believed_rows,
    count_rows,
    counting,
)
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.dependence import Dependence
from admeasure.queries import Marginal, Query
from admeasure.schedules.even import Even
from admeasure.schema import Zero
from admeasure.unit import Unit
from admeasure.workload import Workload

SELECT_SHARE = Fraction(3, 10)
"""β of the paper."""

PARENTS = "choice of a column and its parents, each"
JOINTS = "joint of a column and its parents, each"


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

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise UsageError(f"privbayes: degree must be at least 1; it is {self.degree}.")
        if not self.usefulness > 0:
            raise UsageError(f"privbayes: usefulness must be positive; it is {self.usefulness}.")
        if self.estimate == "conditionals" and self.shrink != "no":
            raise UsageError("privbayes: estimate = conditionals fits nothing; leave shrink out.")

    def check(self, domain: Domain, workload: Workload, zeros: Sequence[Zero]) -> None:
        GraphicalFamily(self.max_megabytes, self.shrink).init(domain, zeros)

    def needs(self, domain: Domain, workload: Workload) -> float:
        """The one-way marginals; joints are chosen among what fits."""
        return room.megabytes(domain, [(c,) for c in domain.columns], each=40)

    def divide(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: float
    ) -> Division:
        (counted, left), d = counting(unit, budget), len(domain)
        select = left * SELECT_SHARE if d > 1 else left * 0  # one column: nothing to choose
        each = (left - select) / d
        joints = Item(JOINTS, each, each.sigma(unit.rows_changed * unit.max_rows), d)
        chosen = (Item(PARENTS, select / (d - 1), times=d - 1),) if d > 1 else ()
        return Division((*counted, *chosen, joints))

    def plan(
        self, domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: int | None
    ) -> Plan:
        division = self.divide(domain, workload, unit, budget, rows or ASSUMED_ROWS)
        sigma = division[JOINTS].sigma
        assert sigma is not None
        return forecast.graphical(
            division.items,
            domain,
            workload,
            rows,
            sigma_last=sigma,
            rounds="1",
            max_megabytes=self.max_megabytes,
            rates=forecast.FEW_FITS,
        )

    def run(self, curator: Curator, workload: Workload, zeros: Sequence[Zero]) -> Outcome:
        family = GraphicalFamily(self.max_megabytes, self.shrink)
        log = [count_rows(curator)]
        division = self.divide(
            curator.domain, workload, curator.unit, curator.budget, believed_rows(log[0])
        )
        model = family.update(family.init(curator.domain, zeros), log)
        plain = self.estimate == "conditionals"
        fit = ConditionalFamily(self.max_megabytes) if plain else family
        schedule = Even(division.total(PARENTS), division.total(JOINTS))
        selector = Network(family, self.degree, self.usefulness)
        for done in adaptive_measurements(curator, workload, fit, selector, schedule, model, log):
            log += done.answers
            model = done.after
        return Outcome(model if plain else family.polished(model, log), rounds=1)


@dataclass(frozen=True)
class Network:
    """Greedy structure learning: the best useful (column, parents) pair, again and again."""

    family: GraphicalFamily
    degree: int
    usefulness: float

    def select(
        self,
        curator: Curator,
        workload: Workload,
        model: GraphicalModel,
        budget: Budget,
    ) -> Sequence[Query]:
        domain = curator.domain
        l2_squared = curator.unit.rows_changed * curator.unit.max_rows
        sigma = (budget.measure / len(domain)).sigma(l2_squared)
        most_cells = model.total / (self.usefulness * sigma)
        # The first column is free to choose; the one with the most levels needs no parents.
        placed = [max(domain.columns, key=lambda c: domain[c])]
        joints: list[Columns] = [(placed[0],)]
        while len(placed) < len(domain):
            pairs = self._pairs(domain, placed, most_cells)
            grown = self.family.holding(model, joints)
            fitting = set(self.family.fitting(grown, pairs, 1.0))
            alone = [(c,) for c in domain.columns if c not in placed]
            candidates = [Marginal(p) for p in pairs if p in fitting] or list(map(Marginal, alone))
            each = budget.select / (len(domain) - 1)
            chosen = curator.choose(Dependence(frozenset(placed)), candidates, each)
            joints.append(chosen.columns)
            placed += [c for c in chosen.columns if c not in placed]
        return [Marginal(columns) for columns in joints]

    def _pairs(self, domain: Domain, placed: Sequence[str], most_cells: float) -> list[Columns]:
        """For each column left, with every maximal useful set of parents, or with none."""
        found = []
        for child in (c for c in domain.columns if c not in placed):
            sets: list[frozenset[str]] = []
            for size in range(min(self.degree, len(placed)), 0, -1):
                for parents in combinations(placed, size):
                    useful = domain.cells((child, *parents)) <= most_cells
                    if useful and not any(s.issuperset(parents) for s in sets):
                        sets.append(frozenset(parents))
            found += [canonical((child, *parents)) for parents in sets or [frozenset()]]
        return found
