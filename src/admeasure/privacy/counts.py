"""The exact counts that a curator's steps need: read many at a time, kept as far as they fit.

Private, like everything that is read; nothing is released. Nothing is read before it is asked for:
a step that is replayed reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from admeasure.domain import Columns
from admeasure.joints import batches
from admeasure.privacy.memory import USUAL, Memory

if TYPE_CHECKING:
    from admeasure.sources import Source


@final
class KeptCounts:
    """What is kept of a source's counts between steps."""

    def __init__(self, source: Source, memory: Memory = USUAL) -> None:
        self.source, self.domain = source, source.schema.domain
        self._keep_cells = memory.keep_bytes // 8
        part = 8 if source.in_memory else 1  # there, another pass costs little
        self.batch_cells = min(memory.batch_cells, self._keep_cells // part)
        self.kept: dict[Columns, np.ndarray] = {}
        self._expected: dict[Columns, None] = {}

    def expect(self, marginals: Sequence[Columns]) -> None:
        """Have these counted with the next that are read. Of a table in memory, where another pass
        costs little, a few are worth it and many not."""
        cells = sum(map(self.domain.cells, marginals))
        if cells <= self.batch_cells or not self.source.in_memory:
            self._expected |= dict.fromkeys(marginals)

    def read(self, marginals: Sequence[Columns]) -> None:
        """Count these now, in one pass, and with them what is expected; what passes the limit of
        what is kept is left for later."""
        missing, room = [], self._keep_cells - sum(table.size for table in self.kept.values())
        for columns in dict.fromkeys((*marginals, *self._expected)):
            if columns not in self.kept and self.domain.cells(columns) <= room:
                missing.append(columns)
                room -= self.domain.cells(columns)
        self._expected = {}
        if missing:
            self.kept.update(zip(missing, self.source.counts(missing), strict=True))

    def of_step(self, marginals: Sequence[Columns]) -> StepCounts:
        """The counts of one step, which will ask for these, in this order."""
        return StepCounts(self, marginals)


@final
class StepCounts:
    """Counts in the order in which a step asks for them: kept ones, or a batch at a time."""

    def __init__(self, counts: KeptCounts, marginals: Sequence[Columns]) -> None:
        self._counts = counts
        self._waiting = list(dict.fromkeys(marginals))
        self._held: dict[Columns, np.ndarray] = {}

    def of(self, columns: Columns) -> np.ndarray:
        kept = self._counts.kept
        if columns not in kept and columns not in self._held:
            self._counts.read(self._from(columns))
        if columns in kept:
            return kept[columns]
        if columns not in self._held:
            cells, most = self._counts.domain.cells, self._counts.batch_cells
            batch = next(batches(self._from(columns), cells, most))
            self._held = {}  # given back before as much again is read
            self._held = dict(zip(batch, self._counts.source.counts(batch), strict=True))
        return self._held[columns]

    def _from(self, columns: Columns) -> list[Columns]:
        """These and what is announced after them; what was passed, or never announced, is read
        before what is waiting."""
        if columns not in self._waiting:
            return [columns, *self._waiting]
        del self._waiting[: self._waiting.index(columns)]
        return self._waiting
