"""What a steward asks of a table before a run, whatever names it: which rules of the schema it
breaks, what its columns are stored as, and a name for it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem
from admeasure.sources.open import SPARK_SCHEMES, WAREHOUSE_SCHEMES
from admeasure.sources.spark import tables as spark_tables
from admeasure.sources.warehouse import address as warehouse_address

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


def find_problems(data: str, schema: Schema) -> list[Problem]:
    """Every rule of the schema that a table breaks; an empty list where it is sound.

    For the steward who holds the table: that a rule is broken is knowledge of the table.
    """
    return _module(data).find_problems(data, schema)


def storage_types(data: str) -> list[tuple[str, str]]:
    """Names and storage types of a table's columns. No row is looked at."""
    module = _module(data)
    if not hasattr(module, "storage_types"):
        raise UsageError("A Spark table is not drafted. Draft from one of its files.")
    return module.storage_types(data)


def table_name(data: str) -> str:
    """A name for the table, from its path or its address."""
    if _scheme(data) in WAREHOUSE_SCHEMES:
        return warehouse_address.parse(data).table[-1]
    stem = Path(data.rstrip("/")).name.split(".")[0]
    return stem if stem and not set(stem) & set("*?[]") else "table"


def place(data: str) -> str:
    """Which table an address of Spark or of a warehouse names, without who asks and how. It may be
    hashed, and not shown."""
    module = spark_tables if _scheme(data) in SPARK_SCHEMES else warehouse_address
    return repr(module.parse(data).identity)


def _module(data: str) -> Any:
    scheme = _scheme(data)
    if scheme in SPARK_SCHEMES:
        from admeasure.sources.spark import source as spark

        return spark
    if scheme in WAREHOUSE_SCHEMES:
        from admeasure.sources.warehouse import source as warehouse

        return warehouse
    from admeasure.sources.files import source as duckdb

    return duckdb


def _scheme(data: str) -> str | None:
    """The scheme of an address; None for a path, and for a file of such a name."""
    found = _SCHEME.match(data)
    return None if found is None or os.path.exists(data) else found[1].lower()
