"""Columns whose bins a run finds: the public grid they are cut from, and the recoding to bins.

A column with `bins = "private"` is open. Its table is read by the column that `fine_column` gives,
which has the leaves of a public grid (`admeasure.schema.leaves`). A charged step finds where bins
begin on that grid, `cut` writes them into the column as edges, and `recoding` says which bin each
leaf is part of. Everything here is public, or follows from what was paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from admeasure.errors import SchemaError
from admeasure.schema import leaves, values
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid
from admeasure.schema.inside import Inside
from admeasure.schema.ordered import Ordered


def recoding(fine: Column, coarse: Column) -> np.ndarray:
    """For each code of a column as it was read the code of the same column in bins, or in levels of
    its hierarchy."""
    if coarse.grid is None:
        codes = [coarse.code_of(value) for value in fine.listed or ()]
    else:
        codes = coarse.grid.place_all(_starts(fine)).tolist()
    codes += [coarse.other_code] if fine.other else []
    codes += [coarse.missing_code] if fine.missing_values is not None else []
    return np.array(codes, dtype=np.int64)


def fine_column(column: Ordered) -> Ordered:
    """The column with a level for each leaf. Leaves are written as edges: so a value lies in the
    bin of its leaf, also where rounding decides. A leaf that is a listed missing value and nothing
    else could never occur: it is part of its neighbour."""
    starts, high = column.leaf_starts(), column.ends[1]
    kept = _with_values(starts, column.missing_read)
    closed = {"bins": None, "scale": None}
    if isinstance(high, int) and len(kept) == high - kept[0] + 1:
        low, high = _written(column, kept[0], high)
        return column.changed(**closed, minimum=low, maximum=high)
    if kept[-1] == high:
        kept.pop()
    edges = _written(column, *kept, high)
    return column.changed(**closed, minimum=None, maximum=None, edges=edges)


def _with_values(starts: Sequence[Any], missing: frozenset[int | float]) -> list[Any]:
    """The starts without those that are missing values; and the first leaf, which must begin where
    the grid does, with the one after it where it may hold nothing else."""
    if missing.isdisjoint(starts):
        return list(starts)
    found = [s for i, s in enumerate(starts) if i == 0 or s not in missing]
    if len(found) > 1 and found[0] in missing:
        found.pop(1)
    return found


def hierarchy(column: Ordered) -> tuple[np.ndarray, ...]:
    """The levels of the tree over the leaves of an open column, the coarsest first."""
    return leaves.hierarchy(_starts(column.as_read()), days=column.holds_days)


def inside_of(column: Ordered, shares: np.ndarray, counts: np.ndarray, sigma: float) -> Inside:
    """How values lie inside the bins of an open column, from the shares of its leaves, and what was
    counted of these."""
    return Inside(_starts(column.as_read()), np.asarray(shares, dtype=np.float64), counts, sigma)


def leaf_of(column: Ordered, number: int) -> int:
    """The leaf of an open column that is nearest to a number."""
    starts = _starts(column.as_read())
    return max(0, int(np.searchsorted(starts, number, side="right")) - 1)


def fine_problems(column: Ordered) -> Iterator[str]:
    """What contradicts itself on the fine grid, as ends of the sentence "Column 'x' …"."""
    try:
        column.as_read()  # which keeps it for when the table is read
    except ValidationError as error:
        for one in error.errors():
            yield from str(one.get("ctx", {}).get("lines", one["msg"])).splitlines()


def cut(column: Ordered, cells: Sequence[int]) -> Ordered:
    """The column with bins; `cells` are the leaves with which they begin, the first is 0. Edges
    cannot say that the last bin is the maximum alone: it joins the bin before it."""
    fine = column.as_read()
    high = fine.ends[1]
    starts = [s for s in _starts(fine)[list(cells)].tolist() if s < high]
    if not starts:
        return fine.changed(bins=1, edges=None)
    edges = _written(column, *starts, high)
    return fine.changed(bins=None, minimum=None, maximum=None, edges=edges)


def one_bin(column: Ordered) -> Ordered:
    """The column with one bin, where no question is about it. Without bounds that would be all
    numbers, of which rows cannot have one."""
    if column.is_endless:
        raise SchemaError(
            f"Column {values.quoted(column.name)} has private bins and no bounds, and no question "
            "of the workload is about it, so nothing says what its values may be. Give it "
            "`minimum = …` and `maximum = …`, ask about it, or leave it out of the schema."
        )
    return cut(column, [0])


def _starts(column: Column) -> np.ndarray:
    grid = column.grid
    assert grid is not None
    return grid.starts if isinstance(grid, OrdinalGrid) else grid.edges[:-1]


def _written(column: Ordered, *ordinals: Any) -> tuple[Any, ...]:
    """Numbers of the grid as a schema file writes them."""
    return tuple(values.day(int(n)) for n in ordinals) if column.holds_days else ordinals
