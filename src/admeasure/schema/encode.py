"""Tables to codes: whole columns at once, one or two bytes a cell.

The rules are those of `Column.rules`, for arrays; `admeasure.sources.encode` has them in SQL. Only
the schema's columns are read. Nothing is released here: codes are as private as the table, and
errors name column and rule only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.difference import explained, refuse_storage, stored_difference
from admeasure.schema.frames import Frame, StoredColumn
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.model import Schema
from admeasure.schema.ordered import Ordered
from admeasure.schema.problems import Problem, Refusal, data_error, refusals, resolve
from admeasure.schema.rules import Listed, Reads
from admeasure.schema.storage import Storage
from admeasure.schema.units import units_of
from admeasure.schema.values import did_you_mean

_STORAGES = {
    "integer": Storage.WHOLE,
    "float": Storage.REAL,
    "boolean": Storage.BOOLEAN,
    "day": Storage.DAY,
}


def encode_frame(frame: Any, schema: Schema) -> dict[str, np.ndarray]:
    """The codes of every column of the schema, rows beyond `max_rows_per_unit` left out.

    Raises a `DataError` with all problems of all columns where there are any.
    """
    codes, problems = encode_and_check(frame, schema)
    if problems:
        raise data_error(problems)
    return codes


def encode_and_check(frame: Any, schema: Schema) -> tuple[dict[str, np.ndarray], list[Problem]]:
    """Codes and problems. Where there are problems the codes are incomplete."""
    table = Frame(frame)
    problems = absent_columns(table.names, schema)
    unreadable = {p.column for p in problems}
    codes: dict[str, np.ndarray] = {}
    for column in schema.columns:
        if not unreadable.intersection(schema.stored_as(column.name)):
            marked = marks(column, stored(schema, column, table.column))
            found = refusals(column, np.unique(marked).tolist() if len(marked) else [])
            found = explained(schema, found)
            problems += found
            if not found:
                codes[column.name] = settle(column, marked)
    unit = schema.privacy.unit_column
    if unit is not None and unit not in unreadable:
        units, found = units_of(table.identifiers(unit), unit)
        problems += found
        if units is not None and not problems:
            kept = units.kept([codes[c] for c in schema.names], schema.privacy.max_rows_per_unit)
            codes = {name: c[kept] for name, c in codes.items()}
    return codes, problems


def absent_columns(names: list[str], schema: Schema) -> list[Problem]:
    """The schema's columns that the table lacks or has twice."""
    unit = schema.privacy.unit_column
    problems = []
    for wanted in (*schema.stored_names, *([unit] if unit is not None else [])):
        if wanted not in names:
            hint = did_you_mean(wanted, names).rstrip("?") or "compare the schema's names with it"
            problems.append(Problem(wanted, "is not in the table", hint[0].lower() + hint[1:]))
        elif names.count(wanted) > 1:
            problems.append(Problem(wanted, "is in the table twice", "rename one of the two"))
    return problems


def stored(schema: Schema, column: Column, of_table: Callable[[str], StoredColumn]) -> StoredColumn:
    """A column of the schema as a table stores it, or as it would store the difference."""
    entry = schema.differences.get(column.name)
    return of_table(column.name) if entry is None else stored_difference(schema, entry, of_table)


def read_numbers(column: Ordered, stored: StoredColumn) -> tuple[np.ndarray, np.ndarray]:
    """What is read of each entry, as the grid's number, and its mark: negative where there is none.
    A column of a storage that its type cannot be read from is refused."""
    marked = marks(column, stored)
    if (marked == Refusal.WRONG_STORAGE).any():
        raise refuse_storage(column)
    if stored.kind != "object":
        values = np.where(marked < 0, 0, stored.values)
    else:
        pairs = zip(stored.values, marked, strict=True)
        values = np.array([0 if mark < 0 else _number(column, v) for v, mark in pairs])
    return values.astype(np.float64 if column.reads is Reads.REAL else np.int64), marked


def _number(column: Column, value: Any) -> int | float:
    found = column.ordinal_of(value)
    assert found is not None
    return found


def settle(column: Column, marked: np.ndarray) -> np.ndarray:
    """Marks to the levels the schema has for them, in the smallest storage."""
    # A table of all codes and marks: index -1 is Python's last entry, -2 the one before, …
    table = np.zeros(column.levels + len(Refusal), dtype=column.dtype)
    table[: column.levels] = np.arange(column.levels)
    for refusal in Refusal:
        table[refusal] = resolve(column, refusal) or 0
    return table[marked]


def marks(column: Column, stored: StoredColumn) -> np.ndarray:
    """The code or `Refusal` of every entry, as int32."""
    if stored.kind == "object":
        return _mark_objects(column, stored)
    rules = column.rules.get(_STORAGES[stored.kind])
    if rules is None:
        found = np.full(len(stored), Refusal.WRONG_STORAGE, dtype=np.int32)
    elif isinstance(rules.levels, Listed):
        found = _mark_distinct(column, stored)
    else:
        found = _mark_placed(rules.levels, rules.missing, stored)
    if stored.null is not None:
        found[stored.null] = Refusal.MISSING
    return found


def _mark_objects(column: Column, stored: StoredColumn) -> np.ndarray:
    memo = _Memo(column)
    values = stored.values
    kinds = set(map(type, values))
    try:
        if kinds <= {str, type(None)}:
            found = map(memo.__getitem__, values)
        else:  # 1, 1.0 and True are one dictionary key, and not one value to a string column
            memo.typed = True
            found = map(memo.__getitem__, zip(map(type, values), values, strict=True))
        codes = np.fromiter(found, dtype=np.int32, count=len(values))
    except TypeError:  # something that cannot be a key, such as a list
        codes = np.fromiter(map(column.code_of, values), dtype=np.int32, count=len(values))
    if stored.null is not None:
        codes[stored.null] = Refusal.MISSING
    return codes


class _Memo(dict):
    """Each distinct value is read once."""

    def __init__(self, column: Column) -> None:
        super().__init__()
        self.column = column
        self.typed = False

    def __missing__(self, key: Any) -> int:
        code = self[key] = int(self.column.code_of(key[1] if self.typed else key))
        return code


def _mark_distinct(column: Column, stored: StoredColumn) -> np.ndarray:
    """Categories stored as numbers, booleans or days: read each distinct value once."""
    distinct, inverse = np.unique(stored.values, return_inverse=True)
    values = distinct.astype("datetime64[D]") if stored.kind == "day" else distinct
    codes = [column.code_of(v) for v in values]
    return np.array(codes, dtype=np.int32)[inverse] if codes else np.zeros(0, dtype=np.int32)


def _mark_placed(
    grid: OrdinalGrid | RealGrid, missing: Iterable[float], stored: StoredColumn
) -> np.ndarray:
    values = stored.values
    if isinstance(grid, RealGrid):
        values = values.astype(np.float64)
        if stored.null is not None:
            values[stored.null] = grid.low
        found = grid.place_all(values)
    else:
        found, values = _mark_whole(grid, stored)
    for number in missing:
        found[values == number] = Refusal.MISSING
    return found


def _mark_whole(grid: OrdinalGrid, stored: StoredColumn) -> tuple[np.ndarray, np.ndarray]:
    values = stored.values
    if stored.kind != "float":
        if values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
        values = values.astype(np.int64, copy=False)
        return grid.place_all(values), values
    if stored.null is not None:
        values = np.where(stored.null, grid.low, values)
    # Bounds lie within ±2^53, so a double beyond them is outside whatever it is rounded to.
    inside = np.clip(values, grid.low, grid.high)
    found = grid.place_all(inside.astype(np.int64))
    if not grid.clamp:
        found[inside != values] = Refusal.OUTSIDE
    found[(values != np.floor(values)) & np.isfinite(values)] = Refusal.UNREADABLE
    return found, values
