"""FEM: follow the perturbed leader and the exponential mechanism (Vietri, Tian, Bun, Steinke and
Wu 2020), under zCDP; see also Liu, Vietri and Wu (2021), appendix A.2.

Round t chooses one query, among queries and negations, that the last round's records answer too
high, and then finds s records, each with the least Σ_{i<=t} q_i(x) + <x, η> for a perturbation η of
its own, exponential in each coordinate of the one-hot record. The release is the uniform
distribution on the records of the second half of the rounds (so does the authors' code: early
rounds know few queries), or on all T s of them, as the theorem has it.

What is released and what it costs. Nothing is measured. The choice of a round is the exponential
mechanism with score q(last records) - q(D) in rows, of sensitivity m, the rows of one person, under
either relation; with parameter ε it is ε-bounded range, so ε²/8-zCDP. T rounds cost T ε²/8, which
is the whole of ρ. The perturbations protect nothing: the records are computed from the chosen
queries and public randomness alone, and post-processing costs nothing. (The paper composes the same
choices under approximate DP.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from admeasure.errors import ResourceError, UsageError
from admeasure.parts.oracle import Found, Oracle, Solver
from admeasure.parts.records import FindsRecords, Record, answers, completed, model_of, uniform
from admeasure.parts.reweighting import MOST_ROUNDS, balanced_rounds
from admeasure.planning import counting
from admeasure.planning.division import ASSUMED_ROWS, SELECTION, Division, Item, Task, assumed
from admeasure.planning.mechanism import Outcome, Plan, at_least_one
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.signed import SignedError
from admeasure.queries import Query
from admeasure.unit import Unit

FIRST = 100
"""Records drawn uniformly that the first round is compared with."""


@dataclass(frozen=True)
class Fem(FindsRecords):
    """Records that avoid all queries answered too high, `samples` of them a round.

    `rounds`: T; None takes a number from the budget and the noisy number of rows. `samples`: s;
    None takes the authors' 100 where all records are compared and 20 where a program is solved.
    `perturbation`: the mean of the exponential noise, in queries; None takes sqrt(T) / 2.
    `output`: records of the second half of the rounds, or of all. `seconds`: the most time for one
    call of the solver. `threads`: calls at a time.
    """

    rounds: int | None = None
    samples: int | None = None
    perturbation: float | None = None
    output: Literal["half", "all"] = "half"
    seconds: float = 5.0
    solver: Solver = "auto"
    threads: int = 2

    name: ClassVar[str] = "fem"
    summary: ClassVar[str] = "records found by perturbed integer programs for the worst queries"

    def __post_init__(self) -> None:
        at_least_one(self, "rounds", "samples", "threads")
        if self.perturbation is not None and not self.perturbation > 0:
            raise UsageError("fem: perturbation must be positive.")
        if not self.seconds > 0:
            raise UsageError("fem: seconds must be positive.")

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        rounds = self._rounds(left, rows, task.unit)
        return Division((*counted, Item(SELECTION, left / rounds, times=rounds)))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        division = self.divide(task, budget, rows or ASSUMED_ROWS)
        rounds = division[SELECTION].times
        cells = sum(task.domain.cells(c) for c in task.workload.marginals())
        oracle = self.oracle(task)
        call = 4e-9 * task.domain.cells() if oracle.engine == "enumeration" else 0.05
        seconds = rounds * (0.02 + self._samples(oracle) * call / self.threads)
        notes = assumed(rows or self.rounds)
        return Plan(division.items, str(rounds), None, cells * 64 / 2**20, seconds, notes)

    def run(self, task: Task, curator: Curator) -> Outcome:
        domain = task.domain
        total = counting.believed(counting.rows(curator))
        each = self.divide(task, curator.budget, total)[SELECTION]
        rounds = each.times
        oracle = self.oracle(task)
        rng = np.random.default_rng(0)  # for perturbations, which protect nothing
        drawn = [uniform(domain, task.zeros, rng) for _ in range(FIRST)]
        last: list[Record] = [r for r in drawn if r is not None] or [_first(oracle, rng)]
        chosen: list[Query] = []
        found: list[list[Record]] = []
        calls, limited, notes, done = 0, 0, [], 0
        for t in range(1, rounds + 1):
            score = SignedError(answers(model_of(last, domain, total), task.workload))
            chosen.append(curator.choose(score, task.workload.queries, each.cost))
            solved = self._solve(oracle, chosen, rounds, rng)
            records = [completed(s.codes, domain, rng) for s in solved if s is not None]
            calls += len(solved)
            limited += sum(s is None or not s.proved for s in solved)
            if not records:
                notes.append(self.ended(t))
                break
            last, done = records, t
            found.append(records)
        if not found:
            raise ResourceError(
                f"fem: the solver found no record in {self.seconds:g} seconds. The number of rows "
                "and one choice were charged. Raise --seconds."
            )
        notes += self.limit_notes(limited, calls)
        kept = found[done // 2 :] if self.output == "half" else found
        released = [record for records in kept for record in records]
        return Outcome(model_of(released, domain, total), done, notes=tuple(notes))

    def _solve(
        self, oracle: Oracle, chosen: Sequence[Query], rounds: int, rng: np.random.Generator
    ) -> list[Found | None]:
        """s perturbed programs, some at a time; the noise is drawn before they start."""
        queries = Counter(chosen)
        scale = self.perturbation or math.sqrt(rounds) / 2
        noises = [
            {c: rng.exponential(scale, oracle.domain[c]) for c in oracle.domain.columns}
            for _ in range(self._samples(oracle))
        ]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(lambda costs: oracle.best(queries, costs), noises))

    def _samples(self, oracle: Oracle) -> int:
        return self.samples or (100 if oracle.engine == "enumeration" else 20)

    def _rounds(self, budget: Cost, total: float, unit: Unit) -> int:
        if self.rounds is not None:
            return self.rounds
        return max(5, min(MOST_ROUNDS, round(balanced_rounds(budget, total, unit))))


def _first(oracle: Oracle, rng: np.random.Generator) -> Record:
    best = oracle.best({})
    if best is None:
        raise ResourceError(
            "fem: no record was found that avoids every [[zero]]. Nothing but the number of "
            "rows was charged. Raise --seconds, or narrow a [[zero]]."
        )
    return completed(best.codes, oracle.domain, rng)
