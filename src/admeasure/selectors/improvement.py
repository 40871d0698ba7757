"""AIM's selection: the marginal that promises the largest improvement for the workload.

McKenna, Mullins, Sheldon and Miklau (2022), Algorithm 4, lines 12 to 14. Letters: W_+ the downward
closure of the workload, w_r = Σ_s c_s |r ∩ s|, n_r cells, σ_t the noise of the round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from admeasure.domain import Columns
from admeasure.families import HALF_NORMAL, Model
from admeasure.loop import Budget
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.scores.whole import WEIGHT_GRID, MarginalError
from admeasure.queries import Marginal, Query
from admeasure.selectors.evidence import Selection
from admeasure.workload import Workload

MAX_CELLS = 50_000_000
MAX_CANDIDATES = 5_000
"""What one round may score, by public rules: of more candidates a round looks at this many, others
in each round; of more cells at the smallest marginals."""


def closure_weights(workload: Workload) -> dict[Columns, float]:
    """w_r for every r in W_+ (line 8).

    |r ∩ s| counts the columns of r that are in s, so w_r is a sum over the columns of r of the
    weight of all queries that read the column: linear in the workload's size, not quadratic.
    """
    columns = sorted(workload.columns)
    total = dict(zip(columns, workload.reading([(c,) for c in columns]), strict=True))
    return {r: sum(total[column] for column in r) for r in workload.closure()}


def even_weights(workload: Workload) -> dict[Columns, float]:
    """sqrt(w_r / |r|): alike for all of W_+ where the workload reads all columns alike, so that no
    score is larger for the size of its marginal; else larger for columns that are read more."""
    return {r: math.sqrt(w / len(r)) for r, w in closure_weights(workload).items()}


@dataclass(frozen=True)
class Penalty:
    """What a cell takes off a score: `factor` sqrt(2/π) σ, where σ is the noise that the round's
    cost and `ahead`, what later passes will add to it, would buy together. AIM's are 1 and none.

    A marginal that this takes more than `hopeless` times the table off is not scored, by a public
    rule. No error is more than twice the table, so with 2 its score could not be positive.
    """

    factor: float = 1.0
    ahead: Cost | None = None
    hopeless: float = 2.0

    def per_cell(self, measure: Cost, l2_squared: int) -> float:
        together = measure if self.ahead is None else measure + self.ahead
        return self.factor * HALF_NORMAL * together.sigma(l2_squared)


class SizedFamily(Protocol):
    """A family whose models may be kept from growing."""

    def fitting(self, model: Any, candidates: Sequence[Columns], share: float) -> list[Columns]:
        """The candidates that a model may hold when this share of the budget is used."""
        ...


@dataclass(frozen=True, eq=False)
class _Choice:
    """One round of selection, as far as the bounds of section 5 need it."""

    chosen: Columns
    believed: np.ndarray
    weights: dict[Columns, float]
    sensitivity: float
    sigma: float
    penalty: float
    epsilon: float

    def leaves(self, r: Columns, cells: int, moved: float) -> float:
        """About what Theorem 4 will say of r's error, where the model moved by `moved` on r_t.

        Says which round to keep for r, nothing else.
        """
        w_r, w_t = self.weights[r], self.weights[self.chosen]
        excess = w_t * (moved - self.penalty * self.believed.size)
        passed_over = 2 * self.sensitivity / self.epsilon * math.log(40 * len(self.weights))
        return max(0.0, excess + passed_over) / w_r + self.penalty * cells


@dataclass(frozen=True, eq=False)
class _Considered:
    """The round whose selection says most about a candidate, and what the model answered then."""

    round: int
    answer: np.ndarray
    leaves: float


@dataclass(eq=False)
class ExpectedImprovement:
    """q_r(D) = w_r (||M_r(D) - M_r(p_{t-1})||_1 - b_t n_r) over the r that fit, b_t = sqrt(2/π) σ_t
    unless another `penalty` is given.

    A candidate fits when the model with it stays within the part of the size limit that
    corresponds to the part used of what rounds may spend: the budget but for the part `kept` of it.
    Candidates for which there is no hope are left out by a public rule (`Penalty`).

    `weights` is w_r over W_+. Their maximum over a round's candidates, times the rows that a person
    changes, is the score's sensitivity; the penalty does not depend on the table and adds nothing.

    The object remembers for the confidence bounds one round in which each candidate was considered
    and what the model answered then. Every round's bound holds with the part of the error
    probability that the round is given, so the choice of round is free.
    """

    family: SizedFamily
    weights: dict[Columns, float]
    penalty: Penalty = Penalty()
    kept: float = 0.0
    _choices: list[_Choice] = field(default_factory=list)
    _considered: dict[Columns, _Considered] = field(default_factory=dict)
    _open: dict[Columns, np.ndarray] = field(default_factory=dict)

    def select(
        self,
        curator: Curator,
        workload: Workload,
        model: Model,
        budget: Budget,
    ) -> Sequence[Query]:
        self._remember(model)
        domain, left = curator.domain, curator.remaining - budget.select - budget.measure
        used = (1 - left.ratio(curator.budget)) / (1 - self.kept)
        l2_squared = curator.unit.rows_changed * curator.unit.max_rows
        per_cell = self.penalty.per_cell(budget.measure, l2_squared)
        noise = {r: per_cell * domain.cells(r) for r in self.weights}
        candidates = self._candidates(model, noise, float(used))
        score = MarginalError(
            answers=dict(zip(candidates, model.marginals(candidates), strict=True)),
            penalty=noise,
            weights={r: self.weights[r] for r in candidates},
        )
        chosen = curator.choose(score, [Marginal(r) for r in candidates], budget.select).columns
        self._open = dict(score.answers)
        self._choices.append(
            _Choice(
                chosen=chosen,
                believed=score.answers[chosen],
                weights={r: float(score.weight(r)) for r in candidates},
                sensitivity=float(curator.unit.rows_changed * WEIGHT_GRID),
                sigma=budget.measure.sigma(l2_squared),
                penalty=per_cell,
                epsilon=budget.select.epsilon_of_choice(),
            )
        )
        return [Marginal(chosen)]

    def _remember(self, after: Model) -> None:
        """For each candidate of the last round, keep that round or the one kept so far."""
        if not self._open:
            return
        t, choice = len(self._choices) - 1, self._choices[-1]
        (now,) = after.marginals([choice.chosen])
        moved = float(np.abs(now - choice.believed).sum())
        for r, answer in self._open.items():
            leaves = choice.leaves(r, answer.size, moved)
            kept = self._considered.get(r)
            if kept is not None and kept.leaves < leaves:
                # The older round says more of the older model; the way to this one counts too.
                way = float(np.abs(answer - kept.answer).sum())
                if kept.leaves + way < leaves:
                    continue
            self._considered[r] = _Considered(t, answer, leaves)
        self._open = {}

    def _candidates(self, model: Model, noise: dict[Columns, float], used: float) -> list[Columns]:
        """C_t of line 13, less what noise would drown."""
        hopeful = [r for r in self.weights if noise[r] <= self.penalty.hopeless * model.total]
        hopeful = hopeful or [min(self.weights, key=lambda r: noise[r])]
        if len(hopeful) > MAX_CANDIDATES:
            hopeful = random.Random(len(self._choices)).sample(hopeful, MAX_CANDIDATES)
        fitting = sorted(self.family.fitting(model, hopeful, used), key=model.domain.cells)
        cells = np.cumsum([model.domain.cells(r) for r in fitting])
        return fitting[: max(1, int(np.searchsorted(cells, MAX_CELLS, side="right")))]

    def evidence(self, measured: Sequence[Measurement], final: Model) -> tuple[Selection, ...]:
        """What the selections say about marginals that no measurement covers.

        `measured`: everything measured, the selected marginals last and in order.
        """
        self._remember(final)
        covered = [set(m.query.columns) for m in measured]
        open_ = [r for r in self._considered if not any(c.issuperset(r) for c in covered)]
        now = dict(zip(open_, final.marginals(open_), strict=True))
        distances: list[dict[Columns, float]] = [{} for _ in self._choices]
        for r in open_:
            kept = self._considered[r]
            distances[kept.round][r] = float(np.abs(now[r] - kept.answer).sum())
        answered = measured[len(measured) - len(self._choices) :]
        cost = sum(c.epsilon**2 for c in self._choices)
        return tuple(
            Selection(
                chosen=c.chosen,
                candidates=len(c.weights),
                weights={r: c.weights[r] for r in {c.chosen, *distances[t]}},
                distances=distances[t],
                sigma=c.sigma,
                penalty=c.penalty,
                epsilon=c.epsilon,
                sensitivity=c.sensitivity,
                estimated=float(np.abs(c.believed - answered[t].values).sum()),
                share=c.epsilon**2 / cost,
            )
            for t, c in enumerate(self._choices)
            if distances[t]
        )
