"""A statistic of the model moved to where the measurements have it: the one-step estimator.

Let p be the model, M the table, θ the statistic and ψ its influence at p, a function of cells. Then

    θ(M) = θ(p) + Σ ψ (M - p) + what is of second order in M - p,    Σ ψ p = 0.

ψ is a sum of *effects* ψ_t, each a function of the columns t alone whose mean along every one of
them is 0, and Σ ψ_t M = Σ ψ_t M_t. Where t lies in something measured, ȳ_t is M_t with noise of a
known scale σ_t and without bias, whatever the model made of it; noise in different effects is
uncorrelated. So

    θ(p) + Σ ψ_t ȳ_t   has the variance   Σ σ_t² |ψ_t|²

around θ(M): how a model was fitted, shrunk or cut off at zero is not in it. An effect that nothing
measured keeps what the model says, and |Σ ψ_t (M_t - p_t)| is at most half of the range of ψ_t
times the bound on the L1 error of p_t, plus its largest size times what the number of rows is off.

Reads a release: post-processing, nothing is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.analyses.cells import Influence
from admeasure.bounds import Evidence
from admeasure.domain import Columns, subsets
from admeasure.errors import UsageError

SMALL = 1e-9
"""An effect is taken for none where it is below this part of the largest."""

MOST_OFF = 0.5
"""Of the rows: a bound on an L1 error, which is at most 2, that says enough to go by."""


@dataclass(frozen=True, eq=False)
class OneStep:
    """For each value of a statistic: how far to move it, the variance that it has then from noise,
    and how far what was not measured may be off."""

    shift: np.ndarray
    variance: np.ndarray
    unmeasured: np.ndarray


def effects(influence: Sequence[Influence]) -> dict[Columns, np.ndarray]:
    """The effects ψ_t that the influence is the sum of; axis 0 of each is the value.

    >>> found = effects([(("a", "b"), np.array([[[3.0, 1.0], [1.0, 3.0]]]))])
    >>> {t: effect.ravel().tolist() for t, effect in found.items()}
    {(): [2.0], ('a', 'b'): [1.0, -1.0, -1.0, 1.0]}
    """
    found: dict[Columns, np.ndarray] = {}
    for columns, table in influence:
        for t in [(), *subsets(columns)]:
            others = tuple(1 + i for i, c in enumerate(columns) if c not in t)
            part = table.mean(axis=others)
            for axis in range(1, part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            found[t] = found[t] + part if t in found else part
    largest = max((np.abs(part).max(initial=0.0) for part in found.values()), default=0.0)
    return {t: part for t, part in found.items() if np.abs(part).max() > SMALL * largest}


def step(evidence: Evidence, influence: Sequence[Influence], beta: float) -> OneStep:
    """The step; what is unmeasured is off by more with probability at most `beta`."""
    parts = effects(influence)
    measured = {t: evidence.estimate(t) for t in parts}
    known = {t: found for t, found in measured.items() if found is not None}
    unknown = [t for t in parts if t not in known]
    zero = np.zeros(len(influence[0][1]))
    shift, variance = zero.copy(), zero.copy()
    for t, (table, noise) in known.items():
        shift += _product(parts[t], table)
        variance += noise.sigma**2 * _product(parts[t] ** 2, np.ones(table.shape))
    for t, table in zip(unknown, evidence.model.marginals(unknown), strict=True):
        shift += _product(parts[t], table)
    off = _unmeasured(evidence, parts, unknown, beta) if unknown else zero
    return OneStep(shift, variance, off)


def _unmeasured(
    evidence: Evidence, parts: dict[Columns, np.ndarray], unknown: list[Columns], beta: float
) -> np.ndarray:
    """What the effects that nothing measured may be off together. Those inside one largest set are
    one function of its cells."""
    largest = [t for t in unknown if not any(set(t) < set(u) for u in unknown)]
    level = beta / (len(largest) + 1)
    bounds = evidence.bounds(largest, 1 - level)
    least, most = evidence.rows_between(level / 2)
    rows = max(most - evidence.model.total, evidence.model.total - least, 0.0)
    off = np.zeros(len(parts[unknown[0]]))
    taken: set[Columns] = set()
    for u in largest:
        if bounds[u].error > MOST_OFF * evidence.model.total:
            raise UsageError(
                f"{', '.join(u)} were not measured together, and how far the model is off there "
                f"cannot be told. {_advice(evidence, u)}"
            )
        whole = np.zeros((len(off), *evidence.domain.shape(u)))
        for t in {(), *subsets(u)} & set(unknown) - taken:
            taken.add(t)
            shape = [evidence.domain[c] if c in t else 1 for c in u]
            whole += parts[t].reshape(len(off), *shape)
        flat = whole.reshape(len(off), -1)
        high, low = flat.max(axis=1), flat.min(axis=1)
        off += (high - low) / 2 * bounds[u].error + np.abs(high + low) / 2 * rows
    return off


def _advice(evidence: Evidence, columns: Columns) -> str:
    """What would tell it: a workload that asks for the columns, a certificate, or less noise."""
    certified = () if evidence.errors is None else evidence.errors.marginals
    if any(set(columns) <= set(marginal) for marginal in certified):
        return (
            "The certificate of accuracy says too little of them: fit again with a larger epsilon, "
            "coarser bins, or a workload of fewer columns."
        )
    return (
        "Fit again with a workload that has them in one marginal (`regression:Y~A+B` has), and a "
        "certificate of accuracy (--certify 0.05)."
    )


def _product(effect: np.ndarray, table: np.ndarray) -> np.ndarray:
    """For each value the sum over cells of effect times table."""
    return effect.reshape(len(effect), -1) @ table.reshape(-1)
