"""What `rap`, `rap-softmax` and `rap-box` share: checks, defaults from public facts, the run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from admeasure.domain import Domain
from admeasure.errors import UsageError, WorkloadError
from admeasure.extras import need
from admeasure.families.products.family import FitOptions, ProductFamily
from admeasure.families.products.placement import accelerator
from admeasure.families.products.tensor import Layout, check_query_size, check_streamed_size
from admeasure.limits import MEGABYTE
from admeasure.loop import all_rounds
from admeasure.planning import counting, room
from admeasure.planning.division import (
    ASSUMED_ROWS,
    ROWS,
    Division,
    Item,
    Task,
    as_noisy,
    assumed,
    precision,
)
from admeasure.planning.forecast import unmeasured
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal, Targets
from admeasure.schedules.even import Even
from admeasure.selectors.top import TopCells, TopMarginals
from admeasure.workload import Workload

EACH, ANSWER = "each measurement", "each answer"
SELECT_SHARE = Fraction(1, 2)
MOST_COLUMNS = 6
MOST_ROWS = 100_000

Measure = Literal["cells", "marginals", "all", "all-cells"]
UNCHOSEN = ("all", "all-cells")


@dataclass(frozen=True)
class Projection(ABC):
    """A mechanism that fits product rows to the worst answered queries; `family` says how.

    `rounds` T, `queries` K a round (single queries, or whole marginals), `product_rows` n'; None
    takes a number from the budget, the noisy number of rows and the workload.
    `measure`: single queries as in the paper; whole marginals, of which one costs what one cell
    costs; all: every marginal of the workload once, without choosing (T = 1); or all-cells: the
    same, but each count with the noise that it has where every query is paid for by itself, which
    is the paper's variant without choices (T = 1, K = m).
    `steps`: the most steps of one fit. `learning_rate`: Adam's; None takes the usual one.
    """

    rounds: int | None = None
    queries: int | None = None
    product_rows: int | None = None
    measure: Measure = "cells"
    steps: int = 1000
    learning_rate: float | None = None

    name: ClassVar[str]
    summary: ClassVar[str]

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "queries", "product_rows", "steps")
        check_rows(self.name, self.product_rows)
        rate = self.learning_rate
        if rate is not None and not 0 < rate < math.inf:
            raise UsageError(f"{self.name}: learning_rate must be a positive number; it is {rate}.")
        if self.measure in UNCHOSEN and (self.rounds or 1) > 1:
            raise UsageError(
                f"{self.name}: measure = {self.measure} has one round; leave rounds out."
            )
        if self.measure in UNCHOSEN and self.queries is not None:
            raise UsageError(
                f"{self.name}: measure = {self.measure} chooses nothing; leave queries out."
            )

    def check(self, task: Task) -> None:
        check_fitted(self.name, task.workload)
        offered, what = self._offered(task), "marginals"
        if self.measure == "marginals" or self._unchosen(task, self.rounds, self.queries):
            check_query_size(task.workload.queries, task.domain, self.name)
        else:
            check_streamed_size(task.workload.targets, task.domain, self.name)
        if self.measure == "cells":
            what = "queries"
        asked = (self.rounds or 1) * (self.queries or 1)
        if self.measure == "marginals":
            asked = self.queries or 1  # a marginal may be measured again in another round
        if asked > offered:
            raise UsageError(
                f"{self.name}: {asked:,} {what} are to be measured, but the workload has "
                f"{offered:,}. Lower --queries or --rounds."
            )

    def needs(self, task: Task) -> float:
        """The rows, their gradient and what Adam remembers of it; all answers where all are
        measured."""
        n = product_rows(self.product_rows, task.domain)
        rows, measured = fitted_megabytes(task.domain, n), task.workload.marginals()
        if self.measure not in UNCHOSEN:
            return rows
        if self.measure == "all-cells":
            # Targets of thresholds are fitted one by one: for each column of each a line of all
            # rows, and its gradient.
            parts = [q.columns for q in task.workload.targets if q.at_least < len(q.columns)]
            rows += room.megabytes(task.domain, parts, each=8 * n * max(map(len, parts), default=0))
        return rows + room.megabytes(task.domain, measured, each=20, largest=40)

    def start_libraries(self) -> None:
        room.start_jax(self.name)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        rounds, queries, _ = self.settings(task, left, rows)
        single = self.measure in ("cells", "all-cells")
        one = task.unit.max_rows**2 if single else task.unit.marginal_l2_squared
        part = left / (rounds * queries)
        if self._unchosen(task, rounds, queries):
            return Division((*counted, *self._unchosen_items(task, part / one)))
        select, measure = part * SELECT_SHARE, part * (1 - SELECT_SHARE)
        return Division(
            (
                *counted,
                Item(f"choice of {queries}, each round", select * queries, times=rounds),
                Item(ANSWER, measure, measure.sigma(one), rounds * queries),
            )
        )

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        total = float(rows or ASSUMED_ROWS)
        division = self.divide(task, budget, total)
        left = budget - division.total(ROWS)
        rounds, _, size = self.settings(task, left, total)
        cells = sum(task.domain.cells(q.columns) for q in task.workload.queries)
        width = Layout.of(task.domain).width
        megabytes = 340 + (width * size * 40 + min(cells, 1 << 27) * 12) / 2**20
        seconds = expected_seconds(task.domain, rounds, cells, size)
        return Plan(division.items, str(rounds), None, megabytes, seconds, assumed(rows))

    def run(self, task: Task, curator: Curator) -> Outcome:
        return self.run_by(self.family(), task, curator)

    def run_by(self, family: ProductFamily, task: Task, curator: Curator) -> Outcome:
        """The run with rows that `family` fits."""
        total = counting.believed(counting.rows(curator))
        division = self.divide(task, curator.budget, total)
        rounds, queries, rows = self.settings(task, curator.remaining, total)
        model = family.init(task.domain, total, rows, task.zeros)
        if self._unchosen(task, rounds, queries):
            asked = self._everything(task.workload)
            shares = [q.sensitivity(task.domain, task.unit).l2_squared for q in asked]
            log = curator.measure(asked, division.total(EACH), shares)
            return Outcome(family.update(model, log), rounds=1)
        selector = TopCells(queries) if self.measure == "cells" else TopMarginals(queries)
        schedule = Even(division.items[-2].cost, division[ANSWER].cost * queries)
        model, _ = all_rounds(curator, task.workload, family, selector, schedule, model)
        return Outcome(model, rounds=rounds, notes=unmeasured(task))

    @abstractmethod
    def family(self) -> ProductFamily:
        """The rows, and how they are fitted."""

    def settings(self, task: Task, budget: Cost, total: float) -> tuple[int, int, int]:
        """T, K and n' from public facts: budget, noisy number of rows, workload.

        Single queries. With c = T K queries in all, an answer has noise of sqrt(c / ρ) rows, and
        more queries follow more of the table. The paper finds (3.4.2) that the best T K is one
        number and grows with ε; c = n sqrt(ρ) / 20, within 8 and 4096, is our rule for it
        (docs/measurements/rap.md compares it with the paper's grid). Conjunctions may be asked many
        at a time, K = sqrt(c); targets of thresholds with r < k overlap, and the paper finds
        (4.3.1) that few at a time in many rounds are best: K = 4 there, and four times as many in
        all, because their answers are larger.

        Whole marginals: one a round, in sqrt(n sqrt(ρ)) / 2 rounds as in `gem` (`course`), no fewer
        than 4 and no more than twice the number of marginals.
        """
        rows, offered = product_rows(self.product_rows, task.domain), self._offered(task)
        if self.measure in UNCHOSEN:
            return 1, offered, rows
        if self.measure == "marginals":
            balanced = round(math.sqrt(total * math.sqrt(precision(budget))) / 2)
            rounds = self.rounds or max(min(4, offered), min(balanced, 2 * offered))
            return rounds, self.queries or 1, rows
        overlapping = any(q.at_least < len(q.columns) for q in task.workload.targets)
        count = math.sqrt(precision(budget)) * total / 20 * (4 if overlapping else 1)
        count = max(8.0, min(4096.0, count, offered / 4))
        queries = self.queries
        if queries is None and self.rounds is not None:
            queries = max(1, round(count / self.rounds))
        if queries is None:
            queries = 4 if overlapping else math.isqrt(int(count))
        queries = min(queries, offered)
        rounds = self.rounds or max(1, min(64, round(count / queries)))
        while rounds * queries > offered:
            rounds -= 1
        return rounds, queries, rows

    def _offered(self, task: Task) -> int:
        if self.measure in ("cells", "all-cells"):
            return sum(task.domain.cells(q.columns) for q in task.workload.targets)
        return len(task.workload.marginals())

    def _unchosen(self, task: Task, rounds: int | None, queries: int | None) -> bool:
        """Whether everything is measured, so that there is nothing to choose."""
        if self.measure == "cells":
            return rounds == 1 and queries == self._offered(task)
        return self.measure in UNCHOSEN

    def _everything(self, workload: Workload) -> Sequence[Marginal | Targets]:
        """What is measured where nothing is chosen. Queries of one marginal or threshold come
        together, in one array."""
        if self.measure == "all":
            return [Marginal(c) for c in workload.marginals()]
        return workload.targets

    def _unchosen_items(self, task: Task, one: Cost) -> list[Item]:
        """All with the noise that a number of squared sensitivity 1 has for the cost `one`.

        Of single queries that is the noise of the paper, GM(D, q, ρ/m) for each of m queries. The
        cells of a marginal together have the squared sensitivity 1 or 2 and not their number, so it
        costs less than the m charges of the paper. Charged is what it costs; the rest stays
        unspent.
        """
        asked = self._everything(task.workload)
        kinds = Counter(q.sensitivity(task.domain, task.unit).l2_squared for q in asked)
        return [
            as_noisy(EACH, l2_squared, one, times) for l2_squared, times in sorted(kinds.items())
        ]


def check_fitted(name: str, workload: Workload) -> None:
    """Refuse queries that no product rows are fitted to, and a missing library."""
    need("jax", "gradient", name)
    need("optax", "gradient", name)
    for query in workload.queries:
        if len(query.columns) > MOST_COLUMNS:
            raise WorkloadError(
                f"{name} serves queries of up to {MOST_COLUMNS} columns; {query} has "
                f"{len(query.columns)}. Use fewer columns, or aim."
            )


def check_rows(name: str, rows: int | None) -> None:
    """Refuse more product rows than are fitted."""
    if rows is not None and rows > MOST_ROWS:
        raise UsageError(f"{name}: product_rows may be at most {MOST_ROWS:,}; it is {rows:,}.")


def fitted_rows(kind: Literal["sparsemax", "softmax"], rate: float, steps: int) -> ProductFamily:
    """Rows on the simplex, `kind` of them, fitted by Adam on the accelerator that is there."""
    return ProductFamily(FitOptions(kind, rate, steps), accelerator())


def fitted_megabytes(domain: Domain, rows: int) -> float:
    """JAX, product rows, their gradient and what Adam remembers of it."""
    return room.JAX_MEGABYTES + 20 * Layout.of(domain).width * rows / MEGABYTE


def product_rows(given: int | None, domain: Domain) -> int:
    """n'."""
    return given or max(64, min(1000, 16 * Layout.of(domain).width))


def expected_seconds(domain: Domain, rounds: int, cells: int, rows: int) -> float:
    """Of rounds in which so many cells are answered by so many product rows."""
    return 2.0 + rounds * (cells * rows * 4e-11 + 0.25 + Layout.of(domain).width * rows * 1e-7)
