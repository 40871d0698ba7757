"""A probability for every cell of the domain.

Everything is exact and nothing is cheap: time and memory are those of the whole domain, so the
family is refused beyond `MAX_CELLS` before any work starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from admeasure.domain import Columns, Domain, about
from admeasure.errors import ReleaseError, ResourceError, SchemaError
from admeasure.families import Codes, ImpossibleError
from admeasure.families.rounding import rounded_counts
from admeasure.joints import homes, summed
from admeasure.queries import Cell, Query
from admeasure.schema import Zero

MAX_CELLS = 1 << 24
SHARED_CELLS = 1 << 16
"""The largest table that is summed from the whole domain for several marginals at once."""


def check_size(domain: Domain, mechanism: str) -> None:
    """Refuse a domain that does not fit, with its size and what would fit."""
    if domain.cells() > MAX_CELLS:
        raise ResourceError(
            f"{mechanism} keeps a number for each of the domain's {about(domain.cells())} "
            f"cells, and {about(MAX_CELLS)} is its limit. Use aim, mst or independent, "
            "coarser bins or fewer columns."
        )


@dataclass(frozen=True, eq=False)
class ExplicitModel:
    """`weights[x]` is the believed share of rows equal to x; axes in the domain's order."""

    domain: Domain
    weights: np.ndarray
    total: float
    kind: ClassVar[str] = "explicit"
    adds_up: ClassVar[bool] = True

    @classmethod
    def uniform(cls, domain: Domain, total: float, zeros: Sequence[Zero] = ()) -> ExplicitModel:
        """The same share for every cell that can occur."""
        weights = np.ones(domain.levels)
        for zero in zeros:
            weights[lifted(zero.mask, zero.columns, domain)] = 0.0
        if not weights.any():
            raise SchemaError(
                "The [[zero]] entries together rule out every record. Remove or narrow one."
            )
        return cls(domain, weights / weights.sum(), total)

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        if len(columns) < 3:
            return [self.total * self.project(self.weights, c) for c in columns]
        home = homes(self.domain, columns, SHARED_CELLS)
        joints = {j: self.project(self.weights, j) for j in set(home.values())}
        return [self.total * summed(joints[home[c]], home[c], c) for c in columns]

    def project(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        return summed(weights, self.domain.columns, columns)

    def lifted(self, table: np.ndarray, columns: Columns) -> np.ndarray:
        return lifted(table, columns, self.domain)

    def members(self, query: Query) -> Any | None:
        """A cell of a marginal is a slice of the domain."""
        if not isinstance(query, Cell):
            return None
        codes = dict(zip(query.columns, query.codes, strict=True))
        return tuple(codes.get(c, slice(None)) for c in self.domain.columns)

    def reweighted(self, weights: np.ndarray) -> Self:
        return replace(self, weights=weights)

    def without(self, cells: Sequence[Zero]) -> ExplicitModel:
        left = self.weights.copy()
        for zero in cells:
            left[lifted(zero.mask, zero.columns, self.domain)] = 0.0
        share = float(left.sum())
        if share <= 0:
            raise ImpossibleError
        return replace(self, weights=left / share, total=self.total * share)

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


def lifted(table: np.ndarray, columns: Columns, domain: Domain) -> np.ndarray:
    """A marginal's array seen as an array over the whole domain (a view)."""
    order = [columns.index(c) for c in domain.columns if c in columns]
    shape = tuple(
        n if c in columns else 1 for c, n in zip(domain.columns, domain.levels, strict=True)
    )
    view = np.transpose(table, order).reshape(shape)
    return np.broadcast_to(view, domain.levels)
