"""Products of tables that have a row for each cell of a separator.

Two such tables are multiplied row by row, every column of one with every column of the other, and
summed over the axes of the rows that are not kept. Nothing is copied where views will do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.tables import summed_onto


def summed_products(
    left: np.ndarray, right: np.ndarray, shape: Sequence[int], keeps: Sequence[Sequence[int]]
) -> list[np.ndarray]:
    """For each set of axes of `shape` that are kept, their cells by the columns of `left` by those
    of `right`.

    Of large tables, those that keep axes among the first ones, or among the last, are sums of one
    product that keeps all of these.
    """
    answers: list[np.ndarray | None] = [None] * len(keeps)
    columns, cells = left.shape[1] * right.shape[1], left.size + right.size
    for half in _halves(shape) if len(keeps) > 1 and cells > tuning.CACHE_CELLS else ():
        sides = [shape[i] for i in half]
        within = [t for t, kept in enumerate(keeps) if answers[t] is None and {*kept} <= {*half}]
        if len(within) > 1 and math.prod(sides) * columns <= cells:
            table = _summed_product(left, right, shape, half).reshape(*sides, columns)
            for t in within:
                onto = (*(shape[i] if i in keeps[t] else 1 for i in half), columns)
                answers[t] = summed_onto(table, onto).copy()
    return [
        _summed_product(left, right, shape, kept) if answer is None else answer
        for kept, answer in zip(keeps, answers, strict=True)
    ]


def _halves(shape: Sequence[int]) -> tuple[range, range]:
    """The first axes and the last ones, neither of many cells."""
    axes = range(len(shape))
    middle = min(axes, key=lambda h: math.prod(shape[:h]) + math.prod(shape[h:]), default=0)
    return axes[:middle], axes[middle:]


def _summed_product(
    left: np.ndarray, right: np.ndarray, shape: Sequence[int], kept: Sequence[int]
) -> np.ndarray:
    """The same for one set of axes that are kept, sorted.

    The longest run of axes that are summed is the inner one of matrix products of views, and the
    others are summed afterwards; but if that is more to sum than the tables have cells, axes are
    moved until all that are summed stand together.
    """
    runs = [list(run) for _, run in itertools.groupby(range(len(shape)), kept.__contains__)]
    cells = [math.prod(shape[i] for i in run) for run in runs]
    held = [r for r, run in enumerate(runs) if run[0] in kept]
    summed = [r for r, run in enumerate(runs) if run[0] not in kept]
    if not summed:
        return left[:, :, None] * right[:, None, :]
    inner = max(summed, key=lambda r: cells[r])
    others = [r for r in summed if r != inner]
    products = left.shape[1] * right.shape[1] * math.prod(cells) // cells[inner]
    if others and products > left.size + right.size:
        moved = [*kept, *(i for i in range(len(shape)) if i not in kept)]
        left, right = (
            table.reshape(*shape, -1).transpose(*moved, -1).reshape(table.shape)
            for table in (left, right)
        )
        return _summed_product(left, right, [shape[i] for i in moved], range(len(kept)))
    left, right = (table.reshape(*cells, -1) for table in (left, right))
    table = left.transpose(*held, *others, -1, inner) @ right.transpose(*held, *others, inner, -1)
    return table.sum(axis=tuple(range(len(held), len(runs) - 1))) if others else table
