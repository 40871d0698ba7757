"""A probability for every cell of the domain, and the multiplicative-weights update.

Everything is exact and nothing is cheap: time and memory are those of the whole domain, so the
family is refused beyond `MAX_CELLS` before any work starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ReleaseError, ResourceError
from admeasure.families import Codes
from admeasure.families.rounding import rounded_counts
from admeasure.privacy.measurement import Measurement
from admeasure.schema import Zero

MAX_CELLS = 1 << 24


def check_size(domain: Domain, mechanism: str) -> None:
    """Refuse a domain that does not fit, with its size and what would fit."""
    if domain.cells() > MAX_CELLS:
        raise ResourceError(
            f"{mechanism} keeps a number for each of the domain's {float(domain.cells()):.3g} "
            f"cells, and {MAX_CELLS:.3g} is its limit. Use aim, mst or independent, coarser bins "
            "or fewer columns."
        )


@dataclass(frozen=True, eq=False)
class ExplicitModel:
    """`weights[x]` is the believed share of rows equal to x; axes in the domain's order."""

    domain: Domain
    weights: np.ndarray
    total: float
    kind: ClassVar[str] = "explicit"

    @classmethod
    def uniform(cls, domain: Domain, total: float, zeros: Sequence[Zero] = ()) -> ExplicitModel:
        """The same share for every cell that can occur."""
        weights = np.ones(domain.levels)
        for zero in zeros:
            weights[_lifted(zero.mask, zero.columns, domain)] = 0.0
        return cls(domain, weights / weights.sum(), total)

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        return [self.total * _project(self.weights, c, self.domain) for c in columns]

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        counts = rounded_counts(self.weights.ravel(), rows, rng)
        cells = np.repeat(np.arange(counts.size), counts)
        rng.shuffle(cells)
        codes = np.unravel_index(cells, self.domain.levels)
        return dict(zip(self.domain.columns, codes, strict=True))

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {"weights": self.weights, "total": np.asarray(self.total)}

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> ExplicitModel:
        weights, total = np.asarray(arrays["weights"], float), float(arrays["total"])
        sound = weights.shape == domain.levels and np.all(weights >= 0) and math.isfinite(total)
        if not sound or not math.isclose(weights.sum(), 1.0, rel_tol=1e-6):
            raise ReleaseError("model.npz does not hold a distribution over the schema's domain.")
        return cls(domain, weights, total)


@dataclass(frozen=True)
class MultiplicativeWeights:
    """D(x) ∝ D(x) exp(q(x) (a - q(D)) / 2) for measured queries q with noisy answers a.

    Shares, not counts, as in Hardt, Ligett and McSherry (2012), Figure 1. (Liu, Vietri and Wu
    print the exponent with a minus in appendix A.2; raising a query that is answered too low needs
    the plus.) With `passes` > 1 the update goes through all measurements again, the reuse of past
    queries that Hardt et al. describe in section 3.3.1. A whole marginal is one update with the
    exponent of each of its cells: its cells are disjoint.
    """

    passes: int = 1

    def update(self, model: ExplicitModel, log: Sequence[Measurement]) -> ExplicitModel:
        weights = model.weights
        used = log if self.passes > 1 else log[-1:]
        for _ in range(self.passes):
            for measurement in used:
                weights = self._step(weights, measurement, model)
        return ExplicitModel(model.domain, weights, model.total)

    def _step(self, weights: np.ndarray, m: Measurement, model: ExplicitModel) -> np.ndarray:
        believed = m.query.answer(_project(weights, m.query.columns, model.domain))
        error = m.values / model.total - believed
        exponent = m.query.spread(error / 2, model.domain)
        grown = weights * _lifted(np.exp(exponent), m.query.columns, model.domain)
        return grown / grown.sum()


def average(models: Sequence[ExplicitModel]) -> ExplicitModel:
    """The mean of the iterates, which is what MWEM's utility theorem speaks of."""
    weights = np.mean([m.weights for m in models], axis=0)
    return ExplicitModel(models[-1].domain, weights, models[-1].total)


@lru_cache(maxsize=4096)
def _axes(columns: Columns, domain: Domain) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes to sum over, and the order of the kept ones that makes them canonical."""
    kept = [c for c in domain.columns if c in columns]
    drop = tuple(i for i, c in enumerate(domain.columns) if c not in columns)
    return drop, tuple(kept.index(c) for c in canonical(columns))


def _project(weights: np.ndarray, columns: Columns, domain: Domain) -> np.ndarray:
    drop, order = _axes(columns, domain)
    return weights.sum(axis=drop).transpose(order)


def _lifted(table: np.ndarray, columns: Columns, domain: Domain) -> np.ndarray:
    """A marginal's array seen as an array over the whole domain (a view)."""
    _, order = _axes(columns, domain)
    inverse = np.argsort(order) if order else ()
    shape = tuple(
        n if c in columns else 1 for c, n in zip(domain.columns, domain.levels, strict=True)
    )
    view = np.transpose(table, inverse).reshape(shape)
    return np.broadcast_to(view, domain.levels)
