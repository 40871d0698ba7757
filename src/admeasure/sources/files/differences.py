"""Differences of two columns as columns of a table in files, in DuckDB's words.

`admeasure.schema.difference` says what they are; the values are read by the same expressions as
those of any column (`admeasure.sources.encode`), and what is missing makes the difference NULL.
"""

from __future__ import annotations

from admeasure.schema.difference import DifferenceEntry, reader, refuse_storage, unreadable
from admeasure.schema.model import Schema
from admeasure.schema.ordered import NumberColumn
from admeasure.schema.problems import Refusal
from admeasure.sources.encode import MARKS, encoding, steps
from admeasure.sources.files.sql import DUCKDB, TablePart


def with_differences(part: TablePart, schema: Schema) -> TablePart:
    """A part with a column for each difference of columns that it has."""
    for entry in schema.difference:
        if part.names.count(entry.of) == 1 and part.names.count(entry.minus) == 1:
            part = _with(part, schema, entry)
    return part


def _with(part: TablePart, schema: Schema, entry: DifferenceEntry) -> TablePart:
    kept = part.aliases
    taken, encodings = [], []
    for i, name in enumerate((entry.of, entry.minus)):
        column, (alias, stored) = reader(schema, name), part.stored(name)
        if stored.storage not in column.rules:
            raise refuse_storage(column)
        encodings.append(encoding(column, stored, i, DUCKDB))
        taken.append(f"{alias} AS x{i}")
    codes = [f"({e.code(MARKS)}) AS c{i}" for i, e in enumerate(encodings)]
    # Where nothing had to be read the stored value is the number.
    later, earlier = (f"v{i}" if e.value else f"x{i}" for i, e in enumerate(encodings))
    missing, other = int(Refusal.MISSING), unreadable(schema.column(entry.column))
    kind = "DOUBLE" if isinstance(schema.column(entry.column), NumberColumn) else "BIGINT"
    value = (
        f"CASE WHEN c0 = {missing} OR c1 = {missing} THEN NULL "
        f"WHEN c0 < 0 OR c1 < 0 THEN {DUCKDB.real(other)} "
        f"ELSE CAST(CAST({later} AS {kind}) - CAST({earlier} AS {kind}) AS DOUBLE) END"
    )
    rows = f"SELECT {kept}, {', '.join(taken)} FROM {part.rows}"
    for step in (*steps(encodings), codes):
        rows = f"SELECT {', '.join(['*', *step])} FROM ({rows})"
    rows = f"SELECT {kept}, {value} AS k{len(part.names)} FROM ({rows})"
    # A column of that name in the table itself is not what the schema means.
    names = tuple("" if name == entry.column else name for name in part.names)
    return TablePart(f"({rows})", (*names, entry.column), (*part.types, "DOUBLE"))
