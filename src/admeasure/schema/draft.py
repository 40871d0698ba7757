"""A first schema from a table's header: names and storage types, and no value of any row.

What public documents say of a column is filled in; every other bound and category is the text TODO,
which validation refuses, so that nothing of the private table can slip into a schema by way of a
draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from admeasure.errors import DataError
from admeasure.schema.clock import STORED_TIMES, TIMES_OF_DAY
from admeasure.schema.load import PLACEHOLDER
from admeasure.schema.toml import FIELD_ORDER, toml_text, toml_value
from admeasure.schema.values import quoted

_TODO = f'"{PLACEHOLDER}"'
_HEADER = """\
# Fill in every TODO from public knowledge: a codebook, a form, a law. Never from the rows.
# Types: string (categories), integer, number, date (format = "%d/%m/%Y" as it is written), boolean.
# Delete the [[column]] of what cannot be released or nobody asks for: identifiers, free texts.
# Bins that a column does not give (bins = 20, edges = […]) are found by a run, for a small charge.
# Categories that no codebook lists: enum = "private" finds those that some hundred rows have.
# Codes with a public hierarchy (diagnoses, occupations): levels_of = "codes.csv", code to group.
# Times of the day (13:45): an integer with format = "%H:%M", which counts their minutes.
# Where one {unit} may have several rows, add unit_column = "…" under [privacy]: the column that
# tells whose row it is. It needs no [[column]].
"""


def draft(
    header: Sequence[tuple[str, str]],
    *,
    name: str = PLACEHOLDER,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """A schema text for columns given as (name, storage type). `facts` are fields of columns from
    public documents; columns that follow each other with the same fields are one block.

    >>> print(draft([("age", "BIGINT")]).splitlines()[-4])
    name = "age"
    """
    names = [column for column, _ in header]
    again = sorted({n for n in names if names.count(n) > 1})
    if again:
        raise DataError(f"The table has two columns {quoted(again[0])}. Rename one of them.")
    lines = [_HEADER.format(unit="person") + "[table]", f"name = {toml_text(name)}", ""]
    lines += ["[privacy]", f"unit = {_TODO}", ""]
    known = facts or {}
    described = [
        (n, tuple(_described(known.get(n) or _stored_times(kind), kind_of(kind))))
        for n, kind in header
    ]
    for fields, group in groupby(described, key=itemgetter(1)):
        alike = [column for column, _ in group]
        is_filled = known and not any(PLACEHOLDER in field for field in fields)
        blocks = [alike] if is_filled else [[column] for column in alike]
        for block in blocks:
            listed = f"names = {toml_value(block)}" if len(block) > 1 else None
            lines += ["[[column]]", listed or f"name = {toml_text(block[0])}", *fields, ""]
    return "\n".join(lines)


def _stored_times(storage: str) -> Mapping[str, Any]:
    """What storage for times of the day says of a column; nothing of any other."""
    is_time = storage.partition("(")[0].strip().lower() in ("time", "time_ns", "time64", "time32")
    return {**TIMES_OF_DAY, "format": STORED_TIMES} if is_time else {}


def _described(facts: Mapping[str, Any], stored: str) -> Iterator[str]:
    """The fields that are known, and those that must be filled in."""
    kind = str(facts.get("type", stored))
    said = {"type": kind, **facts}
    for line in _fields(kind):
        field = line.partition(" = ")[0]
        given = any(levels in facts for levels in ("enum", "edges", "levels_of"))
        if field not in said and not given:
            yield line
        elif field in said:
            yield f"{field} = {toml_value(said.pop(field))}"
    for field in sorted(said, key=_place):
        yield f"{field} = {toml_value(said[field])}"


def _place(field: str) -> int:
    return FIELD_ORDER.index(field) if field in FIELD_ORDER else len(FIELD_ORDER)


def kind_of(storage: str) -> str:
    """The schema type for a storage type as DuckDB, polars, pandas or pyarrow names it; string
    where the name says nothing.

    >>> kind_of("TIMESTAMP WITH TIME ZONE"), kind_of("Int64"), kind_of("DECIMAL(10,2)")
    ('date', 'integer', 'number')
    """
    word = storage.lower()
    if word.startswith(("date", "timestamp")):
        return "date"
    if word.startswith("bool"):
        return "boolean"
    if word.startswith("interval"):
        return "string"
    if word.startswith(("float", "double", "real", "decimal", "numeric", "number")):
        return "number"
    return "integer" if "int" in word or word == "hugeint" else "string"


def _fields(kind: str) -> Iterable[str]:
    yield f'type = "{kind}"'
    if kind in ("integer", "number", "date"):
        yield f"minimum = {_TODO}"
        yield f"maximum = {_TODO}"
    if kind == "string":
        yield f"enum = [{_TODO}]"
