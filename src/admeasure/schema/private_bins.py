"""Columns whose bins a run finds: the public grid they are cut from, and the recoding to bins.

A column with `bins = "private"` is open. Its table is read by the column that `fine_column` gives,
which has the cells of a public grid: one a value, or `FINE_CELLS` of equal width. A charged step
finds where bins begin on that grid, `cut` writes them into the column as edges, and `recoding` says
which bin each fine cell is part of. Everything here is public, or follows from what was paid for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from admeasure.schema import values
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.ordered import DateColumn, Ordered

FINE_CELLS = 1024


def recoding(fine: Column, coarse: Column) -> np.ndarray:
    """For each code of a column on the fine grid the code of the same column in bins."""
    assert coarse.grid is not None
    codes = coarse.grid.place_all(_starts(fine)).tolist()
    codes += [coarse.other_code] if fine.other else []
    codes += [coarse.missing_code] if fine.missing_values is not None else []
    return np.array(codes, dtype=np.int64)


def fine_column(column: Ordered) -> Ordered:
    """Cells of doubles are written as edges: so a value lies in the bin of its fine cell, also
    where rounding decides."""
    low, high = column.minimum, column.maximum
    if isinstance(low, float):
        edges = RealGrid.equal(low, high, FINE_CELLS, clamp=column.clamp).edges
        return _changed(column, bins=None, edges=tuple(edges.tolist()))
    span = (high - low).days if isinstance(low, datetime.date) else high - low
    return _changed(column, bins=None if span < FINE_CELLS else FINE_CELLS)


def fine_problems(column: Ordered) -> Iterator[str]:
    """What contradicts itself on the fine grid, as ends of the sentence "Column 'x' …"."""
    try:
        fine_column(column)
    except ValidationError as error:
        for one in error.errors():
            yield from str(one.get("ctx", {}).get("lines", one["msg"])).splitlines()


def cut(column: Ordered, cells: Sequence[int]) -> Ordered:
    """The column with bins; `cells` are where they begin on the fine grid, the first at 0. Edges
    cannot say that the last bin is the maximum alone: it joins the bin before it."""
    edges = [_written(column, start) for start in _starts(fine_column(column))[list(cells)]]
    if edges[-1] == column.maximum:
        edges.pop()
    if not edges:
        return _changed(column, bins=1)
    return _changed(column, bins=None, edges=(*edges, column.maximum))


def _starts(column: Column) -> np.ndarray:
    grid = column.grid
    assert grid is not None
    return grid.starts if isinstance(grid, OrdinalGrid) else grid.edges[:-1]


def _written(column: Ordered, ordinal: Any) -> Any:
    """A number of the grid as a schema file writes it."""
    if isinstance(column, DateColumn):
        return datetime.date.fromordinal(int(ordinal) + values.EPOCH)
    return ordinal.item()


def _changed(column: Ordered, **fields: Any) -> Ordered:
    known = {name: getattr(column, name) for name in type(column).model_fields}
    return type(column).model_validate({**known, **fields})
