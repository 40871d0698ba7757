"""Sources over PostgreSQL, for the contract suite: each stores the values in a table of its own."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from admeasure.schema.model import Schema
from admeasure.sources import Source
from admeasure.sources.open import open_source
from factories import loaded

Values = dict[str, list[Any]]
Factory = Callable[[Values, Schema, Path], Source]

_TYPES = {
    bool: "boolean",
    int: "numeric",
    float: "double precision",
    Decimal: "numeric",
    str: "text",
    datetime.date: "date",
    datetime.datetime: "timestamp",
    bytes: "bytea",
    list: "integer[]",
}


def _server() -> Any:
    """The server that all suites of a process share."""
    path = Path(__file__).resolve().parents[1] / "warehouse" / "server.py"
    return loaded(path).running()


def _sql_type(values: list[Any]) -> str:
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {int, float} and float in kinds:
        return "double precision"
    if kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values):
        return "bigint"
    if kinds == {datetime.datetime} and any(v is not None and v.tzinfo for v in values):
        return "timestamptz"
    return _TYPES.get(kinds.pop(), "text") if len(kinds) == 1 else "text"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def stored(values: Values) -> str:
    """The name of a new table that holds the values."""
    name = f"contract_{uuid.uuid4().hex}"
    described = ", ".join(f"{_quoted(c)} {_sql_type(v)}" for c, v in values.items())
    rows = list(zip(*values.values(), strict=True))
    with _server().connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({described})".encode())
        if rows:
            marks = ", ".join(["%s"] * len(values))
            cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return name


def postgres(values: Values, schema: Schema, folder: Path) -> Source:
    return open_source(_server().url(stored(values)), schema)


FACTORIES: dict[str, Factory] = {"postgres": postgres}
