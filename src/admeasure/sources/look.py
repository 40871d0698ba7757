"""What a steward asks of a table before a run, whatever names it: which rules of the schema it
breaks, what its columns are stored as, and a name for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem
from admeasure.sources.kinds import installed_kind


def find_problems(data: Any, schema: Schema) -> list[Problem]:
    """Every rule of the schema that a table breaks; an empty list where it is sound.

    For the steward who holds the table: that a rule is broken is knowledge of the table.
    """
    kind = installed_kind(data)
    kind.check_readable(schema)
    return kind.find_problems(data, schema)


def storage_types(data: Any) -> list[tuple[str, str]]:
    """Names and storage types of a table's columns. No row is looked at."""
    return installed_kind(data).storage_types(data)


def column_names(data: Any, encoding: str | None) -> list[str]:
    """Names of a table's columns; those of a CSV file are in this encoding."""
    return installed_kind(data).column_names(data, encoding)


def distinct_values(data: Any, name: str, encoding: str | None) -> Iterator[tuple[Any, int]]:
    """The values of a column and how many rows have each. NOT PRIVATE: for the terminal of whoever
    holds the table, and nothing else."""
    return installed_kind(data).distinct_values(data, name, encoding)


def table_name(data: Any) -> str:
    """A name for the table, from its path or its address."""
    return installed_kind(data).table_name(data)


def identity(data: Any) -> str:
    """What tells the table from others: of files their contents, else its place, without who asks
    and how. It may be hashed, and not shown."""
    return installed_kind(data).identity(data)
