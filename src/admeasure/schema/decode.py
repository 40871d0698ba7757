"""Codes back to values.

A category is itself; a whole number, a number or a day is drawn within its bin, and a code of a
hierarchy within its level, by the generator given: uniformly, or as the shares of finer leaves say
where these are known. `missing` becomes None. `other` becomes the text "other" in string columns
and None in the rest, since no value stands for it. Where a column has a level that becomes None,
its array holds Python objects; else it has the type's own storage. Nothing here reads the private
table: decoding is post-processing of whatever made the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.difference import added_back
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.hierarchy import draw_leaves, parts_of_levels
from admeasure.schema.inside import Inside
from admeasure.schema.model import Schema
from admeasure.schema.rules import Number
from admeasure.schema.storage import Storage
from admeasure.schema.values import OTHER, objects
from admeasure.schema.zeros import level_ends, order_pairs

if TYPE_CHECKING:
    from admeasure.schema.model import Schema


def decode(
    schema: Schema,
    codes: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    inside: Mapping[str, Inside] | None = None,
) -> dict[str, np.ndarray]:
    """Values for the columns that have codes, in the schema's order, and for those that they
    determine.

    >>> schema = Schema.coded("toy", {"age": 3})
    >>> decode(schema, {"age": np.array([2, 0])}, np.random.default_rng(0))["age"].tolist()
    [2, 0]
    """
    chosen = {name: schema.column(name) for name in codes}
    order = [name for name in schema.names if name in chosen]
    known = inside or {}

    def drawn(column: Column, some: np.ndarray) -> np.ndarray:
        return decode_column(column, some, rng, known.get(column.name))

    values = {name: drawn(chosen[name], np.asarray(codes[name])) for name in order}
    if schema.order:
        put_in_order(schema, codes, values, drawn)
    values = added_back(schema, values)
    for name, computed in schema.computed.items():
        if set(computed.of) <= codes.keys():
            values[name] = drawn(computed.column, computed.of_rows(codes))
    return values


def decode_column(
    column: Column, codes: np.ndarray, rng: np.random.Generator, inside: Inside | None = None
) -> np.ndarray:
    """One column's values."""
    codes = codes.astype(np.int64)
    if len(codes) and not (codes.min() >= 0 and codes.max() < column.levels):
        raise ValueError(f"codes of column {column.name!r} go outside 0 … {column.levels - 1}")
    grid, regular = column.grid, codes < column.regular
    if column.of_held is not None:
        codes = _drawn_leaves(column.of_held, codes, regular, rng, inside)
    if grid is None:
        return _level_values(column)[codes]
    draw = grid.draw if inside is None else partial(inside.draw, grid)
    return _drawn(column, grid, draw(np.where(regular, codes, 0), rng), regular)


def _drawn_leaves(
    of_leaves: np.ndarray,
    codes: np.ndarray,
    regular: np.ndarray,
    rng: np.random.Generator,
    inside: Inside | None,
) -> np.ndarray:
    """The place in `Column.held` of a value of each regular level; the other levels are after."""
    parts = parts_of_levels(of_leaves, None if inside is None else inside.shares)
    found = codes - of_leaves.max() - 1 + len(of_leaves)
    found[regular] = draw_leaves(of_leaves, parts, codes[regular], rng)
    return found


def _level_values(column: Column) -> np.ndarray:
    """The values that a table can hold, of a column that lists them, and what its other levels
    become."""
    values: list[Any] = list(column.held or ())
    texts = column.type == "string"
    values += [OTHER if texts else None] * column.other
    values += [None] * (column.missing_values is not None)
    return objects(values) if texts or column.levels > column.regular else np.array(values)


def _drawn(
    column: Column, grid: OrdinalGrid | RealGrid, numbers: np.ndarray, regular: np.ndarray
) -> np.ndarray:
    """The drawn numbers as values, where a regular level was asked for."""
    missing = column.rules[Storage.TEXT].missing
    result = column.values_of(_without_missing(missing, grid, numbers))
    if column.levels == column.regular:
        return result
    result = result.astype(object)
    result[~regular] = None
    return result


def _without_missing(
    missing: frozenset[Number], grid: OrdinalGrid | RealGrid, values: np.ndarray
) -> np.ndarray:
    """A value drawn in a bin must not be one that the schema calls missing."""
    for number in sorted(v for v in missing if grid.low <= v <= grid.high):
        hit = values == number
        if hit.any():
            values[hit] = _instead(missing, grid, number)
    return values


def _instead(missing: frozenset[Number], grid: OrdinalGrid | RealGrid, number: float) -> float:
    """Another value of the same bin. Validation made sure that bins of whole numbers have one."""
    code = grid.place(number)
    if isinstance(grid, OrdinalGrid):
        bin_values = range(int(grid.starts[code]), int(grid.ends[code]) + 1)
        return next(v for v in bin_values if v not in missing)
    first, last = float(grid.edges[code]), float(grid.edges[code + 1])
    parts = (first + (last - first) * k / 64 for k in range(1, 64))
    return next(v for v in parts if v not in missing and grid.place(v) == code)


DRAWS = 32
Pairs = list[tuple[str, str]]
Draw = Callable[[Column, np.ndarray], np.ndarray]
"""Values of codes of a column."""


def put_in_order(
    schema: Schema, codes: Mapping[str, np.ndarray], values: dict[str, np.ndarray], draw: Draw
) -> None:
    """Change the values of rows that break an order, in place: they are drawn anew within their
    levels; after `DRAWS` times they get the least values that ascend. There are such values, since
    levels that no order allows together are structural zeros (`admeasure.schema.zeros`). Rows with
    codes that no order allows, which no model has, stay as they are."""
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
        values[name][chosen] = exact if column.holds_reals else column.values_of(exact)


class _Middle:
    """Draws the middle of whatever it is asked for."""

    def integers(self, low: Any, high: Any, *, endpoint: bool) -> np.ndarray:
        return (np.asarray(low) + np.asarray(high)) // 2

    def random(self, size: int) -> np.ndarray:
        return np.full(size, 0.5)


def level_values(schema: Schema, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """One value for each level of each column, by code: what a row with that code looks like to a
    user's function. A category is itself; a bin is its middle; missing is None."""
    middle = cast(np.random.Generator, _Middle())
    found = {}
    for name in columns:
        column = schema.column(name)
        values = np.asarray(decode_column(column, np.arange(column.levels), middle))
        found[name] = np.array([v.item() if hasattr(v, "item") else v for v in values], object)
    return found
