"""How the curator reads the exact answers that a streamed score asks for, a few ahead.

Private, like everything it reads; nothing is released. A query is read as `truth` keeps it: dense
where it is small, else as the cells that occur.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, final

import numpy as np

from admeasure.domain import Columns
from admeasure.joints import batches
from admeasure.privacy.memory import USUAL, Memory
from admeasure.privacy.truth import Answers, Exact, ExactCells, ExactThreshold, sub_marginals
from admeasure.queries import Query, Threshold
from admeasure.sparse import SparseCounts

if TYPE_CHECKING:
    from admeasure.sources import Source


@final
class AnswerReader:
    """Exact answers, read in the order in which they were announced. What is read together, or
    answered whole, takes at most `keep_bytes` of the memory, or is one marginal. `dense` gives a
    whole marginal."""

    def __init__(
        self,
        source: Source,
        dense: Callable[[Columns], np.ndarray],
        memory: Memory = USUAL,
    ) -> None:
        self._domain, self._source, self._dense = source.schema.domain, source, dense
        self._memory, self._most_cells = memory, memory.keep_bytes // 8
        self._waiting: list[Columns] = []
        self._held: dict[Columns, SparseCounts] = {}

    def expect(self, queries: Sequence[Query]) -> list[Columns]:
        """Say what comes, in order; the result is what will be read dense."""
        self._waiting = list(dict.fromkeys(q.columns for q in queries if not self._is_dense(q)))
        self._held = {}
        return list(dict.fromkeys(q.columns for q in queries if self._is_dense(q)))

    def __call__(self, query: Query) -> Answers:
        if self._is_dense(query):
            return Exact(query.answer(self._dense(query.columns)))
        found = self.sparse(query.columns)
        if not _is_partial(query):
            return ExactCells(found, self._domain)
        assert isinstance(query, Threshold)
        wanted = sub_marginals(query)
        parts = dict(zip(wanted, self._source.counts(wanted), strict=True))
        return ExactThreshold(query, self._domain, found, parts)

    def sparse(self, columns: Columns) -> SparseCounts:
        """The cells that occur, read with those that are expected next."""
        if columns not in self._held:
            if columns in self._waiting:
                del self._waiting[: self._waiting.index(columns)]
            most = min(self._memory.sparse_cells, self._most_cells)
            batch = next(batches([columns, *self._waiting[1:]], self._domain.cells, most))
            self._held = {}  # given back before as much again is read
            self._held = dict(zip(batch, self._read(batch), strict=True))
        return self._held[columns]

    def _read(self, batch: Sequence[Columns]) -> list[SparseCounts]:
        """Of a table in memory each marginal is a pass of its own: a few at a time in threads."""
        threads = min(len(batch), self._memory.threads, os.cpu_count() or 1)
        if threads < 2 or not self._source.in_memory:
            return self._source.sparse(batch)
        parts = [batch[i::threads] for i in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            read = list(pool.map(self._source.sparse, parts))
        return [read[i % threads][i // threads] for i in range(len(batch))]

    def _is_dense(self, query: Query) -> bool:
        most = self._memory.dense_cells if _is_partial(query) else self._memory.small_cells
        return self._domain.cells(query.columns) <= min(most, self._most_cells)


def _is_partial(query: Query) -> bool:
    """A threshold whose answers are no marginal: nearly all of them differ from zero."""
    return isinstance(query, Threshold) and query.at_least < len(query.columns)
