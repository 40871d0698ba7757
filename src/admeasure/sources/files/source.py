"""Tables in CSV, Parquet and DuckDB files, encoded and counted without holding them in memory.

Rows are encoded by DuckDB while it reads them and arrive as one or two bytes a cell. Where these
fit the memory limit they are kept; otherwise every call of `counts` reads them again, from a cache
on disk where one is asked for or else from the table, and counts all that is asked for in that one
pass, or in a few where the tables of counts would pass the limit too. Validation happens in the
first scan: a value without a level arrives as NULL, and then a second scan finds which rules are
broken.

Nothing is released here: counts are exact, and private. Errors name columns and rules. What DuckDB
says of an error is dropped, since it may quote the table. At most `max_rows_per_unit` rows of each
unit are counted, by a rule that looks at nothing but the unit's own rows (`schema.units`): this is
what every sensitivity rests on. Stored order plays no part, since a view has none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem
from admeasure.sources.cells import count_cells_in_passes
from admeasure.sources.coarser import Recodings, recoded, recodings
from admeasure.sources.count import count_in_passes
from admeasure.sources.files.cache import CodeFile, dtypes_of
from admeasure.sources.files.encodings import in_utf8
from admeasure.sources.files.engine import connected
from admeasure.sources.files.table import FileTable
from admeasure.sources.files.tables import layout, locate, of_header, without_entries
from admeasure.sources.kind import Progress
from admeasure.sources.texts import TextsOf
from admeasure.sparse import SparseCounts

LEAST_WORK_MEGABYTES = 256


class DuckDBSource:
    """Counts of a table in files: see `admeasure.sources.files.tables.locate` for how it is named.

    The table is read and validated when the source is made. Codes are kept in memory if they take
    at most `memory_megabytes` (half of what the machine has free, if not given). Beyond that they
    are kept on disk in the folder `cache` (see `CodeFile`), where one is given, and
    else the table is read again for each count. DuckDB gets half of `memory_megabytes` again, but
    no less than 256 MB, and so do the joints that one pass counts (`work_bytes`, where given); more
    joints are more passes. The same holds for cells that occur (`sparse`), results included. A
    table that changes between scans is an error where its number of rows changes.
    """

    def __init__(
        self,
        data: str | Path | Sequence[str | Path],
        schema: Schema,
        *,
        memory_megabytes: float | None = None,
        work_bytes: int | None = None,
        cache: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._table = FileTable(locate(data), schema, memory_megabytes)
        self._schema = schema
        self._by: Recodings = {}
        least = max(self._table.memory_megabytes / 2, LEAST_WORK_MEGABYTES)
        self._work_bytes = int(least * 2**20) if work_bytes is None else work_bytes
        self._progress = progress
        self._kept: list[dict[str, np.ndarray]] | None = []
        self._file: CodeFile | None = None
        self._rows = 0
        if cache is not None:  # a folder that will not do is refused before the table is read
            self._file = CodeFile(cache, dtypes_of(schema.columns))
        limit, held = self._table.memory_megabytes * 2**20, 0
        for chunk in self._table.chunks(schema.names, progress):
            self._rows += _length(chunk)
            held += sum(codes.nbytes for codes in chunk.values())
            if held <= limit and self._kept is not None:
                self._kept.append(chunk)
                continue
            if self._file is not None:
                for one in (*(self._kept or ()), chunk):
                    self._file.append(one)
            self._kept = None
        if self._kept is not None:
            self._file = None
        if self._file is not None:
            self._file.finish()

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def in_memory(self) -> bool:
        """Whether the codes are kept in memory, so that counting reads no file."""
        return self._kept is not None

    @property
    def on_disk(self) -> bool:
        """Whether the codes are kept on disk, so that counting does not read the table again."""
        return self._file is not None and self._file.is_open

    def close(self) -> None:
        """Take the codes from the disk. A count after this reads the table again."""
        if self._file is not None:
            self._file.close()

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        if marginals and not any(marginals):
            return [np.array(self._rows, np.int64) for _ in marginals]
        return count_in_passes(
            self._chunks,
            self.schema.domain,
            marginals,
            rows=self._rows,
            pass_cells=self._work_bytes // 8,
        )

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        return count_cells_in_passes(
            self._chunks,
            self.schema.domain,
            marginals,
            rows=self._rows,
            max_bytes=self._work_bytes,
        )

    def by(self, schema: Schema) -> DuckDBSource:
        source = copy.copy(self)
        source._schema, source._by = schema, recodings(self._table.schema, schema)
        return source

    def finding(self, columns: Sequence[str]) -> TextsOf:
        return self._table.finding(columns)

    def _chunks(self, columns: Columns, part: tuple[int, int]) -> Iterator[dict[str, np.ndarray]]:
        """The rows once more; `part` says which pass this is, of how many, for the progress."""
        names = columns or self.schema.names[:1]
        for chunk in self._read(names, part):
            yield recoded({name: chunk[name] for name in names}, self._by)

    def _read(self, names: Columns, part: tuple[int, int]) -> Iterator[dict[str, np.ndarray]]:
        """The same in the levels of the table."""
        if self._kept is not None:
            yield from self._kept
            return
        tell = _part_of(self._progress, *part)
        if self._file is not None and self._file.is_open:
            for k, chunk in enumerate(self._file.chunks(names)):
                yield chunk
                tell((k + 1) / self._file.segments)
            return
        rows = 0
        for chunk in self._table.chunks(names, tell):
            rows += _length(chunk)
            yield chunk
        if rows != self._rows:
            raise DataError(f"{self._table.location.words} changed while it was used. Start again.")


def _part_of(progress: Progress | None, part: int, parts: int) -> Progress:
    """The progress of one of several passes, as progress of the whole. A pass that was not
    foreseen adds nothing."""

    def tell(fraction: float) -> None:
        if progress is not None:
            progress(min((part + fraction) / parts, 1.0))

    return tell


def find_problems(data: str | Path | Sequence[str | Path], schema: Schema) -> list[Problem]:
    """Every rule of the schema that a table in files breaks; an empty list where it is sound.

    For the steward who holds the table: that a rule is broken is knowledge of the table.
    """
    table = FileTable(locate(data), schema, None)
    with table.connection() as connection:
        return table.problems(connection, table.parts(connection))


def storage_types(
    data: str | Path | Sequence[str | Path], encoding: str | None = None
) -> list[tuple[str, str]]:
    """Names and storage types of a table's columns, from its header alone. Where nobody says in
    which encoding that is, it is UTF-8 or else that of Windows."""
    location = of_header(locate(data), encoding)
    with connected(location.paths) as connection:
        part = layout(connection, location)[0]
    return list(zip(part.names, map(without_entries, part.types), strict=True))


def _length(chunk: dict[str, np.ndarray]) -> int:
    return len(next(iter(chunk.values())))


_BATCH = 10_000


def distinct_values(data: Any, name: str, encoding: str | None) -> Iterator[tuple[Any, int]]:
    """Each stored value and how many rows have it; once for each set of files that store the
    column alike. NOT PRIVATE, for who holds the files anyway: nothing of this may enter a release,
    a log or a message; `check --show` prints it on the terminal of whoever asks."""
    location = in_utf8(locate(data), encoding)
    try:
        with connected(location.read_paths) as connection:
            for part in layout(connection, location):
                place, _ = part.stored(name)
                found = connection.execute(
                    f"SELECT {place}, count(*) FROM {part.rows} GROUP BY {place}"
                )
                while batch := found.fetchmany(_BATCH):
                    yield from batch
    except duckdb.Error:
        raise DataError(
            f"The rows of {location.words} cannot be read. `admeasure check` without --show says "
            "why."
        ) from None
