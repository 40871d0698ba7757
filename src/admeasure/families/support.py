"""A probability for each of a list of records: the distinct rows of a public table, say.

Whatever is not listed has probability zero and cannot be learned. Any marginal or threshold is
answered by weighted counting; memory is that of the codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes, ImpossibleError
from admeasure.families.rounding import rounded_counts
from admeasure.families.tally import Tally
from admeasure.queries import Query
from admeasure.schema import Zero

MAX_MEMBERS = 512
"""Counting queries whose records are remembered."""


class Records:
    """Records by column, as codes, with the indices that answering them needs."""

    def __init__(self, codes: Mapping[str, np.ndarray], domain: Domain) -> None:
        self.codes = {c: np.ascontiguousarray(codes[c]) for c in domain.columns}
        self.domain = domain
        self._members: dict[Query, np.ndarray] = {}

    @cached_property
    def tally(self) -> Tally:
        return Tally(self.codes, self.domain)

    def members(self, query: Query) -> np.ndarray:
        """Positions of the records that a counting query counts."""
        if query not in self._members:
            table = query.spread(np.asarray(1.0), self.domain)
            found = np.flatnonzero(table.ravel()[self.tally.index(query.columns)])
            if len(self._members) >= MAX_MEMBERS:
                return found
            self._members[query] = found
        return self._members[query]


@dataclass(frozen=True, eq=False)
class SupportModel:
    """`weights[i]` is the believed share of rows equal to the i-th record."""

    records: Records
    weights: np.ndarray
    total: float
    kind: ClassVar[str] = "support"
    adds_up: ClassVar[bool] = True

    @property
    def domain(self) -> Domain:
        return self.records.domain

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        return self.records.tally.counts(self.total * self.weights, columns)

    def project(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        return self.records.tally.count(weights, columns)

    def lifted(self, table: np.ndarray, columns: Columns) -> np.ndarray:
        return np.ravel(table)[self.records.tally.index(columns)]

    def members(self, query: Query) -> Any | None:
        return self.records.members(query) if query.shape(self.domain) == () else None

    def reweighted(self, weights: np.ndarray) -> Self:
        return replace(self, weights=weights)

    def without(self, cells: Sequence[Zero]) -> SupportModel:
        left = self.weights.copy()
        for zero in cells:
            left[zero.mask[tuple(self.records.codes[c] for c in zero.columns)]] = 0.0
        share = float(left.sum())
        if share <= 0:
            raise ImpossibleError
        return replace(self, weights=left / share, total=self.total * share)

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        chosen = np.repeat(np.arange(self.weights.size), rounded_counts(self.weights, rows, rng))
        rng.shuffle(chosen)
        return {c: codes[chosen].astype(np.int64) for c, codes in self.records.codes.items()}

    def arrays(self) -> Mapping[str, np.ndarray]:
        stacked = np.stack([self.records.codes[c] for c in self.domain.columns])
        return {"records": stacked, "weights": self.weights, "total": np.asarray(self.total)}

    @classmethod
    def load(cls, domain: Domain, arrays: Mapping[str, np.ndarray]) -> SupportModel:
        records, weights = np.asarray(arrays["records"]), np.asarray(arrays["weights"], float)
        total = float(arrays["total"])
        sound = (
            records.dtype.kind in "iu"
            and records.shape == (len(domain), weights.size)
            and weights.ndim == 1
            and weights.size > 0
            and np.all(weights >= 0)
            and math.isfinite(total)
            and math.isclose(weights.sum(), 1.0, rel_tol=1e-6)
            and np.all(records >= 0)
            and np.all(records < np.array(domain.levels)[:, None])
        )
        if not sound:
            raise ReleaseError("model.npz does not hold weights on records of the schema's domain.")
        codes = dict(zip(domain.columns, records, strict=True))
        return cls(Records(codes, domain), weights, total)
