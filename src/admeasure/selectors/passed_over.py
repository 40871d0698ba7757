"""What is remembered of private choices for the confidence bounds of what they passed over.

Of each candidate one choice is kept, and what the model answered then. Every choice's bound holds
with the part of the error probability that the choice is given, so which one is kept is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost
from admeasure.selectors.evidence import Selection

_LISTED = 8
"""Of a set of no more columns all subsets are listed."""


@dataclass(frozen=True, eq=False)
class MadeChoice:
    """One choice, as far as the bounds of AIM's section 5 need it.

    `weight`: w of what was chosen; `candidates`: how many were on offer; `sensitivity` in rows
    times the largest weight.
    """

    chosen: Columns
    believed: np.ndarray
    weight: float
    candidates: int
    sensitivity: float
    sigma: float
    penalty: float
    epsilon: float

    def leaves(self, weights: np.ndarray, cells: np.ndarray, moved: float) -> np.ndarray:
        """About what Theorem 4 will say of candidates' errors, where the model moved by `moved` on
        what was chosen. Says which choice to keep, nothing else."""
        excess = self.weight * (moved - self.penalty * self.believed.size)
        passed_over = 2 * self.sensitivity / self.epsilon * math.log(40 * self.candidates)
        return max(0.0, excess + passed_over) / weights + self.penalty * cells


@dataclass(frozen=True, eq=False)
class Looked:
    """One look at candidates: the model's answers, their weights, and the choices that were made by
    it, each with what was on offer."""

    sets: Sequence[Columns]
    answers: Sequence[np.ndarray]
    cells: np.ndarray
    weights: np.ndarray
    choices: Sequence[tuple[MadeChoice, np.ndarray]]


class PassedOver:
    """The choices of a run, and for each candidate the one that says most about it."""

    def __init__(self) -> None:
        self._choices: list[MadeChoice] = []
        self._open: Looked | None = None
        self._place: dict[Columns, int] = {}
        self._answers: list[np.ndarray] = []
        self._choice = np.empty(0, dtype=np.intp)
        self._leaves = np.empty(0)
        self._weight = np.empty(0)

    @property
    def choices(self) -> int:
        return len(self._choices)

    def looked(self, at: Looked) -> None:
        """Choices were made; the model has learned nothing of them yet."""
        self._choices += [choice for choice, _ in at.choices]
        self._open = at

    def learned(self, after: Model) -> None:
        """For each candidate of the last look keep a choice of it, or the one kept so far."""
        if self._open is None:
            return
        look, self._open = self._open, None
        leaves, choice = self._most_telling(look, after)
        told = np.flatnonzero(choice >= 0)
        if not told.size:
            return
        ids = self._places(look)[told]
        better = leaves[told] <= self._leaves[ids]
        unsure = np.flatnonzero(~better)
        if unsure.size:
            # An older choice says more of an older model; the way to this one counts too.
            moved = np.concatenate([np.ravel(look.answers[t]) for t in told[unsure]])
            moved -= np.concatenate([np.ravel(self._answers[i]) for i in ids[unsure]])
            cells = look.cells[told[unsure]]
            way = np.add.reduceat(np.abs(moved, out=moved), np.cumsum(cells) - cells)
            better[unsure] = leaves[told[unsure]] <= self._leaves[ids[unsure]] + way
        new, places = told[better], ids[better]
        self._leaves[places] = leaves[new]
        self._choice[places] = choice[new]
        self._weight[places] = look.weights[new]
        for t, i in zip(new.tolist(), places.tolist(), strict=True):
            self._answers[i] = look.answers[t]

    def _most_telling(self, look: Looked, after: Model) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate the least that a choice leaves open, and which choice, or -1."""
        first = len(self._choices) - len(look.choices)
        least = np.full(len(look.sets), math.inf)
        which = np.full(len(look.sets), -1, dtype=np.intp)
        now = after.marginals([choice.chosen for choice, _ in look.choices])
        for t, ((choice, on_offer), table) in enumerate(zip(look.choices, now, strict=True)):
            moved = float(np.abs(table - choice.believed).sum())
            leaves = choice.leaves(look.weights, look.cells, moved)
            better = on_offer & (leaves < least)
            least[better] = leaves[better]
            which[better] = first + t
        return least, which

    def _places(self, look: Looked) -> np.ndarray:
        """Where the candidates are kept; those that are new get a place."""
        new = [(r, table) for r, table in zip(look.sets, look.answers, strict=True)]
        new = [(r, table) for r, table in new if r not in self._place]
        if new:
            self._place |= {r: len(self._place) + i for i, (r, _) in enumerate(new)}
            self._answers += [table for _, table in new]
            self._choice = np.concatenate([self._choice, np.full(len(new), -1, dtype=np.intp)])
            self._leaves = np.concatenate([self._leaves, np.full(len(new), math.inf)])
            self._weight = np.concatenate([self._weight, np.zeros(len(new))])
        return np.array([self._place[r] for r in look.sets], dtype=np.intp)

    def evidence(
        self, measured: Sequence[Measurement], final: Model, most: Cost | None = None
    ) -> tuple[Selection, ...]:
        """What the choices say about marginals that no measurement covers.

        `measured`: everything measured, what was chosen last and in order. A choice's share of the
        error probability must be known before it is made: its part of the `most` that choices may
        cost, ε²/8 each; without it, of what they did cost, which is fixed where all of it is spent.
        """
        self.learned(final)
        covered = _Covered(m.query.columns for m in measured)
        told = [r for r, i in self._place.items() if self._choice[i] >= 0 and r not in covered]
        distances: list[dict[Columns, float]] = [{} for _ in self._choices]
        weights: list[dict[Columns, float]] = [{} for _ in self._choices]
        for r, now in zip(told, final.marginals(told), strict=True):
            i = self._place[r]
            distances[self._choice[i]][r] = float(np.abs(now - self._answers[i]).sum())
            weights[self._choice[i]][r] = float(self._weight[i])
        answered = measured[len(measured) - len(self._choices) :]
        cost = 8 * float(most) if most else sum(c.epsilon**2 for c in self._choices)
        return tuple(
            Selection(
                chosen=c.chosen,
                candidates=c.candidates,
                weights={c.chosen: c.weight} | weights[t],
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


class _Covered:
    """All sets of columns inside one of these."""

    def __init__(self, sets: Iterable[Columns]) -> None:
        known = set(sets)
        self._large = [set(columns) for columns in known if len(columns) > _LISTED]
        self._small = {
            inside
            for columns in known
            for size in range(len(columns) + 1 if len(columns) <= _LISTED else 0)
            for inside in combinations(columns, size)
        }

    def __contains__(self, columns: Columns) -> bool:
        return columns in self._small or any(large.issuperset(columns) for large in self._large)
