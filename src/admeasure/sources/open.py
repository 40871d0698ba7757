"""From whatever names a table to the source that counts it.

Libraries of a source are imported when it is opened; one that is missing is named with the extra
that installs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admeasure.extras import need
from admeasure.schema.model import Schema
from admeasure.sources import Source

Progress = Callable[[float], None]

SPARK_SCHEMES = ("spark",)
WAREHOUSE_SCHEMES = ("postgres", "postgresql", "bigquery", "snowflake")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


def open_source(
    data: Any,
    schema: Schema,
    *,
    memory_megabytes: float | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Source:
    """The source of a table, read and validated.

    `data` is one of

    - a path of a CSV or Parquet file, a glob, a list of paths, or `duckdb:///FILE?table=NAME`;
    - a table in memory: a pandas, polars or pyarrow frame, or a dict of columns;
    - a table that Spark reads: `spark:…`, or a pyspark DataFrame (`admeasure[spark]`);
    - a table of a warehouse: `postgres://…`, `bigquery://…`, `snowflake://…`, or an ibis table
      (`admeasure[warehouse]`).

    `memory_megabytes` limits the encoded rows that are kept of a file; beyond it they are kept on
    disk in the folder `cache`, where one is named, and else the file is read again for each count.
    `progress` is called with fractions of a scan.
    """
    scheme = _scheme(data)
    if scheme in SPARK_SCHEMES or _comes_from(data, "pyspark"):
        need("pyspark", "spark", "Reading a table of Spark")
        from admeasure.sources.spark import open_spark

        return open_spark(data, schema, progress=progress)
    if scheme in WAREHOUSE_SCHEMES or _comes_from(data, "ibis"):
        need("ibis", "warehouse", "Reading a table of a warehouse")
        from admeasure.sources.warehouse.source import open_warehouse

        return open_warehouse(data, schema, memory_megabytes=memory_megabytes, progress=progress)
    if is_path(data):
        from admeasure.sources.files.source import DuckDBSource

        return DuckDBSource(
            data, schema, memory_megabytes=memory_megabytes, cache=cache, progress=progress
        )
    from admeasure.sources.memory import MemorySource

    return MemorySource(data, schema)


@contextmanager
def held(source: Source) -> Iterator[Source]:
    """A source that is let go at the end: a connection, codes kept in a cluster."""
    try:
        yield source
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()


def is_path(data: Any) -> bool:
    """Whether the rows lie elsewhere, in files, a database or a cluster, rather than in `data`."""
    if isinstance(data, (list, tuple)):
        return all(isinstance(one, (str, Path)) for one in data)
    return isinstance(data, (str, Path)) or is_remote(data)


def is_remote(data: Any) -> bool:
    """Whether another engine than DuckDB reads the table: Spark or a warehouse."""
    known = (*SPARK_SCHEMES, *WAREHOUSE_SCHEMES)
    return _scheme(data) in known or _comes_from(data, "pyspark") or _comes_from(data, "ibis")


def _scheme(data: Any) -> str | None:
    """The scheme of an address; None for whatever else, and for a file of such a name."""
    if not isinstance(data, str) or (found := _SCHEME.match(data)) is None:
        return None
    return None if os.path.exists(data) else found[1].lower()


def _comes_from(data: Any, library: str) -> bool:
    """Whether an object is of a library's own type. Nothing is imported to find out."""
    module = type(data).__module__
    return module.partition(".")[0] == library and not module.startswith("pyspark.pandas")
