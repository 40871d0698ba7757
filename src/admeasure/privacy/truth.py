"""The exact answers of queries while the curator chooses among them, in blocks of bounded memory.

Everything here is private: the curator makes it, keeps it and lends it to a score while it chooses.
Nothing is released.

A query has answers for all its cells or targets, numbered in C order. Those of a marginal with many
cells are kept as the cells that occur; those of a threshold as a whole array where it is small,
else as the sub-marginals of which every block is summed when it is asked for (`queries.threshold`
has the formula). So no array has more numbers than a block, or than a sub-marginal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import combinations
from math import comb
from typing import Any, Protocol, TypeVar, final

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.privacy.memory import DEVICE_BYTES, HOST_BYTES
from admeasure.queries import Cell, Query, Threshold, ThresholdCell
from admeasure.sparse import SparseCounts

T = TypeVar("T")


class Answers(Protocol):
    """The exact answers of one query."""

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def block(self, low: int, high: int) -> np.ndarray:
        """The answers low … high - 1, int64, the caller's own."""
        ...

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions, ascending, and values of those that are not zero."""
        ...


@final
class Exact:
    """All answers, flat."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray) -> None:
        small = values.size == 0 or values.max() < 2**31
        self.values = np.ravel(values).astype(np.int32 if small else np.int64)

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def block(self, low: int, high: int) -> np.ndarray:
        return self.values[low:high].astype(np.int64)

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(self.values)
        return places, self.values[places]


@final
class ExactCells:
    """The answers of a marginal: the cells that occur, all others zero."""

    __slots__ = ("_counts", "_places", "size")

    def __init__(self, found: SparseCounts, domain: Domain) -> None:
        self.size = domain.cells(found.columns)
        places = found.positions(domain)
        self._places = places.astype(np.int32) if self.size < 2**31 else places
        small = found.counts.size == 0 or found.counts.max() < 2**31
        self._counts = found.counts.astype(np.int32 if small else np.int64)

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + self._counts.nbytes

    def block(self, low: int, high: int) -> np.ndarray:
        first, last = np.searchsorted(self._places, [low, high])
        made = np.zeros(high - low, np.int64)
        made[self._places[first:last] - low] = self._counts[first:last]
        return made

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        return self._places, self._counts


@final
class ExactThreshold:
    """The answers of a threshold, summed from sub-marginals for each block."""

    def __init__(
        self,
        query: Threshold,
        domain: Domain,
        whole: SparseCounts,
        parts: Mapping[Columns, np.ndarray],
    ) -> None:
        """`parts`: the sub-marginals on at least r but not all columns, whole."""
        self._shape, r, k = query.shape(domain), query.at_least, len(query.columns)
        self.size = domain.cells(query.columns)
        self._whole, self._sign = ExactCells(whole, domain), _coefficient(k, r)
        self._parts = []
        for columns, table in parts.items():
            axes = [query.columns.index(c) for c in columns]
            self._parts.append((_coefficient(len(axes), r), axes, Exact(table).values))

    @property
    def nbytes(self) -> int:
        return self._whole.nbytes + sum(table.nbytes for _, _, table in self._parts)

    def block(self, low: int, high: int) -> np.ndarray:
        made = self._whole.block(low, high)
        made *= self._sign
        codes = np.unravel_index(np.arange(low, high), self._shape)
        for coefficient, axes, table in self._parts:
            shape = tuple(self._shape[a] for a in axes)
            places = np.ravel_multi_index(tuple(codes[a] for a in axes), shape)
            made += coefficient * table[places].astype(np.int64)
        return made

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        values = self.block(0, self.size)
        places = np.flatnonzero(values)
        return places, values[places]


def _coefficient(i: int, r: int) -> int:
    return (-1) ** (i - r) * comb(i - 1, r - 1)


def sub_marginals(query: Threshold) -> list[Columns]:
    """The sets of columns of which `ExactThreshold` needs whole tables."""
    k = len(query.columns)
    return [c for i in range(query.at_least, k) for c in combinations(query.columns, i)]


def of_cells(query: Cell | ThresholdCell, found: SparseCounts) -> np.ndarray:
    """The exact answer of a single query, from the cells that occur of its marginal."""
    agree = (found.codes == np.asarray(query.codes)).sum(axis=1)
    r = query.at_least if isinstance(query, ThresholdCell) else len(query.columns)
    return np.asarray(found.counts[agree >= r].sum(), np.int64)


@final
class ExactAnswers:
    """Exact answers of many queries: made when asked for, kept as far as they fit, and the last."""

    def __init__(
        self,
        make: Callable[[Query], Answers],
        keep_bytes: int = HOST_BYTES,
        *,
        device_bytes: int = DEVICE_BYTES,
    ) -> None:
        self._make, self._keep_bytes, self._device_bytes = make, keep_bytes, device_bytes
        self._kept: dict[Query, Answers] = {}
        self._bytes = 0
        self._copies: dict[Hashable, Any] = {}
        self._copied_bytes = 0
        self._last: tuple[Query, Answers] | None = None

    def of(self, query: Query) -> Answers:
        if query in self._kept:
            return self._kept[query]
        if self._last is not None and self._last[0] == query:
            return self._last[1]
        self._last = None  # given back before as much again is made
        found = self._make(query)
        if self._bytes + found.nbytes <= self._keep_bytes:
            self._kept[query] = found
            self._bytes += found.nbytes
        else:
            self._last = query, found
        return found

    def copied(self, key: Hashable, make: Callable[[], T], nbytes: Callable[[T], int]) -> T:
        """What `make` makes of the answers (copies on a device), kept under `key` if it fits."""
        if key in self._copies:
            return self._copies[key]
        made = make()
        if self._copied_bytes + nbytes(made) <= self._device_bytes:
            self._copies[key] = made
            self._copied_bytes += nbytes(made)
        return made
