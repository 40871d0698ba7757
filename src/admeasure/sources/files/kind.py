"""Tables in files, which DuckDB reads: CSV, Parquet and DuckDB's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.sources.kind import TEXT, Kind, ScanOptions, Scheme, stem

if TYPE_CHECKING:
    from admeasure.schema.model import Schema
    from admeasure.schema.problems import Problem
    from admeasure.sources import Source


SCHEME = Scheme("duckdb", "duckdb:///FILE?table=NAME", TEXT)


class _Files(Kind):
    schemes = (SCHEME,)
    subtracts = True

    def reads(self, data: Any) -> bool:
        """Any text: whoever opens one of an unknown scheme says so."""
        if isinstance(data, (list, tuple)):
            return all(isinstance(one, (str, Path)) for one in data)
        return isinstance(data, (str, Path))

    def open(self, data: Any, schema: Schema, how: ScanOptions) -> Source:
        from admeasure.sources.files.source import DuckDBSource

        return DuckDBSource(
            data,
            schema,
            memory_megabytes=how.memory_megabytes,
            cache=how.cache,
            progress=how.progress,
        )

    def find_problems(self, data: Any, schema: Schema) -> list[Problem]:
        from admeasure.sources.files.source import find_problems

        return find_problems(data, schema)

    def storage_types(self, data: Any) -> list[tuple[str, str]]:
        from admeasure.sources.files.source import storage_types

        return storage_types(data)

    def column_names(self, data: Any, encoding: str | None) -> list[str]:
        from admeasure.sources.files.source import storage_types

        return [name for name, _ in storage_types(data, encoding)]

    def distinct_values(
        self, data: Any, name: str, encoding: str | None
    ) -> Iterator[tuple[Any, int]]:
        from admeasure.sources.files.source import distinct_values

        return distinct_values(data, name, encoding)

    def table_name(self, data: Any) -> str:
        return stem(data)

    def identity(self, data: Any) -> str:
        """A hash of each file."""
        from admeasure.sources.files.tables import locate

        location = locate(data)
        hashes = []
        for path in location.paths:
            with path.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
        return f"{location.table} {hashes}"


FILES = _Files()
