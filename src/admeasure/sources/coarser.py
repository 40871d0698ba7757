"""A table in coarser levels than it was read in.

A run that buys its domain reads the table once, on a fine public grid. When the bins are known the
curator goes on with the same rows by a coarser schema (`Source.by`): where codes are at hand their
fine codes are exchanged for coarse ones, elsewhere fine cells of one bin are added up (`AddedUp`).
Which rows of a unit are kept was decided when the table was read, so a unit still has at most
`max_rows_per_unit` rows, and every sensitivity on the coarse domain holds. Nothing is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from admeasure.domain import Columns
from admeasure.joints import batches
from admeasure.schema.model import Schema
from admeasure.schema.private_bins import recoding
from admeasure.sparse import SparseCounts

if TYPE_CHECKING:
    from admeasure.sources import Source

Recodings = Mapping[str, np.ndarray]
"""For some columns the coarse code of each fine one."""

DENSE_CELLS = 1 << 22
"""Fine marginals of at most so many cells are counted whole, others as the cells that occur."""

PASS_CELLS = 1 << 25
"""Fine cells that are counted at a time, or one marginal: 256 MB."""

SPARSE_TOGETHER = 16
"""Large marginals that are read at a time, each of which may have a cell for every row."""


def recodings(fine: Schema, coarse: Schema) -> Recodings:
    found = ((column, coarse.column(column.name)) for column in fine.columns)
    return {a.name: recoding(a, b).astype(b.dtype) for a, b in found if a != b}


def recoded(codes: Mapping[str, np.ndarray], by: Recodings) -> dict[str, np.ndarray]:
    return {name: by[name][codes[name]] if name in by else codes[name] for name in codes}


@final
class AddedUp:
    """Counts of `source` by a schema whose columns are those of the source in coarser levels, for a
    source that counts where the table lies."""

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        dense_cells: int = DENSE_CELLS,
        pass_cells: int = PASS_CELLS,
    ) -> None:
        self.schema, self._source = schema, source
        self._dense_cells, self._pass_cells = dense_cells, pass_cells
        self._codes = recodings(source.schema, schema)

    @property
    def in_memory(self) -> bool:
        return self._source.in_memory

    def close(self) -> None:
        self._source.close()

    def by(self, schema: Schema) -> Source:
        return AddedUp(self._source, schema)

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        cells, found = self._source.schema.domain.cells, dict.fromkeys(marginals, np.empty(0))
        small = [m for m in found if cells(m) <= self._dense_cells]
        large = [m for m in found if cells(m) > self._dense_cells]
        for some in batches(small, cells, self._pass_cells):
            for marginal, table in zip(some, self._source.counts(some), strict=True):
                found[marginal] = self._added_up(marginal, table)
        for some in batches(large, lambda _: 1, SPARSE_TOGETHER):
            for marginal, held in zip(some, self.sparse(some), strict=True):
                found[marginal] = held.dense(self.schema.domain)
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
