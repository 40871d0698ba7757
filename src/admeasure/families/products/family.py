"""A model of product rows, and its update.

The model's answers are those of the mixture that gives every row the same weight. They are a
function of measurements alone and may be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes, no_rows
from admeasure.families.products.placement import Placed, Tiling
from admeasure.families.products.sampling import ProductRows, rounded
from admeasure.families.products.tensor import Layout, ProductAnswers, marginals
from admeasure.measurement import Measurement
from admeasure.queries import Targets
from admeasure.schema import Zero

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


@dataclass(frozen=True, eq=False)
class BoxModel:
    """Rows in a box: `P` as in `admeasure.families.products`, but every number within -1 and 1
    instead of rows on the simplex.

    RAP as it was first published (Aydore et al. 2021, first version), and as Liu, Vietri and Wu
    (2021, D.3) ran it: rows are clipped to the box after each step, and nothing makes the levels of
    a column sum to 1. So answers need not agree with each other: what is believed of one level says
    nothing of the others, which the paper gives as the reason for its errors. There is no
    distribution and there are no rows; answers are clipped to what can be, 0 to all rows, as the
    paper's are.
    """

    domain: Domain
    P: np.ndarray
    total: float
    kind: ClassVar[str] = "box"
    adds_up: ClassVar[bool] = False
    placed: ClassVar[None] = None

    @property
    def layout(self) -> Layout:
        return Layout.of(self.domain)

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        found = marginals(self.P.astype(np.float64), self.layout, columns)
        return [np.clip(shares, 0.0, 1.0) * self.total for shares in found]

    def blocks(self, query: Targets) -> Iterator[np.ndarray]:
        """Counts of all cells or targets, flat, in C order."""
        for shares in self._answers.blocks(query):
            yield np.clip(shares, 0.0, 1.0) * self.total

    @cached_property
    def _answers(self) -> ProductAnswers:
        return ProductAnswers(self.P, self.layout)

    def without(self, cells: Sequence[Zero]) -> BoxModel:
        raise no_rows()

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        raise no_rows()

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {"P": self.P, "total": np.asarray(self.total)}

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> BoxModel:
        P, total = np.asarray(arrays["P"], np.float32), float(arrays["total"])
        sound = P.ndim == 2 and P.shape[0] == Layout.of(domain).width and P.shape[1] > 0
        if not (sound and np.all(np.abs(P) <= 1) and np.isfinite(total)):
            raise ReleaseError("model.npz does not hold rows in a box over the schema's columns.")
        return cls(domain, P, total)


Shape = Literal["sparsemax", "softmax", "box"]


@dataclass(frozen=True)
class FitOptions:
    """How rows are fitted."""

    shape: Shape
    learning_rate: float
    steps: int = 1000
    patience: int = 25
    tolerance: float = 0.01
    floor: float = 1.0
    """In units of the expected squared noise of all measurements."""
    moment: Literal["block", "level"] = "block"
    """Whose slopes scale a step under sparsemax: those of the whole block, or of the level."""


R = TypeVar("R", ProductModel, BoxModel)


@dataclass(frozen=True)
class ProductFamily:
    """Rows fitted by gradients to everything measured, from where the last round left them: on the
    simplex, or in a box, whose answers may enter structural zeros."""

    how: FitOptions
    accelerator: Tiling | None = None

    def init(self, domain: Domain, total: float, rows: int, zeros: Sequence[Zero] = ()) -> Any:
        """A `ProductModel` or, in a box, a `BoxModel`, of a fixed, public seed."""
        from admeasure.families.products.optimise import first_rows

        P = first_rows(Layout.of(domain), rows, self.how.shape)
        if self.how.shape == "box":
            return BoxModel(domain, P, total)
        return ProductModel(domain, P, total, tuple(zeros), self.accelerator)

    def update(self, model: R, log: Sequence[Measurement]) -> R:
        from admeasure.families.products.optimise import minimise

        start = model.P if model.placed is None else model.placed.P
        return replace(model, P=minimise(start, model.layout, log, model.total, self.how))
