"""A table in coarser levels than it was read in. Private, like every source; nothing is released.

A run that buys its domain reads the table once, on a fine public grid. When the bins are known the
curator goes on with this view of the same source: fine cells of one bin are added up. Which rows
of a unit are kept was decided when the table was read, so a unit still has at most
`max_rows_per_unit` rows here, and every sensitivity on the coarse domain holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from admeasure.domain import Columns
from admeasure.schema import Schema
from admeasure.schema.private_bins import recoding
from admeasure.sparse import SparseCounts

if TYPE_CHECKING:
    from admeasure.sources import Source

DENSE_CELLS = 1 << 22
"""Fine marginals of at most so many cells are counted whole, others as the cells that occur."""


@final
class Recoded:
    """Counts of `source` by `schema`, whose columns are those of the source in coarser levels."""

    def __init__(self, source: Source, schema: Schema, *, dense_cells: int = DENSE_CELLS) -> None:
        self.schema, self._source, self._dense_cells = schema, source, dense_cells
        self._codes = {
            column.name: recoding(column, schema.column(column.name))
            for column in source.schema.columns
            if column != schema.column(column.name)
        }

    @property
    def in_memory(self) -> bool:
        return self._source.in_memory

    def close(self) -> None:
        self._source.close()

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        fine, found = self._source.schema.domain, dict.fromkeys(marginals, np.empty(0))
        small = [m for m in found if fine.cells(m) <= self._dense_cells]
        large = [m for m in found if fine.cells(m) > self._dense_cells]
        for marginal, table in zip(small, self._source.counts(small), strict=True):
            found[marginal] = self._added_up(marginal, table)
        for marginal, cells in zip(large, self.sparse(large), strict=True):
            found[marginal] = cells.dense(self.schema.domain)
        return [found[marginal].copy() for marginal in marginals]

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        return [self._merged(found) for found in self._source.sparse(marginals)]

    def _added_up(self, marginal: Columns, table: np.ndarray) -> np.ndarray:
        for axis, name in enumerate(marginal):
            if name in self._codes:
                shape = list(table.shape)
                shape[axis] = self.schema.domain[name]
                coarse = np.zeros(shape, np.int64)
                into, of = np.moveaxis(coarse, axis, 0), np.moveaxis(table, axis, 0)
                np.add.at(into, self._codes[name], of)
                table = coarse
        return table

    def _merged(self, found: SparseCounts) -> SparseCounts:
        codes = found.codes.astype(np.int64)
        for i, name in enumerate(found.columns):
            if name in self._codes:
                codes[:, i] = self._codes[name][codes[:, i]]
        distinct, places = np.unique(codes, axis=0, return_inverse=True)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, places.ravel(), found.counts)
        return SparseCounts(found.columns, distinct.astype(found.codes.dtype), counts)
