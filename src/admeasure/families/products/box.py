"""Rows in a box: every level of every row any number from -1 to 1.

RAP as it was first published (Aydore et al. 2021, first version), and as Liu, Vietri and Wu (2021,
D.3) ran it: rows are clipped to the box after each step, and nothing makes the levels of a column
sum to 1. So answers need not agree with each other: what is believed of one level says nothing of
the others, which the paper gives as the reason for its errors. There is no distribution and there
are no rows; answers are clipped to what can be, 0 to all rows, as the paper's are.

The model's answers are a function of measurements alone and may be published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes, no_rows
from admeasure.families.products.tensor import Layout, ProductAnswers, marginals
from admeasure.measurement import Measurement
from admeasure.queries import Targets
from admeasure.schema import Zero

if TYPE_CHECKING:
    from admeasure.families.products.optimise import FitOptions


@dataclass(frozen=True, eq=False)
class BoxModel:
    """`P` as in `admeasure.families.products`, but within -1 and 1 instead of on the simplex."""

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


@dataclass(frozen=True)
class BoxFamily:
    """Rows fitted by gradients to everything measured, from where the last round left them."""

    how: FitOptions

    def init(self, domain: Domain, total: float, rows: int, zeros: Sequence[Zero] = ()) -> BoxModel:
        """Uniform numbers of a fixed, public seed. Zeros are not kept out of answers."""
        from admeasure.families.products.optimise import first_rows

        return BoxModel(domain, first_rows(Layout.of(domain), rows, "box"), total)

    def update(self, model: BoxModel, log: Sequence[Measurement]) -> BoxModel:
        from admeasure.families.products.optimise import minimise

        return replace(model, P=minimise(model.P, model.layout, log, model.total, self.how))
