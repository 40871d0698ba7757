"""AIM's selection: the marginal that promises the largest improvement for the workload.

McKenna, Mullins, Sheldon and Miklau (2022), Algorithm 4, lines 12 to 14. Letters: W_+ the downward
closure of the workload, w_r = Σ_s c_s |r ∩ s|, n_r cells, σ_t the noise of the round. A round may
choose several marginals by one set of scores, a batch (docs/explanations/aim.md).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from admeasure.domain import Columns
from admeasure.families import HALF_NORMAL, Model
from admeasure.loop import Budget
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.offer import OnOffer
from admeasure.privacy.scores.whole import WEIGHT_GRID, MarginalError
from admeasure.queries import Marginal, Query
from admeasure.selectors.evidence import Selection
from admeasure.selectors.forest import Forest
from admeasure.selectors.holding import MAX_CELLS, smallest
from admeasure.selectors.passed_over import Looked, MadeChoice, PassedOver
from admeasure.workload import Workload

MAX_CANDIDATES = 5_000
"""What a round may score for each marginal that it chooses, by a public rule: of more candidates a
round looks at this many, others in each round."""
MOST_ERROR = 2.0
"""The L1 error of a marginal, as a part of the table, is at most this."""


def closure_weights(workload: Workload) -> dict[Columns, float]:
    """w_r for every r in W_+ (line 8).

    |r ∩ s| counts the columns of r that are in s, so w_r is a sum over the columns of r of the
    weight of all queries that read the column: linear in the workload's size, not quadratic.
    """
    columns = sorted(workload.columns)
    total = dict(zip(columns, workload.reading([(c,) for c in columns]), strict=True))
    return {r: sum(total[column] for column in r) for r in workload.candidates()}


def even_weights(workload: Workload) -> dict[Columns, float]:
    """sqrt(w_r / |r|): alike for all of W_+ where the workload reads all columns alike, so that no
    score is larger for the size of its marginal; else larger for columns that are read more."""
    return {r: math.sqrt(w / len(r)) for r, w in closure_weights(workload).items()}


@dataclass(frozen=True)
class Penalty:
    """What a cell takes off a score: `factor` sqrt(2/π) σ, where σ is the noise that the round's
    cost and `ahead`, what later passes will add to it, would buy together. AIM's are 1 and none.

    A marginal that this takes more than twice the table off is not scored, by a public rule: no
    error is more, so its score could not be positive. Of three columns and more the limit is
    `hopeless` times the table. Pairs keep theirs: one of large columns that nearly copy each other
    has few cells that hold anything, and noise in the others is shrunk away (`shrinkage.py`), which
    it is not of larger sets.
    """

    factor: float = 1.0
    ahead: Cost | None = None
    hopeless: float = MOST_ERROR

    def most(self, columns: int) -> float:
        """The part of the table that may be taken off a marginal of so many columns."""
        return self.hopeless if columns > 2 else MOST_ERROR

    def per_cell(self, measure: Cost, l2_squared: int) -> float:
        together = measure if self.ahead is None else measure + self.ahead
        return self.factor * HALF_NORMAL * together.sigma(l2_squared)


class SizedFamily(Protocol):
    """A family whose models may be kept from growing."""

    def fitting(self, model: Any, candidates: Sequence[Columns], share: float) -> list[Columns]:
        """The candidates that a model may hold when this share of the budget is used."""
        ...


@runtime_checkable
class RoomyFamily(SizedFamily, Protocol):
    """One that can say what fits together."""

    def room(self, model: Any, candidates: Sequence[Columns], share: float) -> OnOffer:
        """Which candidates still fit while some are taken."""
        ...


@dataclass(eq=False)
class ExpectedImprovement:
    """q_r(D) = w_r (||M_r(D) - M_r(p_{t-1})||_1 - b_t n_r) over the r that fit, b_t = sqrt(2/π) σ_t
    unless another `penalty` is given.

    A candidate fits when the model with it stays within the part of the size limit that
    corresponds to the part used of what rounds may spend: the budget but for the part `kept` of it.
    Candidates for which there is no hope are left out by a public rule (`Penalty`).

    `weights` is w_r over W_+. Their maximum over a round's candidates, times the rows that a person
    changes, is the score's sensitivity; the penalty does not depend on the table and adds nothing.

    `batch`: how many marginals a round chooses, one after another by the same scores; what is on
    offer next depends on the choices before it alone: what they do not join (`Forest`) and what
    still fits beside them. Each choice gets the same part of what the round has for choosing.
    `room`: the part of the size limit that may be filled at all. `max_cells`: of candidates with
    more of them together a round looks at the smallest.

    The object remembers for the confidence bounds one choice for which each candidate was
    considered and what the model answered then (`PassedOver`).
    """

    family: SizedFamily
    weights: dict[Columns, float]
    penalty: Penalty = Penalty()
    kept: float = 0.0
    batch: int = 1
    room: float = 1.0
    max_cells: int = MAX_CELLS
    _passed_over: PassedOver = field(default_factory=PassedOver)
    _cells: dict[Columns, int] = field(default_factory=dict)

    def select(
        self,
        curator: Curator,
        workload: Workload,
        model: Model,
        budget: Budget,
    ) -> Sequence[Query]:
        self._passed_over.learned(model)
        left = curator.remaining - budget.select - budget.measure
        used = float((1 - left.ratio(curator.budget)) / (1 - self.kept)) * self.room
        l2_squared = curator.unit.marginal_l2_squared
        per_cell = self.penalty.per_cell(budget.measure / self.batch, l2_squared)
        candidates = self._candidates(model, per_cell, used)
        answers = model.marginals(candidates)
        score = MarginalError(
            answers=dict(zip(candidates, answers, strict=True)),
            penalty={r: per_cell * self._cells[r] for r in candidates},
            weights={r: self.weights[r] for r in candidates},
        )
        offer = _Watched(self._offer(model, candidates, used))
        queries = [self._queries[r] for r in candidates]
        chosen = curator.in_turn(score, queries, self.batch, budget.select, offer)
        self._passed_over.looked(
            Looked(
                candidates,
                answers,
                np.array([table.size for table in answers], dtype=np.intp),
                np.array([score.weight(r) for r in candidates], dtype=float),
                [
                    (
                        MadeChoice(
                            chosen=query.columns,
                            believed=score.answers[query.columns],
                            weight=float(score.weight(query.columns)),
                            candidates=int(on_offer.sum()),
                            sensitivity=float(curator.unit.rows_changed * WEIGHT_GRID),
                            sigma=(budget.measure / len(chosen)).sigma(l2_squared),
                            penalty=per_cell,
                            epsilon=(budget.select / self.batch).epsilon_of_choice(),
                        ),
                        on_offer,
                    )
                    for query, on_offer in zip(chosen, offer.seen, strict=False)
                ],
            )
        )
        return chosen

    def _offer(self, model: Model, candidates: Sequence[Columns], used: float) -> OnOffer:
        if self.batch == 1:
            return _Everything(len(candidates))
        assert isinstance(self.family, RoomyFamily)
        return _Both(Forest(candidates), self.family.room(model, candidates, used))

    @cached_property
    def _queries(self) -> dict[Columns, Query]:
        return {r: Marginal(r) for r in self.weights}

    def _candidates(self, model: Model, per_cell: float, used: float) -> list[Columns]:
        """C_t of line 13, less what noise would drown."""
        if not self._cells:
            self._cells.update({r: model.domain.cells(r) for r in self.weights})
        hopeful = [
            r
            for r, cells in self._cells.items()
            if per_cell * cells <= self.penalty.most(len(r)) * model.total
        ]
        least = [min(self._cells, key=self._cells.__getitem__)]  # a column, which every tree has
        hopeful = hopeful or least
        if len(hopeful) > MAX_CANDIDATES * self.batch:
            chance = random.Random(self._passed_over.choices)
            hopeful = chance.sample(hopeful, MAX_CANDIDATES * self.batch)
        fitting = self._fitting(model, hopeful, used) or least
        return smallest(fitting, self._cells.__getitem__, self.max_cells)

    def _fitting(self, model: Model, sets: Sequence[Columns], used: float) -> Sequence[Columns]:
        """Those that fit; for a batch by the bounds that hold for several together, which are
        quick, where sizes of single ones may take a triangulation for each."""
        if self.batch == 1:
            return self.family.fitting(model, sets, used)
        assert isinstance(self.family, RoomyFamily)
        left = self.family.room(model, sets, used).left()
        return [r for r, fits in zip(sets, left.tolist(), strict=True) if fits]

    def evidence(
        self, measured: Sequence[Measurement], final: Model, most: Cost | None = None
    ) -> tuple[Selection, ...]:
        """What the selections say about marginals that no measurement covers.

        `measured`: everything measured, the selected marginals last and in order. `most`: what all
        choices could have cost, where a run may stop with some of that left.
        """
        return self._passed_over.evidence(measured, final, most)


@dataclass(frozen=True)
class _Everything:
    """All of so many candidates, for one choice."""

    candidates: int

    def left(self) -> np.ndarray:
        return np.ones(self.candidates, dtype=bool)

    def take(self, place: int) -> None:
        del place


@dataclass(frozen=True)
class _Both:
    """What two rules leave on offer."""

    one: OnOffer
    two: OnOffer

    def left(self) -> np.ndarray:
        return self.one.left() & self.two.left()

    def take(self, place: int) -> None:
        self.one.take(place)
        self.two.take(place)


@dataclass(frozen=True)
class _Watched:
    """A rule, and what it left on offer for each choice."""

    rule: OnOffer
    seen: list[np.ndarray] = field(default_factory=list)

    def left(self) -> np.ndarray:
        self.seen.append(self.rule.left())
        return self.seen[-1]

    def take(self, place: int) -> None:
        self.rule.take(place)
