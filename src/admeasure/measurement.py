"""What the curator gives out: a query, its noisy answer and the noise's scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admeasure.queries import Query


@dataclass(frozen=True, eq=False)
class Measurement:
    """`values = query(table) + N_Z(0, sigma^2)` in every cell: safe to keep and to publish."""

    query: Query
    values: np.ndarray
    sigma: float

    def __post_init__(self) -> None:
        self.values.setflags(write=False)
