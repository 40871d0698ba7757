"""Noisy answers and nothing else: no distribution, so no rows.

For baselines that measure every marginal of the workload. A marginal is answered from the
measured ones that contain it, each projected to the simplex (no negative counts, the believed
total), weighted by their precision on it; what was not measured is not answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError, UsageError
from admeasure.families import Codes, no_rows
from admeasure.schema import Zero


def to_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest array, in least squares, with no negative entry and the given sum."""
    flat = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(flat > excess)[-1]
    return np.maximum(values - excess[last], 0.0)


@dataclass(frozen=True, eq=False)
class AnswersModel:
    """Tables of answers by columns, with the variance of one cell."""

    domain: Domain
    total: float
    tables: Mapping[Columns, np.ndarray]
    variances: Mapping[Columns, float]
    kind: ClassVar[str] = "answers"
    adds_up: ClassVar[bool] = False

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        return [self._marginal(c) for c in columns]

    def _marginal(self, columns: Columns) -> np.ndarray:
        if not self.tables:
            return np.zeros(self.domain.shape(columns))
        estimate, precision = np.zeros(self.domain.shape(columns)), 0.0
        for measured, table in self.tables.items():
            if set(columns) <= set(measured):
                drop = tuple(i for i, c in enumerate(measured) if c not in columns)
                summed = math.prod(table.shape[i] for i in drop)
                weight = 1.0 / (summed * self.variances[measured])
                estimate += weight * table.sum(axis=drop)
                precision += weight
        if not precision:
            raise UsageError(
                f"This release holds answers for measured marginals only, and none contains "
                f"{', '.join(columns)} together. Put that marginal into the workload, or use a "
                "mechanism with a model, such as aim."
            )
        return estimate / precision

    def without(self, cells: Sequence[Zero]) -> AnswersModel:
        raise no_rows()

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        raise no_rows()

    def arrays(self) -> Mapping[str, np.ndarray]:
        names = list(self.tables)
        return {
            "total": np.asarray(self.total),
            "columns": np.array(["\x1f".join(c) for c in names], dtype=np.str_),
            "variances": np.array([self.variances[c] for c in names]),
            **{f"table_{i}": self.tables[c] for i, c in enumerate(names)},
        }

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> AnswersModel:
        names = [tuple(str(c).split("\x1f")) for c in arrays["columns"]]
        tables = {c: np.asarray(arrays[f"table_{i}"], float) for i, c in enumerate(names)}
        for columns, table in tables.items():
            known = all(c in domain for c in columns)
            if not known or table.shape != domain.shape(columns) or not np.all(np.isfinite(table)):
                raise ReleaseError("model.npz holds a table that does not fit the schema.")
        variances = dict(zip(names, map(float, arrays["variances"]), strict=True))
        return cls(domain, float(arrays["total"]), tables, variances)
