"""From whatever names a table to the source that counts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from admeasure.schema.model import Schema
from admeasure.sources import Source


def open_source(
    data: Any,
    schema: Schema,
    *,
    memory_megabytes: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Source:
    """The source of a table, read and validated.

    `data` is a path of a CSV or Parquet file, a glob, a list of paths, an address
    `duckdb:///FILE?table=NAME`, or a table in memory (a pandas, polars or pyarrow frame, or a dict
    of columns). `memory_megabytes` limits the encoded rows that are kept of a file; beyond it the
    file is read again for each count. `progress` is called with fractions of a scan.
    """
    if is_path(data):
        from admeasure.sources.duckdb import DuckDBSource

        return DuckDBSource(data, schema, memory_megabytes=memory_megabytes, progress=progress)
    from admeasure.sources.memory import MemorySource

    return MemorySource(data, schema)


def is_path(data: Any) -> bool:
    """Whether `data` names files or a database, rather than being a table."""
    if isinstance(data, (list, tuple)):
        return all(isinstance(one, (str, Path)) for one in data)
    return isinstance(data, (str, Path))
