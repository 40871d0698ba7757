"""A database of a dialect that is not at hand: statements parsed by sqlglot, and run by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from admeasure.schema.storage import Storage
from admeasure.sources.dialect import Dialect, Stored

sqlglot = pytest.importorskip("sqlglot")
from sqlglot import exp  # noqa: E402

Kept = tuple[str, Storage]
"""How DuckDB keeps a column, and what the dialect takes it for. A column that is not named is kept
as texts."""


class Translated:
    """A database of a dialect whose statements DuckDB runs, translated."""

    order = ()
    words = "the translated table"
    relation = "people"

    def __init__(
        self, dialect: Dialect, values: dict[str, list[Any]], columns: Mapping[str, Kept]
    ) -> None:
        self.dialect, self._columns = dialect, columns
        self.connection = duckdb.connect()
        # What BigQuery documents of it: how many of the ascending numbers are not above the point.
        self.connection.execute(
            "CREATE MACRO range_bucket(point, numbers) AS "
            "len(list_filter(numbers, lambda one: one <= point))"
        )
        types = {
            **dict.fromkeys(values, "VARCHAR"),
            **{name: kind for name, (kind, _) in columns.items()},
        }
        listed = ", ".join(f'"{name}" {types[name]}' for name in values)
        self.connection.execute(f"CREATE TABLE people ({listed})")
        marks = ", ".join("?" * len(values))
        self.connection.executemany(
            f"INSERT INTO people VALUES ({marks})", list(zip(*values.values(), strict=True))
        )
        self._names = list(values)

    def names(self) -> list[str]:
        return self._names

    def known_as(self, name: str) -> str:
        return name

    def close(self) -> None:
        self.connection.close()

    def stored(self, names: Sequence[str]) -> list[Stored]:
        kinds = {
            **dict.fromkeys(names, Storage.TEXT),
            **{n: storage for n, (_, storage) in self._columns.items()},
        }
        return [Stored(n, kinds[n], "", is_direct=kinds[n] is Storage.TEXT) for n in names]

    def _run(self, query: str) -> list[tuple]:
        (tree,) = sqlglot.parse(query, read=self.dialect.name)
        # DuckDB compares bytes without being told to.
        plain = tree.transform(lambda n: n.this if isinstance(n, exp.Collate) else n)
        return self.connection.execute(plain.sql(dialect="duckdb")).fetchall()

    def row(self, query: str) -> tuple:
        (found,) = self._run(query)
        return found

    def numbers(self, query: str, names: Sequence[str]) -> Iterator[np.ndarray]:
        yield np.array(self._run(query), np.int64).reshape(-1, len(names))
