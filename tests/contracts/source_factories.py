"""Sources over files, for the contract suite: each writes the values with DuckDB and opens them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from admeasure.schema.model import Schema
from admeasure.sources import Source
from admeasure.sources.open import open_source

Values = dict[str, list[Any]]
Factory = Callable[[Values, Schema, Path], Source]

_TYPES = {
    bool: "BOOLEAN",
    int: "HUGEINT",
    float: "DOUBLE",
    Decimal: "DECIMAL(38, 10)",
    str: "VARCHAR",
    datetime.date: "DATE",
    datetime.datetime: "TIMESTAMP",
    bytes: "BLOB",
    list: "INTEGER[]",
}


def _sql_type(values: list[Any]) -> str:
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int, float} and float in kinds:
        return "DOUBLE"
    if kinds == {int}:
        return "BIGINT" if all(v is None or -(2**63) <= v < 2**63 for v in values) else "HUGEINT"
    if kinds == {datetime.datetime} and any(v is not None and v.tzinfo for v in values):
        return "TIMESTAMPTZ"
    return _TYPES.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(connection: duckdb.DuckDBPyConnection, values: Values, name: str = "people") -> None:
    described = ", ".join(f"{_quoted(c)} {_sql_type(v)}" for c, v in values.items())
    connection.execute(f"CREATE TABLE {name} ({described})")
    rows = list(zip(*values.values(), strict=True))
    if rows:
        marks = ", ".join("?" * len(values))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


def _copy(values: Values, path: Path, options: str) -> None:
    with duckdb.connect() as connection:
        _table(connection, values)
        connection.execute(f"COPY people TO '{path}' ({options})")


def csv(values: Values, schema: Schema, folder: Path) -> Source:
    _copy(values, folder / "people.csv", "FORMAT csv, HEADER true")
    return open_source(folder / "people.csv", schema)


def parquet(values: Values, schema: Schema, folder: Path) -> Source:
    _copy(values, folder / "people.parquet", "FORMAT parquet")
    return open_source(str(folder / "people.parquet"), schema)


def parquet_parts(values: Values, schema: Schema, folder: Path) -> Source:
    """Two parts of the same types; one of them may have no rows."""
    half = len(next(iter(values.values()), [])) // 2
    with duckdb.connect() as connection:
        _table(connection, values)
        for number, rows in enumerate((f"LIMIT {half}", f"OFFSET {half}")):
            path = folder / f"part-{number}.parquet"
            connection.execute(f"COPY (FROM people {rows}) TO '{path}' (FORMAT parquet)")
    return open_source(str(folder / "part-*.parquet"), schema)


def duckdb_table(values: Values, schema: Schema, folder: Path) -> Source:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        _table(connection, values)
    return open_source(f"duckdb://{path}?table=people", schema)


def duckdb_view(values: Values, schema: Schema, folder: Path) -> Source:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        _table(connection, values, "stored")
        connection.execute("CREATE VIEW people AS SELECT * FROM stored")
    return open_source(f"duckdb://{path}?table=people", schema)


def streaming(values: Values, schema: Schema, folder: Path) -> Source:
    """No row may be kept, so each count reads the file."""
    _copy(values, folder / "people.parquet", "FORMAT parquet")
    return open_source(folder / "people.parquet", schema, memory_megabytes=0)


def cached(values: Values, schema: Schema, folder: Path) -> Source:
    """No row may be kept in memory, so each count reads codes from disk."""
    _copy(values, folder / "people.parquet", "FORMAT parquet")
    return open_source(folder / "people.parquet", schema, memory_megabytes=0, cache=folder)


FACTORIES: dict[str, Factory] = {
    "csv": csv,
    "parquet": parquet,
    "parquet parts": parquet_parts,
    "duckdb table": duckdb_table,
    "duckdb view": duckdb_view,
    "streaming": streaming,
    "cached": cached,
}
