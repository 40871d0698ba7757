"""Entropy projection: the distribution nearest to a start that agrees with what was measured.

Liu, Vietri and Wu (2021), section 5 and appendix C:

    minimise RE(D || U)   subject to   |a_i - q_i(D)| <= gamma for every measured query,

U the start: uniform, or a public table's frequencies. Letters: λ the multipliers, D ∝ U exp(Σ λ q).
(The appendix prints λ with both signs; here a query is raised by a positive λ.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal

import numpy as np

from admeasure.families.answers import to_simplex
from admeasure.families.reweighting import TargetShares, W, Working, targets
from admeasure.measurement import Measurement
from admeasure.queries import Marginal

HALF_ROW = 0.5
"""Answers of counting queries are kept half a row away from none and from all."""

SLIVER = 0.01
"""Rows that a cell of a whole marginal is left with at least, so that it can be raised again."""

LARGEST = 30.0
"""The largest multiplier. Noisy answers may contradict each other, and then some λ has no end."""


@dataclass(frozen=True, eq=False)
class EntropyProjection(Generic[W]):
    """Algorithm 4, exponential weights projection.

    While some measured answer is off by more than `gamma`, and at most `steps` times (T_max):
    take the worst one and project on it alone. For a counting query that is

        D(x) ∝ D(x) exp(λ q(x)),   λ = log( a (1 - q(D)) / ((1 - a) q(D)) ),

    with a cut to (0, 1) first, and for a whole marginal D(x) ∝ D(x) a_c / q_c(D) for x in cell c,
    with a moved to the nearest distribution first. A query that no record of positive weight
    satisfies, or that all do, cannot be moved and is left alone.

    `begin`: each round from `start`, as the algorithm is printed, or from where the last round
    ended. Both tend to the same distribution, since every step stays in the family U exp(Σ λ q)
    that holds the one solution; with few steps a round the second comes much closer to it.
    """

    start: W
    steps: int = 25
    gamma: float = 0.0
    begin: Literal["last", "start"] = "last"

    def update(self, model: W, log: Sequence[Measurement]) -> W:
        wanted = [_proper(t, model.total) for t in targets(log, model.total)]
        working = Working(self.start if self.begin == "start" else model)
        for _ in range(self.steps):
            answers = [working.answer(t.query) for t in wanted]
            errors = [_error(t, q) for t, q in zip(wanted, answers, strict=True)]
            worst = int(np.argmax(errors))
            if errors[worst] <= self.gamma:
                break
            target, q = wanted[worst], answers[worst]
            working.multiply(target.query, _factors(target, q))
            working.normalise()
        return model.reweighted(working.weights)


@dataclass(frozen=True, eq=False)
class ExactProjection(Generic[W]):
    """The same problem by its dual, to a tolerance:

        minimise over λ   log Σ_x U(x) exp(Σ_i λ_i (q_i(x) - a_i)) + γ ||λ||_1,

    whose gradient is q_i(D_λ) - a_i + γ sign(λ_i). `tolerance` bounds the gradient, that is the
    violation of any one constraint, in shares.
    """

    start: W
    gamma: float = 0.0
    tolerance: float = 1e-7

    def update(self, model: W, log: Sequence[Measurement]) -> W:
        wanted = [_proper(t, model.total) for t in targets(log, model.total)]
        ends = np.cumsum([t.answer.size for t in wanted])
        parts = [slice(e - t.answer.size, e) for e, t in zip(ends, wanted, strict=True)]
        a = np.concatenate([t.answer.ravel() for t in wanted])
        with np.errstate(divide="ignore"):
            start = np.log(self.start.weights)

        def tilted(multipliers: np.ndarray) -> tuple[Working, float]:
            exponent = start.copy()
            for target, part in zip(wanted, parts, strict=True):
                values = multipliers[part].reshape(target.answer.shape)
                index = model.members(target.query)
                if index is not None:
                    exponent[index] += float(values)
                else:
                    spread = target.query.spread(values, model.domain)
                    exponent += model.lifted(spread, target.query.columns)
            top = float(exponent.max())
            working = Working(self.start, np.exp(exponent - top))
            z = float(working.weights.sum())
            working.normalise()
            return working, top + float(np.log(z))

        def objective(split: np.ndarray) -> tuple[float, np.ndarray]:
            plus, minus = split[: a.size], split[a.size :]
            working, log_z = tilted(plus - minus)
            off = np.concatenate([np.ravel(working.answer(t.query)) for t in wanted]) - a
            value = log_z - float((plus - minus) @ a) + self.gamma * float(split.sum())
            return value, np.concatenate([off + self.gamma, -off + self.gamma])

        # λ = λ⁺ - λ⁻ with both at least 0 makes the norm smooth.
        from scipy.optimize import minimize

        found = minimize(
            objective,
            np.zeros(2 * a.size),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, LARGEST)] * (2 * a.size),
            options={"maxiter": 2000, "maxfun": 4000, "gtol": self.tolerance, "ftol": 1e-15},
        )
        working, _ = tilted(found.x[: a.size] - found.x[a.size :])
        return model.reweighted(working.weights)


def _proper(target: TargetShares, total: float) -> TargetShares:
    """Noisy answers as answers that a distribution can give."""
    if isinstance(target.query, Marginal):
        floor = SLIVER / total
        nearest = np.maximum(to_simplex(target.answer, 1.0), floor)
        return TargetShares(target.query, nearest / nearest.sum())
    edge = min(HALF_ROW / total, 0.5)
    return TargetShares(target.query, np.clip(target.answer, edge, 1 - edge))


def _error(target: TargetShares, q: np.ndarray) -> float:
    """The largest error that a projection could do something about."""
    movable = (q > 0) & (q < 1)
    return float(np.max(np.abs(target.answer - q), initial=0.0, where=movable))


def _factors(target: TargetShares, q: np.ndarray) -> np.ndarray:
    a = target.answer
    if isinstance(target.query, Marginal):
        return np.where(q > 0, a / np.where(q > 0, q, 1.0), 1.0)
    return a * (1 - q) / ((1 - a) * q)
