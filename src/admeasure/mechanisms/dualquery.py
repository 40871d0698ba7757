"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014), under zCDP.

A game: the query player keeps multiplicative weights over the queries and their negations, the data
player answers s queries sampled from them with one record that satisfies as few as possible
(an integer program). The release is the uniform distribution on the T records.

What is released and what it costs. Nothing is measured. Round t samples s queries, each with

    P(q) ∝ exp(η Σ_{τ<t} (q(x_τ) - q(D))) = exp(η score(q) / n),
    score(q) = n Σ_{τ<t} q(x_τ) - (t - 1) q(D)   (q(D) in rows).

Given the records so far, which are functions of earlier samples, this is the exponential mechanism
with a score of sensitivity Δ_t = (t - 1) m, m the rows of one person: a counting query moves by at
most m between neighbours of either relation. Its exponent ε_t score / (2 Δ_t) has
ε_t = 2 η Δ_t / n, it is ε_t-bounded range, hence ε_t²/8-zCDP (Cesar and Rogers 2021). Samples are
independent given the past, and zCDP adds up over adaptive steps (Bun and Steinke 2016), so

    ρ = Σ_t s ε_t² / 8 = s η² m² / (2 n²) Σ_{t<=T} (t - 1)² = s η² m² (T - 1) T (2 T - 1) / (12 n²).

The paper composes pure DP, with ε_t as above, by advanced composition; the scores and samples are
the same. Round 1 has all scores equal and costs nothing. Here ρ is given and η follows: round t
gets the part (t - 1)² of it. The records are computed from the samples alone, so solving costs
nothing; that a solver stopped early depends on the samples and the machine, not on the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.parts.oracle import Solver
from admeasure.parts.records import FindsRecords, Record, answers, completed, model_of
from admeasure.planning import counting
from admeasure.planning.division import ASSUMED_ROWS, Division, Item, Task, assumed, precision
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.signed import SignedError
from admeasure.queries import Query
from admeasure.unit import Unit
from admeasure.workload import Workload

MOST_ROUNDS = 200


@dataclass(frozen=True)
class DualQuery(FindsRecords):
    """Records that answer sampled queries, one a round.

    `rounds`: T; None takes as many as the budget allows at `eta`. `samples`: s, queries a round.
    `eta`: the learning rate, used only where `rounds` is not given.
    `seconds`: the most time for one call of the solver. `solver`: CP-SAT where it is installed.
    """

    rounds: int | None = None
    samples: int = 25
    eta: float = 3.0
    seconds: float = 5.0
    solver: Solver = "auto"

    name: ClassVar[str] = "dualquery"
    summary: ClassVar[str] = "records found by integer programs for sampled queries"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "samples")
        if not (self.eta > 0 and self.seconds > 0):
            raise UsageError("dualquery: eta and seconds must be positive.")

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        shares = _shares(left, self._rounds(left, rows, task.unit))
        sampled = (
            Item(_samples_of(t), share / self.samples, times=self.samples)
            for t, share in enumerate(shares, 1)
            if share
        )
        return Division((*counted, *sampled))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        _, left = counting.divide(task.unit, budget)
        rounds = self._rounds(left, rows or ASSUMED_ROWS, task.unit)
        cells = sum(task.domain.cells(c) for c in task.workload.marginals())
        seconds = rounds * (0.2 + self.samples * cells * 2e-7)
        notes = assumed(rows or self.rounds)
        return Plan(division.items, str(rounds), None, cells * 64 / 2**20, seconds, notes)

    def run(self, task: Task, curator: Curator) -> Outcome:
        total = counting.believed(counting.rows(curator))
        division = self.divide(task, curator.budget, total)
        rounds = self._rounds(curator.remaining, total, task.unit)
        oracle = self.oracle(task)
        rng = np.random.default_rng(0)  # for what costs nothing and tells nothing
        found: list[Record] = []
        limited, notes = 0, []
        for t in range(1, rounds + 1):
            sampled = self._sample(curator, task.workload, found, total, division, rng)
            best = oracle.best(Counter(sampled), rng=rng)
            if best is None:
                notes.append(self.ended(t))
                break
            limited += not best.proved
            found.append(completed(best.codes, task.domain, rng))
        if not found:
            raise ResourceError(
                f"dualquery: the solver found no record in {self.seconds:g} seconds. Nothing but "
                "the number of rows was charged. Raise --seconds."
            )
        notes += self.limit_notes(limited, len(found))
        return Outcome(model_of(found, task.domain, total), len(found), notes=tuple(notes))

    def _sample(
        self,
        curator: Curator,
        workload: Workload,
        found: Sequence[Record],
        total: float,
        division: Division,
        rng: np.random.Generator,
    ) -> list[Query]:
        if not found:
            return _uniform(workload, curator.domain, self.samples, rng)
        believed = answers(model_of(found, curator.domain, total * len(found)), workload)
        score = SignedError(believed, times=len(found))
        each = division[_samples_of(len(found) + 1)].cost
        return [curator.choose(score, workload.queries, each) for _ in range(self.samples)]

    def _rounds(self, budget: Cost, total: float, unit: Unit) -> int:
        """The T at which ρ = s η² m² T³ / (6 n²), nearly."""
        if self.rounds is not None:
            return self.rounds
        scaled = precision(budget) * 6 / self.samples * (total / (self.eta * unit.max_rows)) ** 2
        return max(2, min(MOST_ROUNDS, round(scaled ** (1 / 3))))


def _shares(budget: Cost, rounds: int) -> list[Cost]:
    """(t - 1)² of the budget for round t; one round alone costs nothing."""
    squares = [t * t for t in range(rounds)]
    return [budget * square / max(1, sum(squares)) for square in squares]


def _samples_of(t: int) -> str:
    return f"samples of round {t}"


def _uniform(
    workload: Workload, domain: Domain, samples: int, rng: np.random.Generator
) -> list[Query]:
    """Queries and negations, all equally likely."""
    blank = SignedError({q: np.zeros(q.shape(domain)) for q in workload.queries})
    sizes = [
        blank.of(q, np.zeros(domain.shape(q.columns), dtype=np.int64)).size
        for q in workload.queries
    ]
    ends = np.cumsum(sizes)
    picks = rng.integers(ends[-1], size=samples)
    places = np.searchsorted(ends, picks, side="right")
    return [
        blank.chosen(workload.queries[i], int(pick - (ends[i] - sizes[i])))
        for i, pick in zip(places, picks, strict=True)
    ]
