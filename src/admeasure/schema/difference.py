"""`[[difference]]`: a column that is modelled by how far it is from another, and computed back.

A visit is on the day of its booking, or some days later. In bins of months both are known to a
month, and how far they are apart to two. So what is modelled is the difference, a column with bins
of its own: `seen` is `booked` plus `wait` in every row, and no visit is before its booking if no
`wait` is below zero.

The difference of a row is a function of that row alone, so that every sensitivity is what it would
be if the table held it. It is missing where one of the two is, and cannot be read where one of the
two cannot. From there on it is read as any other column, by its own bounds, `clamp` and `other`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from admeasure.errors import DataError, SchemaError
from admeasure.schema.column import Column, Part
from admeasure.schema.days import DateColumn
from admeasure.schema.fields import MAX_WHOLE
from admeasure.schema.frames import StoredColumn
from admeasure.schema.ordered import IntegerColumn, NumberColumn, Ordered
from admeasure.schema.problems import Problem, Refusal, data_error, problem
from admeasure.schema.values import quoted

if TYPE_CHECKING:
    from admeasure.schema.model import Schema

_WIDEST: dict[type[Ordered], tuple[Any, Any]] = {
    DateColumn: (datetime.date.min, datetime.date.max),
    IntegerColumn: (-MAX_WHOLE, MAX_WHOLE),
    NumberColumn: (-1e300, 1e300),
}
_OF_TYPE = {"date": "integer", "integer": "integer", "number": "number"}
"""The type of a difference, by that of what is subtracted."""


class DifferenceEntry(Part):
    """`[[difference]]`: `column` is modelled in the place of `of`, and is `of` minus `minus`."""

    column: Annotated[str, Field(min_length=1)]
    of: Annotated[str, Field(min_length=1)]
    minus: Annotated[str, Field(min_length=1)]

    @property
    def called(self) -> str:
        return f"The [[difference]] of {quoted(self.of)}"


def base_of(schema: Schema, name: str) -> str:
    """The `[[column]]` from which a column is computed; itself where it is none."""
    sums = {entry.of: entry.minus for entry in schema.difference}
    while name in sums:
        name = sums[name]
    return name


def reader(schema: Schema, name: str) -> Ordered:
    """The column by which values of the table are read before they are subtracted: that of the
    `[[column]]` from which all is computed, without its bounds and bins."""
    column = schema.column(base_of(schema, name))
    assert isinstance(column, Ordered)
    low, high = _WIDEST[type(column)]
    fields = {"minimum": low, "maximum": high, "bins": 1, "edges": None}
    return column.model_copy(update={**fields, "name": name, "clamp": False, "other": False})


def problems(schema: Schema) -> list[str]:
    """What contradicts itself in the differences, as whole sentences."""
    found: list[str] = []
    taken = {name.casefold(): "is described by a [[column]]" for name in schema.names}
    taken |= {e.to.casefold(): "is determined by others" for e in schema.determines}
    if schema.privacy.unit_column is not None:
        taken[schema.privacy.unit_column.casefold()] = "is the unit_column"
    for entry in schema.difference:
        there = taken.get(entry.of.casefold())
        if there is not None:
            found.append(
                f"{entry.called} is computed back, but {quoted(entry.of)} {there}. Leave one of "
                "the two out."
            )
        taken[entry.of.casefold()] = "has a [[difference]]"
        if [d.column for d in schema.difference].count(entry.column) > 1:
            found.append(
                f"Column {quoted(entry.column)} is the difference of two columns. Give each its "
                "own [[column]]."
            )
        if entry.minus == entry.column:
            found.append(f"{entry.called} is subtracted from itself. Name two columns.")
    if found:
        return list(dict.fromkeys(found))
    try:
        for entry in schema.difference:
            _check(schema, entry)
    except SchemaError as error:
        found.append(str(error))
    return found


def _check(schema: Schema, entry: DifferenceEntry) -> None:
    low, high = 0, 0
    seen, at = {entry.of}, entry
    while True:
        modelled = schema.column(at.column)
        low, high = low + _ends(modelled)[0], high + _ends(modelled)[1]
        before = next((d for d in schema.difference if d.of == at.minus), None)
        if before is None:
            break
        if before.of in seen:
            raise SchemaError(
                f"{entry.called} goes in a circle. Subtract a column that a [[column]] describes."
            )
        seen.add(before.of)
        at = before
    first = schema.column(at.minus)
    if not isinstance(first, Ordered) or getattr(first, "enum", None) is not None:
        raise SchemaError(
            f"{entry.called} subtracts {quoted(at.minus)}, which is no integer, number or date "
            "between bounds. Subtract one that is."
        )
    if any(d.column == at.minus for d in schema.difference):
        raise SchemaError(
            f"{entry.called} subtracts {quoted(at.minus)}, which is a difference itself and not in "
            "the table. Subtract a column of the table."
        )
    modelled = schema.column(entry.column)
    wanted = _OF_TYPE[first.type]
    if modelled.type != wanted:
        raise SchemaError(
            f"{entry.called} is a difference of type {wanted} (days, for dates), and "
            f"{quoted(entry.column)} is of type {modelled.type}. Change it."
        )
    if first.holds_days:
        days = [
            end.toordinal() + shift for end, shift in zip(_ends(first), (low, high), strict=True)
        ]
        if days[0] < 1 or days[1] > datetime.date.max.toordinal():
            raise SchemaError(
                f"{entry.called} goes outside the years 1 to 9999. Narrow the bounds of "
                f"{quoted(entry.column)}."
            )


def _ends(column: Any) -> tuple[Any, Any]:
    """The bounds of a column that has any, in its own values."""
    if not isinstance(column, Ordered):
        return 0, 0
    if isinstance(column, IntegerColumn) and column.enum:
        return min(column.enum), max(column.enum)
    edges = column.edges or (column.minimum, column.maximum)
    return (0, 0) if edges[0] is None or edges[-1] is None else (edges[0], edges[-1])


def unreadable(column: Column) -> float:
    """A number that stands for a difference of what cannot be read: no whole number, or one above
    every bound."""
    return math.inf if column.holds_reals else 0.5


def stored_difference(
    schema: Schema, entry: DifferenceEntry, column: Callable[[str], StoredColumn]
) -> StoredColumn:
    """The difference of two stored columns, as if the table held it."""
    from admeasure.schema.encode import read_numbers

    (later, first), (earlier, second) = (
        read_numbers(reader(schema, name), column(name)) for name in (entry.of, entry.minus)
    )
    missing = (first == Refusal.MISSING) | (second == Refusal.MISSING)
    values = (later - earlier).astype(np.float64)
    values[(first < 0) | (second < 0)] = unreadable(schema.column(entry.column))
    values[missing] = 0
    return StoredColumn("float", values, missing if missing.any() else None)


def explained(schema: Schema, problems: Sequence[Problem]) -> list[Problem]:
    """Problems of a table, with those of a difference in words of what it is a difference of."""
    return [_explained(schema, one) for one in problems]


def _explained(schema: Schema, one: Problem) -> Problem:
    entry = schema.differences.get(one.column or "")
    if entry is None:
        return one
    base = reader(schema, entry.minus)
    if one.rule == problem(schema.column(entry.column), Refusal.UNREADABLE).rule:
        kind = f"{'an' if base.type == 'integer' else 'a'} {base.type}{base.spelling}"
        both = f"{quoted(entry.of)} or {quoted(entry.minus)}"
        return Problem(
            entry.of,
            f"is read for {quoted(entry.column)}, and {both} has a value that is not {kind}",
            f"say in {quoted(base_of(schema, entry.of))} how the table spells it, or correct it",
        )
    if one.rule == problem(schema.column(entry.column), Refusal.MISSING).rule:
        return Problem(one.column, f"is missing where {quoted(entry.of)} is", one.advice)
    return one


def refuse_storage(column: Ordered) -> DataError:
    """The error where what is subtracted is stored in a form that its type cannot be read from."""
    return data_error([problem(column, Refusal.WRONG_STORAGE)])


def added_back(schema: Schema, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Decoded columns with what is computed back in the place of each difference."""
    made = dict(values)
    left = [d for d in schema.difference if d.column in values]
    while ready := [d for d in left if d.minus in made]:
        for entry in ready:
            made[entry.of] = _sum(made[entry.minus], values[entry.column])
            left.remove(entry)
    names = {d.column: d.of for d in schema.difference if d.of in made}
    order = [names.get(name, name) for name in values]
    return {name: made[name] for name in order}


def _sum(base: np.ndarray, shift: np.ndarray) -> np.ndarray:
    if base.dtype != object and shift.dtype != object:
        return base + shift
    found = np.empty(len(base), dtype=object)
    for i, (value, by) in enumerate(zip(base.tolist(), shift.tolist(), strict=True)):
        if value is not None and by is not None:
            found[i] = value + (datetime.timedelta(by) if isinstance(value, datetime.date) else by)
    return found
