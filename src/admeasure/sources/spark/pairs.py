"""Cells that occur and how often, as they travel between Spark's tasks.

Exact and private, like every count of a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from admeasure.sources.count import BLOCK_ROWS
from admeasure.sparse import LARGEST_POSITION

_CELLS = 32_768
"""Cells in one message."""


class Pairs:
    """Cells that occur, and how often. A cell is one or more whole numbers (`words`), each the
    position among the combinations of some columns, so that any number of columns fits."""

    def __init__(self, words: np.ndarray, counts: np.ndarray, shape: tuple[int, ...] = ()) -> None:
        self.words = words
        self.counts = counts
        self._shape = shape
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Pairs:
        width = len(_grouped(shape))
        return cls(np.zeros((width, 0), np.int64), np.zeros(0, np.int64), shape)

    @classmethod
    def unpack(cls, cells: bytes | None, counts: bytes) -> Pairs:
        known = np.frombuffer(counts, "<i8")
        return cls(np.frombuffer(cells or b"", "<i8").reshape(-1, len(known)), known)

    def add(self, codes: Sequence[np.ndarray], rows: int) -> None:
        words = []
        for group in _grouped(self._shape):
            word = np.zeros(rows, np.int64)
            for axis in group:
                word *= self._shape[axis]
                word += codes[axis]
            words.append(word)
        self._take(*_distinct(np.stack(words), np.ones(rows, np.int64)))

    def _take(self, words: np.ndarray, counts: np.ndarray) -> None:
        self._pending.append((words, counts))
        self._waiting += len(counts)
        if self._waiting > max(len(self.counts), 2 * BLOCK_ROWS):  # a merge costs what it holds
            self._settle()

    def _settle(self) -> None:
        if self._pending:
            words = np.concatenate([self.words, *(w for w, _ in self._pending)], axis=1)
            counts = np.concatenate([self.counts, *(c for _, c in self._pending)])
            self.words, self.counts = _distinct(words, counts)
            self._pending, self._waiting = [], 0

    def merged(self, other: Pairs) -> Pairs:
        self._take(other.words, other.counts)
        return self

    def rows(self, part: int) -> Iterator[tuple]:
        """For the reduction, as many cells at a time as a message should hold. Parts of pairs are
        the negative ones."""
        self._settle()
        for start in range(0, len(self.counts), _CELLS):
            some = slice(start, start + _CELLS)
            words = np.ascontiguousarray(self.words[:, some])
            yield -part - 1, words.astype("<i8").tobytes(), self.counts[some].tobytes()

    def codes(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(cells, columns) in lexicographic order, and the counts."""
        self._settle()
        codes = np.empty((len(self.counts), len(shape)), np.uint16)
        for group, word in zip(_grouped(shape), self.words, strict=True):
            rest = word.copy()
            for axis in reversed(group):
                rest, codes[:, axis] = np.divmod(rest, shape[axis])
        return codes, self.counts


def _grouped(shape: tuple[int, ...]) -> list[list[int]]:
    """Runs of axes whose combinations can be numbered in one word."""
    groups: list[list[int]] = [[]]
    size = 1
    for axis, levels in enumerate(shape):
        if size * levels > LARGEST_POSITION:
            groups.append([])
            size = 1
        groups[-1].append(axis)
        size *= levels
    return groups


def _distinct(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each cell once, in order, with the sum of its counts."""
    if not len(counts):
        return words, counts
    order = np.lexsort(words[::-1])
    words, counts = words[:, order], counts[order]
    is_new = np.append(True, (words[:, 1:] != words[:, :-1]).any(axis=0))
    return words[:, is_new], np.add.reduceat(counts, np.flatnonzero(is_new))
