"""From whatever names a table to the source that counts it.

Libraries of a source are imported when it is opened; one that is missing is named with the extra
that installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admeasure.schema.model import Schema
from admeasure.sources import Source
from admeasure.sources.kind import Progress, ScanOptions
from admeasure.sources.kinds import kind_of
from admeasure.sources.texts import OpenTable, texts_of


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
    `progress` is called with fractions of a scan. A schema with open columns is refused.
    """
    kind = kind_of(data)
    if kind is None:
        from admeasure.sources.memory import MemorySource

        return MemorySource(data, schema)
    kind.check_installed()
    kind.check_readable(schema)
    return kind.open(data, schema, ScanOptions(memory_megabytes, cache, progress))


def open_to_buy(data: Any, schema: Schema, **options: Any) -> Source:
    """The source of a table whose schema may have open columns, which a run buys: read by
    `schema.as_read`, and where levels are sought an `OpenTable`. `options` are those of
    `open_source`."""

    def opened(by: Schema) -> Source:
        return open_source(data, by, **options)

    source = opened(schema.as_read)
    sought = [column.name for column in schema.columns if column.is_sought]
    if not sought:
        return source
    try:
        return OpenTable(source, opened, texts_of(source, data, sought))
    except BaseException:
        source.close()
        raise


@contextmanager
def held(source: Source) -> Iterator[Source]:
    """A source that is let go at the end: a connection, codes kept in a cluster."""
    try:
        yield source
    finally:
        source.close()


def is_path(data: Any) -> bool:
    """Whether the rows lie elsewhere, in files, a database or a cluster, rather than in `data`."""
    return kind_of(data) is not None
