"""PrivSyn: dependent pairs, combined, made consistent, and records by gradual update.

Zhang, Wang, Li, Honorio, Backes, He, Chen and Zhang (USENIX Security 2021). A tenth of the budget
buys InDif of every pair, how far it is from independent (`privacy.independence`: sensitivity 4 a
row); a tenth all one-way marginals; the rest the marginals that are chosen from the noisy InDif
alone, with shares by cells^(2/3), which lets their expected L1 noise be least. Choosing, combining,
consistency (`parts.consistency`) and records (`parts.gradual_update`) are post-processing.

- Which pairs (Algorithm 1 there): leaving a pair out costs its InDif, measuring it the expected L1
  norm of its noise. Pairs are added while that lowers the sum.
- Combining (Algorithm 2): cliques of chosen pairs, large ones first, that have at most γ = 5,000
  cells and share at most two columns with those combined before, are measured whole in the place
  of their pairs. At most 100,000 cliques of a size are looked at, a rule of ours.

Differences: zCDP with exact noise, under add/remove and replace; pairs beyond 2^20 cells are left
out, a public rule; records are as many as the table is believed to have, within 1,000 and a
million, and none lies in a structural zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ResourceError
from admeasure.families import HALF_NORMAL, forbidden
from admeasure.families.support import SupportModel
from admeasure.measurement import Measurement, believed_total
from admeasure.parts.consistency import consistent
from admeasure.parts.gradual_update import Codes, synthesised
from admeasure.parts.records import empirical, uniform
from admeasure.planning import counting, room
from admeasure.planning.division import ASSUMED_ROWS, ONE_WAY, Division, Item, Task, evenly
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.independence import IndependenceErrors
from admeasure.queries import Marginal
from admeasure.schema import Zero

TENTH = Fraction(1, 10)
PAIRS, CHOSEN = "how far pairs are from independent, together", "chosen marginals, together"
PAIR_CELLS = 1 << 20
COMBINED_CELLS = 5000
CLIQUES = 100_000
LEAST_RECORDS, MOST_RECORDS = 1_000, 1_000_000


@dataclass(frozen=True)
class PrivSyn:
    """Dependent pairs and cliques of them, followed by synthetic records; no notice of the
    workload.

    `iterations`: rounds of the gradual update over all marginals.
    """

    iterations: int = 50

    name: ClassVar[str] = "privsyn"
    summary: ClassVar[str] = "dependent pairs, combined, followed by records changed step by step"
    measures_all_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one(self, "iterations")

    def check(self, task: Task) -> None:
        room.check_counted(task.domain, [(c,) for c in task.domain.columns], self.name)

    def needs(self, task: Task) -> float:
        """The records and the largest table with the steps on it; pairs are read one by one."""
        pairs = room.pairs(task.domain, PAIR_CELLS)
        largest = room.megabytes(task.domain, pairs, each=0, largest=80)
        return room.of_columns(task.domain) + largest

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        pairs, d = room.pairs(task.domain, PAIR_CELLS), len(task.domain)
        if not pairs:
            return Division((evenly(ONE_WAY, task.unit, budget, d),))
        share = budget * TENTH
        looked = Item(PAIRS, share, share.sigma(IndependenceErrors(pairs).l2_squared(task.unit)))
        one_way = evenly(ONE_WAY, task.unit, share, d)
        return Division((looked, one_way, Item(CHOSEN, budget * (1 - 2 * TENTH))))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        records = _records(float(rows or ASSUMED_ROWS))
        seconds = 1.0 + self.iterations * len(task.domain) * records * 1e-6
        return Plan(division.items, "1", None, self.needs(task), seconds)

    def run(self, task: Task, curator: Curator) -> Outcome:
        domain, unit = task.domain, task.unit
        division = self.divide(task, curator.budget, ASSUMED_ROWS)
        pairs = room.pairs(domain, PAIR_CELLS)
        chosen: list[Columns] = []
        if pairs:
            noisy = curator.statistic(IndependenceErrors(pairs), division[PAIRS].cost)
            scale = division[CHOSEN].cost.sigma(unit.marginal_l2_squared)
            picked = selected(dict(zip(pairs, noisy.values, strict=True)), domain, scale)
            chosen = combined(picked, domain)
        one_way = [Marginal((c,)) for c in domain.columns]
        log = list(curator.measure(one_way, division.total(ONE_WAY)))
        if chosen:
            shares = [Fraction(domain.cells(c) ** (2 / 3)) for c in chosen]
            asked = [Marginal(c) for c in chosen]
            log += curator.measure(asked, division[CHOSEN].cost, shares)
        rows = curator.rows(0) if unit.rows_are_public else None
        total = believed_total(log) if rows is None else counting.believed(rows)
        return Outcome(self._model(log, task, total), rounds=1)

    def _model(self, log: Sequence[Measurement], task: Task, total: float) -> SupportModel:
        values = {m.query.columns: m.values for m in log}
        variances = {m.query.columns: m.sigma**2 for m in log}
        tables = consistent(values, variances, total, task.zeros)
        alone = {c: t for c, t in tables.items() if len(c) == 1}
        held = {column for c in tables if len(c) > 1 for column in c}
        targets = {c: t for c, t in tables.items() if len(c) > 1 or not held.issuperset(c)}
        made = synthesised(targets, alone, task.domain, _records(total), self.iterations)
        return _followed(made, task.domain, total, task.zeros)


def selected(distances: Mapping[Columns, float], domain: Domain, sigma: float) -> list[Columns]:
    """Algorithm 1: pairs whose noise costs less than what their dependence would.

    `sigma` is the noise of a cell if one marginal had all of the budget. With shares by c^(2/3) the
    expected L1 norms of noise come to sqrt(2/π) sigma (Σ c^(2/3))^(3/2) together.
    """
    pairs = list(distances)
    gains = np.maximum(np.array([distances[p] for p in pairs], dtype=float), 0.0)
    sizes = np.array([domain.cells(p) ** (2 / 3) for p in pairs])
    chosen: list[Columns] = []
    held = 0.0
    while len(chosen) < len(pairs):
        noise = HALF_NORMAL * sigma * ((held + sizes) ** 1.5 - held**1.5)
        best = int(np.argmin(noise - gains))
        if noise[best] >= gains[best]:
            break
        chosen.append(pairs[best])
        held += sizes[best]
        gains[best] = -np.inf
    return chosen


def combined(pairs: Sequence[Columns], domain: Domain) -> list[Columns]:
    """Algorithm 2: small cliques of the pairs, and the pairs that lie in none of them."""
    near: dict[str, set[str]] = {}
    for a, b in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    sizes: list[list[Columns]] = []
    last: list[Columns] = [canonical(p) for p in pairs]
    while last:
        grown = {
            canonical((*clique, column))
            for clique in last
            for column in set.intersection(*(near[c] for c in clique))
            if domain.cells(clique) * domain[column] <= COMBINED_CELLS
        }
        last = sorted(grown)[:CLIQUES]
        sizes.append(last)
    found: list[Columns] = []
    used: set[str] = set()
    for cliques in reversed(sizes):
        for clique in cliques:
            if len(used & set(clique)) <= 2:
                found.append(clique)
                used |= set(clique)
    covered = {p for clique in found for p in combinations(clique, 2)}
    return [*found, *(p for p in map(canonical, pairs) if p not in covered)]


def _records(total: float) -> int:
    return int(min(max(total, LEAST_RECORDS), MOST_RECORDS))


def _followed(codes: Codes, domain: Domain, total: float, zeros: Sequence[Zero]) -> SupportModel:
    """The records' empirical distribution, without those that cannot occur."""
    rows = np.stack([codes[c] for c in domain.columns], axis=1)
    rows = rows[~forbidden(codes, zeros)]
    if not len(rows):
        record = uniform(domain, zeros, np.random.default_rng(0))
        if record is None:
            raise ResourceError(
                "privsyn: no record was found that avoids every [[zero]]. Narrow one."
            )
        rows = np.array([[record[c] for c in domain.columns]])
    return empirical(rows, domain, total)
