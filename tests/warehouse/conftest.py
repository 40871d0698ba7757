"""The server, and tables in it that are gone after a test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from factories import loaded


@pytest.fixture(scope="session")
def server() -> Any:
    path = Path(__file__).with_name("server.py")
    return loaded(path).running()


@pytest.fixture(scope="session")
def fuzz() -> ModuleType:
    """The values and schemas that the encoders of files are tried on."""
    path = Path(__file__).resolve().parents[1] / "behaviours" / "test_duckdb_agreement.py"
    return loaded(path)


_numbers = itertools.count()


@pytest.fixture
def make_table(server: Any) -> Iterator[Callable[..., str]]:
    """Makes a table of (column, type) pairs and rows, and gives its name."""
    made: list[str] = []

    def make(columns: list[tuple[str, str]], rows: list[tuple]) -> str:
        name = f"t{next(_numbers)}"
        made.append(name)
        listed = ", ".join(f'"{c}" {t}' for c, t in columns)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {name} ({listed})")
            marks = ", ".join(f"%s::{t}" for _, t in columns)
            if rows:
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return name

    yield make
    with server.connect() as connection:
        connection.execute("SET lock_timeout = '20s'")  # a source that was never closed shows here
        for name in made:
            connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
