"""Values of rows that keep an `[[order]]`: drawn anew within their levels until they do.

Levels that no order allows together are structural zeros (`admeasure.schema.zeros`), so that every
row has values within its levels that ascend. Rows whose values do not are drawn again; after
`DRAWS` times they get the least values that ascend. Nothing here reads the private table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.zeros import level_ends, order_pairs

if TYPE_CHECKING:
    from admeasure.schema.model import Schema

DRAWS = 32
Pairs = list[tuple[str, str]]
Draw = Callable[[Column, np.ndarray], np.ndarray]
"""Values of codes of a column."""


def put_in_order(
    schema: Schema, codes: Mapping[str, np.ndarray], values: dict[str, np.ndarray], draw: Draw
) -> None:
    """Change the values of rows that break an order, in place. Rows with codes that no order
    allows, which no model has, stay as they are."""
    pairs = [(a, b) for a, b in order_pairs(schema.order) if a in codes and b in codes]
    names = list(dict.fromkeys([a for a, _ in pairs] + [b for _, b in pairs]))
    columns = {name: schema.column(name) for name in names}
    rows = {name: np.asarray(codes[name]).astype(np.int64) for name in names}
    regular = {name: rows[name] < columns[name].regular for name in names}
    wrong = np.zeros(len(next(iter(rows.values()), ())), dtype=bool)
    for _ in range(DRAWS):
        wrong = _breaking(pairs, regular, values)
        if not wrong.any():
            return
        for name in names:
            values[name][wrong] = draw(columns[name], rows[name][wrong])
    _least(pairs, columns, rows, regular, values, _breaking(pairs, regular, values))


def _breaking(
    pairs: Pairs,
    regular: Mapping[str, np.ndarray],
    values: Mapping[str, np.ndarray],
) -> np.ndarray:
    wrong = np.zeros(len(next(iter(regular.values()), ())), dtype=bool)
    for a, b in pairs:
        both = np.flatnonzero(regular[a] & regular[b])
        wrong[both[(values[a][both] > values[b][both]).astype(bool)]] = True
    return wrong


def _least(
    pairs: Pairs,
    columns: Mapping[str, Column],
    codes: Mapping[str, np.ndarray],
    regular: Mapping[str, np.ndarray],
    values: dict[str, np.ndarray],
    wrong: np.ndarray,
) -> None:
    """The least value of each level that is not below those of the columns before it. `columns`
    come in an order in which a column is before those it is at most."""
    numbers: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        lows, highs = level_ends(column)
        place = np.where(regular[name], codes[name], 0)
        least = lows[place]
        for a in (a for a, b in pairs if b == name):
            least = np.where(regular[a], np.maximum(least, numbers[a]), least)
        numbers[name] = np.minimum(least, highs[place])
        chosen = wrong & regular[name]
        # Numbers as they are: rounded, one could pass the next column's.
        exact = numbers[name][chosen]
        values[name][chosen] = exact if column.type == "number" else column.values_of(exact)
