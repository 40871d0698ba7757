"""Weights on a finite list of records, and multiplicative weights on them.

What is listed, every cell of a small domain (`explicit`) or the distinct rows of a public table
(`support`), is the model's affair. The updates here and in `entropy_projection` see records only
through four verbs, so the same code runs on both, and no query matrix is ever made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.measurement import Measurement
from admeasure.queries import Query


class Reweighted(Model, Protocol):
    """A model that is a share for each of a list of records."""

    @property
    def weights(self) -> np.ndarray:
        """The shares, which sum to one."""
        ...

    def project(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        """The marginal of such weights."""
        ...

    def lifted(self, table: np.ndarray, columns: Columns) -> np.ndarray:
        """For each record the entry of a marginal's table that it falls into."""
        ...

    def members(self, query: Query) -> Any | None:
        """An index of the records that a counting query counts, where that is cheap to have."""
        ...

    def reweighted(self, weights: np.ndarray) -> Self:
        """The same records with other shares."""
        ...


W = TypeVar("W", bound=Reweighted)


@dataclass(frozen=True, eq=False)
class TargetShares:
    """A measured query and what its answer should be, in shares."""

    query: Query
    answer: np.ndarray


def targets(log: Sequence[Measurement], total: float) -> list[TargetShares]:
    """One target for each query, the newest last, answers cut to [0, 1].

    A query that was measured several times has the mean of its answers by precision.
    """
    sums: dict[Query, tuple[np.ndarray, float]] = {}
    for m in log:
        precision = 1.0 if m.sigma == 0 else m.sigma**-2
        before, weight = sums.pop(m.query, (np.zeros(m.values.shape), 0.0))
        sums[m.query] = before + precision * m.values, weight + precision
    return [TargetShares(q, np.clip(v / w / total, 0.0, 1.0)) for q, (v, w) in sums.items()]


class Working:
    """Weights that an update changes in place, of which only the last state is kept."""

    def __init__(self, model: Reweighted, weights: np.ndarray | None = None) -> None:
        self.model = model
        self.weights = np.array(model.weights if weights is None else weights, dtype=np.float64)

    def answer(self, query: Query) -> np.ndarray:
        """What the weights answer, in shares if they are normalised."""
        index = self.model.members(query)
        if index is not None:
            return np.asarray(self.weights[index].sum())
        return np.asarray(query.answer(self.model.project(self.weights, query.columns)))

    def multiply(self, query: Query, factors: np.ndarray) -> None:
        """Multiply each record by the factor of every cell of the query that it counts in."""
        index = self.model.members(query)
        if index is not None:
            self.weights[index] *= float(factors)
            return
        exponents = query.spread(np.log(factors), self.model.domain)
        self.weights *= self.model.lifted(np.exp(exponents), query.columns)

    def normalise(self) -> None:
        self.weights /= self.weights.sum()


@dataclass(frozen=True)
class MultiplicativeWeights:
    """D(x) ∝ D(x) exp(q(x) (a - q(D)) / 2) for measured queries q with noisy answers a.

    Shares, not counts, as in Hardt, Ligett and McSherry (2012), Figure 1. (Liu, Vietri and Wu
    print the exponent with a minus in appendix A.2; raising a query that is answered too low needs
    the plus, as Liu et al.'s proof of Proposition A.1 has it.) A whole marginal is one update with
    the exponent of each of its cells: its cells are disjoint.

    `reuse`, what a round does with measurements of earlier rounds:

    - "none": nothing; one update with the newest, as in the figure.
    - "large" (the rule of PMW-Pub): an update with the newest, then one with every measurement,
      the newest included, whose error is at least half the newest's. All errors are taken before
      the first of these updates, so their order does not matter. Many such queries of the same
      records overshoot together: where their squared errors did not fall, they are made one after
      the other instead, each with its error at that moment.
    - "all": an update with every measurement, oldest first, each with its error at that moment
      (Hardt et al., section 3.3.1).

    The error of a whole marginal is that of its worst cell. `passes`: how often this is done.
    """

    reuse: Literal["none", "large", "all"] = "large"
    passes: int = 1

    def update(self, model: W, log: Sequence[Measurement]) -> W:
        wanted = targets(log, model.total)
        working = Working(model)
        for _ in range(self.passes):
            if self.reuse == "all":
                for target in wanted:
                    _move(working, target, target.answer - working.answer(target.query))
                    working.normalise()
                continue
            newest = wanted[-1]
            errors = [
                (t, t.answer - working.answer(t.query))
                for t in (wanted if self.reuse == "large" else [newest])
            ]
            least = np.abs(errors[-1][1]).max() / 2
            moved = [errors[-1]]
            if self.reuse == "large":
                moved += [(t, error) for t, error in errors if np.abs(error).max() >= least]
            before = working.weights.copy()
            for target, error in moved:
                _move(working, target, error)
            working.normalise()
            if _overshot(working, moved):
                working.weights = before
                for target, _ in moved:
                    _move(working, target, target.answer - working.answer(target.query))
                    working.normalise()
        return model.reweighted(working.weights)


def _overshot(working: Working, moved: Sequence[tuple[TargetShares, np.ndarray]]) -> bool:
    """Whether the squared errors of these queries, moved together, are no smaller than before."""
    if all(target is moved[0][0] for target, _ in moved):
        return False  # one query alone does not
    left = [target.answer - working.answer(target.query) for target, _ in moved]
    return sum(float((e**2).sum()) for e in left) >= sum(float((e**2).sum()) for _, e in moved)


def _move(working: Working, target: TargetShares, error: np.ndarray) -> None:
    working.multiply(target.query, np.exp(error / 2))


def average(models: Iterable[W]) -> W:
    """The mean of the iterates, at least one, which is what the utility theorems speak of."""
    iterator = iter(models)
    last, times = next(iterator), 1
    total = np.array(last.weights)
    for last in iterator:
        total += last.weights
        times += 1
    return last.reweighted(total / times)
