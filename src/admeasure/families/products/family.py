"""A model of product rows, and its update.

The model's answers are those of the mixture that gives every row the same weight. They are a
function of measurements alone and may be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes, Family, M
from admeasure.families.products.placement import Placed, Tiling
from admeasure.families.products.sampling import ProductRows, rounded
from admeasure.families.products.tensor import Layout, ProductAnswers, marginals
from admeasure.measurement import Measurement
from admeasure.queries import Targets
from admeasure.schema import Zero

if TYPE_CHECKING:
    from admeasure.families.products.optimise import FitOptions

DOUBLE_NUMBERS = 1 << 26
"""Marginals of fewer products than this (cells times rows) are summed in double precision."""


@dataclass(frozen=True, eq=False)
class ProductModel:
    """`P` as in `admeasure.families.products`, in memory or on a device; `zeros` are kept out of
    what is sampled. `accelerator`: how scores are made on one; None makes them in memory."""

    domain: Domain
    P: Any
    total: float
    zeros: tuple[Zero, ...] = ()
    accelerator: Tiling | None = None
    kind: ClassVar[str] = "products"
    adds_up: ClassVar[bool] = True

    @property
    def layout(self) -> Layout:
        return Layout.of(self.domain)

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        layout, rows = self.layout, self.P.shape[1]
        work = sum(layout.cells(c) for c in columns) * rows
        P = self._exact if work <= DOUBLE_NUMBERS else self._host
        tables = marginals(P, layout, columns)
        return [np.multiply(t, self.total, dtype=np.float64) for t in tables]

    @property
    def _exact(self) -> np.ndarray:
        P = self._host.astype(np.float64)
        for column in self.layout.columns:
            span = self.layout.span(column)
            P[span] /= P[span].sum(axis=0)
        return P

    def blocks(self, query: Targets) -> Iterator[np.ndarray]:
        """Expected counts of all cells or targets, flat, in C order."""
        for shares in self._answers.blocks(query):
            shares *= self.total
            yield shares

    @cached_property
    def _answers(self) -> ProductAnswers:
        return ProductAnswers(self._host, self.layout)

    @cached_property
    def _host(self) -> np.ndarray:
        return np.asarray(self.P)

    @property
    def placed(self) -> Placed | None:
        """The rows on the accelerator that scores are to be made on; None for in memory."""
        if self.accelerator is None:
            return None
        return Placed(self._on_device, self.layout, self.total, self.accelerator)

    @cached_property
    def _on_device(self) -> Any:
        from jax import numpy as jnp

        return jnp.asarray(self.P)

    def without(self, cells: Sequence[Zero]) -> ProductRows:
        P = self._exact
        equal = np.full(P.shape[1], 1 / P.shape[1])
        return ProductRows(P, equal, self.layout, self.total, self.zeros).without(cells)

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        return rounded(self._exact, self.layout, rows, self.zeros, rng)

    def arrays(self) -> Mapping[str, np.ndarray]:
        kept = {"P": self._host, "total": np.asarray(self.total)}
        for i, zero in enumerate(self.zeros):
            kept[f"zero{i}_columns"] = np.asarray(zero.columns)
            kept[f"zero{i}_mask"] = zero.mask
        return kept

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> ProductModel:
        P, total = np.asarray(arrays["P"], np.float32), float(arrays["total"])
        layout = Layout.of(domain)
        sound = P.ndim == 2 and P.shape[0] == layout.width and P.shape[1] > 0
        if not (sound and np.all(P >= 0) and np.isfinite(total)):
            raise ReleaseError("model.npz does not hold product rows over the schema's columns.")
        sums = [P[layout.span(c)].sum(axis=0) for c in layout.columns]
        if not np.allclose(sums, 1.0, atol=1e-3):
            raise ReleaseError("model.npz holds rows that are no distributions.")
        zeros = []
        while f"zero{len(zeros)}_mask" in arrays:
            i = len(zeros)
            columns = tuple(str(c) for c in arrays[f"zero{i}_columns"])
            zeros.append(Zero(columns, np.asarray(arrays[f"zero{i}_mask"], bool)))
        return cls(domain, P, total, tuple(zeros))


class RowsFamily(Family[M], Protocol[M]):
    """A family whose models are so many rows of numbers, one for each level."""

    def init(self, domain: Domain, total: float, rows: int, zeros: Sequence[Zero] = ()) -> M: ...


@dataclass(frozen=True)
class ProductFamily:
    """Rows fitted by gradients to everything measured, from where the last round left them."""

    how: FitOptions
    accelerator: Tiling | None = None

    def init(
        self, domain: Domain, total: float, rows: int, zeros: Sequence[Zero] = ()
    ) -> ProductModel:
        from admeasure.families.products.optimise import first_rows

        P = first_rows(Layout.of(domain), rows, self.how.shape)
        return ProductModel(domain, P, total, tuple(zeros), self.accelerator)

    def update(self, model: ProductModel, log: Sequence[Measurement]) -> ProductModel:
        from admeasure.families.products.optimise import minimise

        start = model.P if model.placed is None else model.placed.P
        return replace(model, P=minimise(start, model.layout, log, model.total, self.how))
