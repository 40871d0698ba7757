"""A probability for each of a list of records: the distinct rows of a public table, say.

Whatever is not listed has probability zero and cannot be learned. Any marginal or threshold is
answered by weighted counting; memory is that of the codes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import ReleaseError
from admeasure.families import Codes, ImpossibleError, forbidden
from admeasure.families.rounding import rounded_counts
from admeasure.joints import homes, summed
from admeasure.queries import Query
from admeasure.schema import Zero

MAX_MEMBERS = 512
"""Counting queries whose records are remembered."""

JOINT_CELLS = 4096
"""A joint this small stays in the first-level cache while it is counted."""

KEPT_BYTES = 1 << 27
"""Combined codes that are kept because updates ask for them again and again."""

_THREADS = min(2, os.cpu_count() or 1)
_WORTH_THREADS = 1 << 18


class Records:
    """Records by column, as codes, and counted with weights.

    Codes are kept as they come (one or two bytes a cell); the combined code of a marginal is made
    when it is needed, with the code of a common beginning shared between neighbours. Marginals are
    counted through small joints (`admeasure.joints`), on two threads: bincount gives up the
    interpreter lock.

    >>> records = Records({"a": np.array([0, 1, 1]), "b": np.array([0, 0, 1])},
    ...                   Domain(("a", "b"), (2, 2)))
    >>> records.counts(np.array([1.0, 2.0, 4.0]), [("a",), ("a", "b")])[0].tolist()
    [1.0, 6.0]
    """

    def __init__(self, codes: Mapping[str, np.ndarray], domain: Domain) -> None:
        self.codes = {c: np.ascontiguousarray(codes[c]) for c in domain.columns}
        self.domain = domain
        self.rows = len(next(iter(codes.values())))
        self._members: dict[Query, np.ndarray] = {}
        self._kept: dict[Columns, np.ndarray] = {}
        self._homes = lru_cache(maxsize=8)(lambda marginals: homes(domain, marginals, JOINT_CELLS))

    def members(self, query: Query) -> np.ndarray:
        """Positions of the records that a counting query counts."""
        if query not in self._members:
            table = query.spread(np.asarray(1.0), self.domain)
            found = np.flatnonzero(table.ravel()[self.index(query.columns)])
            if len(self._members) >= MAX_MEMBERS:
                return found
            self._members[query] = found
        return self._members[query]

    def index(self, columns: Columns) -> np.ndarray:
        """The place of each row in the flattened table of a marginal."""
        if columns in self._kept:
            return self._kept[columns]
        index = np.zeros(self.rows, dtype=np.intp)
        for column in columns:
            index *= self.domain[column]
            index += self.codes[column]
        if (len(self._kept) + 1) * index.nbytes <= KEPT_BYTES:
            self._kept[columns] = index
        return index

    def count(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        """One marginal."""
        return _table(self.index(columns), weights, columns, self.domain)

    def counts(self, weights: np.ndarray, marginals: Sequence[Columns]) -> list[np.ndarray]:
        """Many marginals."""
        home = self._homes(tuple(marginals))
        joints = sorted(set(home.values()))
        if self.rows * len(joints) < _WORTH_THREADS or _THREADS == 1:
            tables = self._joints(weights, joints)
        else:
            size = -(-len(joints) // _THREADS)
            parts = [joints[i : i + size] for i in range(0, len(joints), size)]
            with ThreadPoolExecutor(_THREADS) as pool:
                done = pool.map(lambda part: self._joints(weights, part), parts)
                tables = {joint: table for part in done for joint, table in part.items()}
        return [summed(tables[home[c]], home[c], c) for c in marginals]

    def _joints(self, weights: np.ndarray, joints: Sequence[Columns]) -> dict[Columns, np.ndarray]:
        """Tables of joints in lexicographic order, the combined code of a common beginning
        computed once."""
        tables = {}
        stack: list[tuple[str, np.ndarray]] = [("", np.zeros(self.rows, dtype=np.intp))]
        for joint in joints:
            common = 0
            while (
                common < min(len(stack) - 1, len(joint)) and stack[common + 1][0] == joint[common]
            ):
                common += 1
            del stack[common + 1 :]
            for column in joint[common:]:
                index = stack[-1][1] * self.domain[column]
                index += self.codes[column]
                stack.append((column, index))
            tables[joint] = _table(stack[-1][1], weights, joint, self.domain)
        return tables


def _table(index: np.ndarray, weights: np.ndarray, columns: Columns, domain: Domain) -> np.ndarray:
    flat = np.bincount(index, weights=weights, minlength=domain.cells(columns))
    return flat.reshape(domain.shape(columns))


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
        return self.records.counts(self.total * self.weights, columns)

    def project(self, weights: np.ndarray, columns: Columns) -> np.ndarray:
        return self.records.count(weights, columns)

    def lifted(self, table: np.ndarray, columns: Columns) -> np.ndarray:
        return np.ravel(table)[self.records.index(columns)]

    def members(self, query: Query) -> Any | None:
        return self.records.members(query) if query.shape(self.domain) == () else None

    def reweighted(self, weights: np.ndarray) -> Self:
        return replace(self, weights=weights)

    def without(self, cells: Sequence[Zero]) -> SupportModel:
        left = self.weights.copy()
        left[forbidden(self.records.codes, cells)] = 0.0
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
