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

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError, ResourceError
from admeasure.limits import available_megabytes
from admeasure.schema.check import NO_ROWS
from admeasure.schema.difference import explained
from admeasure.schema.encode import absent_columns
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem, Refusal, data_error, refusals
from admeasure.schema.units import inexact_unit, without_unit
from admeasure.schema.values import quoted
from admeasure.sources.cells import count_cells_in_passes
from admeasure.sources.count import count_in_passes
from admeasure.sources.dialect import Stored
from admeasure.sources.encode import MARKS, Encoding, Marks, encoding, levels_of, steps
from admeasure.sources.files.arrow import StreamError, batches
from admeasure.sources.files.cache import CodeFile, dtypes_of
from admeasure.sources.files.differences import with_differences
from admeasure.sources.files.encodings import in_utf8
from admeasure.sources.files.engine import LEAST_MEGABYTES, connected
from admeasure.sources.files.sql import DuckDB, enum_type, no_unit, storage_of, unit_kind, unit_text
from admeasure.sources.files.tables import (
    MOST_LINE,
    Location,
    TablePart,
    layout,
    locate,
    of_header,
    without_entries,
)
from admeasure.sources.files.texts import check_texts, fetched, texts_query
from admeasure.sources.kind import Progress
from admeasure.sources.texts import Texts
from admeasure.sparse import SparseCounts, TextCounts

_LEAST_WORK_MEGABYTES = 256
_DUCKDB = DuckDB()


class DuckDBSource:
    """Counts of a table in files: see `admeasure.sources.files.tables.locate` for how it is named.

    The table is read and validated when the source is made. Codes are kept in memory if they take
    at most `memory_megabytes` (half of what the machine has free, if not given). Beyond that they
    are kept on disk in the folder `cache` (see `CodeFile`), where one is given, and
    else the table is read again for each count. DuckDB gets half of `memory_megabytes` again, but
    no less than 256 MB, and so do the joints that one pass counts; more joints are more passes. The
    same holds for cells that occur (`sparse`), results included. A table that changes between scans
    is an error where its number of rows changes.
    """

    def __init__(
        self,
        data: str | Path | Sequence[str | Path],
        schema: Schema,
        *,
        memory_megabytes: float | None = None,
        cache: str | Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._table = _Table(locate(data), schema, memory_megabytes)
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
        return self._table.schema

    @property
    def in_memory(self) -> bool:
        """Whether the codes are kept in memory, so that counting reads no file."""
        return self._kept is not None

    @property
    def on_disk(self) -> bool:
        """Whether the codes are kept on disk, so that counting does not read the table again."""
        return self._file is not None

    def close(self) -> None:
        """Take the codes from the disk. A count after this reads the table again."""
        if self._file is not None:
            self._file.close()
            self._file = None

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

    def finding(self, columns: Sequence[str]) -> Texts:
        return self._table.finding(columns)

    @property
    def _work_bytes(self) -> int:
        least = max(self._table.memory_megabytes / 2, _LEAST_WORK_MEGABYTES)
        return int(least * 2**20)

    def _chunks(self, columns: Columns, part: tuple[int, int]) -> Iterator[dict[str, np.ndarray]]:
        """The rows once more; `part` says which pass this is, of how many, for the progress."""
        names = columns or self.schema.names[:1]
        if self._kept is not None:
            yield from self._kept
            return
        tell = _part_of(self._progress, *part)
        if self._file is not None:
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
    table = _Table(locate(data), schema, None)
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


class _Table:
    """A located table and its schema: makes connections and queries, keeps nothing of the rows."""

    def __init__(self, location: Location, schema: Schema, memory_megabytes: float | None) -> None:
        self.location = in_utf8(location, schema.table.encoding)
        self.schema = schema
        given = memory_megabytes is not None
        self.memory_megabytes = memory_megabytes if given else available_megabytes() / 2
        self._unit = schema.privacy.unit_column

    @contextlib.contextmanager
    def connection(self, *, spills: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own for each scan. Only a limit of rows a unit, and texts, need room
        on disk: in a folder that no one else may enter, and that is removed."""
        engine = max(self.memory_megabytes / 2, LEAST_MEGABYTES)
        with contextlib.ExitStack() as stack:
            spill = None
            if spills or self._unit is not None:
                folder = tempfile.TemporaryDirectory(prefix="admeasure-")
                spill = stack.enter_context(folder)
            connection = stack.enter_context(connected(self.location.read_paths, engine, spill))
            try:
                yield connection
            except duckdb.OutOfMemoryException:
                raise self._out_of_memory(engine) from None
            except duckdb.Error:
                raise self._unreadable() from None
            except StreamError as error:
                short = self._out_of_memory(engine) if error.out_of_memory else self._unreadable()
                raise short from None

    def _out_of_memory(self, megabytes: float) -> ResourceError:
        return ResourceError(
            f"Reading {self.location.words} takes more than the {megabytes:,.0f} MB that are "
            "allowed. Raise the memory limit."
        )

    def _unreadable(self) -> DataError:
        hint = {
            "csv": "A row has more or fewer fields than the header or more than "
            f"{MOST_LINE >> 20} MB, a quote is not closed, or the text is not "
            f"{self.location.encoding.upper()} (`encoding = …` under [table] says another)",
            "parquet": "A file is damaged, or files differ in what they store under one name",
            "duckdb": "The file is damaged, or a view reads what is not there",
        }[self.location.format]
        return DataError(f"The rows of {self.location.words} cannot be read. {hint}.")

    def chunks(self, names: Columns, progress: Progress | None) -> Iterator[dict[str, np.ndarray]]:
        """The codes of the named columns, some rows at a time; refused rows raise a DataError."""
        dtypes = [self.schema.column(name).dtype for name in names]
        if self._unit is not None:
            dtypes.append(np.dtype(np.uint8))
        refused = False
        with self.connection() as connection:
            parts = self.parts(connection)
            if absent := self._absent(parts):
                raise data_error(absent)
            self._check_unit(parts)
            query = self._codes_query(connection, parts, names)
            for batch in batches(connection.sql(query), dtypes):
                if batch.with_nulls:
                    refused = True
                    break
                if progress is not None:
                    progress(min(max(connection.query_progress() / 100, 0.0), 1.0))
                yield dict(zip(names, batch.arrays, strict=False))
            if refused:
                found = self.problems(connection, parts)
                raise data_error(found) if found else self._unreadable()
        if progress is not None:
            progress(1.0)

    def parts(self, connection: duckdb.DuckDBPyConnection) -> list[TablePart]:
        """The table's parts, with the schema's differences as columns of them."""
        return [with_differences(part, self.schema) for part in layout(connection, self.location)]

    def finding(self, columns: Sequence[str]) -> Texts:
        with self.connection() as connection:
            parts = layout(connection, self.location)
        for name in columns:
            check_texts(self.schema.column(name), parts)
        most = self.schema.privacy.max_rows_per_unit

        def texts(name: str) -> Iterator[TextCounts]:
            with self.connection(spills=True) as connection:
                parts = layout(connection, self.location)
                query = texts_query(self.schema.column(name), parts, self._unit, most)
                yield from fetched(connection, query)

        return texts

    def _absent(self, parts: Sequence[TablePart]) -> list[Problem]:
        found = (p for part in parts for p in absent_columns(list(part.names), self.schema))
        return list(dict.fromkeys(found))

    def _check_unit(self, parts: Sequence[TablePart]) -> None:
        """Units that are stored in two ways would be merged where one of them is rounded, or split
        where one of them is written another way."""
        if self._unit is None:
            return
        if len({unit_kind(part.types[part.names.index(self._unit)]) for part in parts}) > 1:
            raise DataError(
                f"The files of {self.location.words} store column {quoted(self._unit)} in "
                "different types, so that rows of one unit cannot be told from those of others. "
                "Store it in one type, as texts or as whole numbers."
            )

    def problems(
        self, connection: duckdb.DuckDBPyConnection, parts: Sequence[TablePart]
    ) -> list[Problem]:
        """Which rules are broken, by one scan that looks at every row."""
        found = self._absent(parts)
        absent = {problem.column for problem in found}
        stored = self.schema.stored_as
        names = tuple(n for n in self.schema.names if not absent.intersection(stored(n)))
        has_unit = self._unit is not None and self._unit not in absent
        marks = dict.fromkeys(names, MARKS)
        queries = []
        if has_unit:
            self._check_unit(parts)
        for part in parts:
            asked = [f"bool_or(c{i} = {r}) AS m{i}_{-r}" for i, r in self._asked(names)]
            if has_unit:
                asked += ["bool_or(no_unit)", "bool_or(u IS NULL AND NOT no_unit)"]
            rows = self._encoded(connection, part, names, marks, "INTEGER", with_unit=has_unit)
            queries.append(f"SELECT {', '.join(['count(*) AS n', *asked])} FROM ({rows})")
        results = [connection.execute(query).fetchall()[0] for query in queries]
        if not any(result[0] for result in results):
            return [*found, NO_ROWS]
        broken = [any(result[i] for result in results) for i in range(1, len(results[0]))]
        marked = {
            key for key, is_broken in zip(self._asked(names), broken, strict=False) if is_broken
        }
        for i, name in enumerate(names):
            broken_rules = refusals(self.schema.column(name), [r for j, r in marked if j == i])
            found += explained(self.schema, broken_rules)
        if has_unit:
            without, inexact = broken[-2:]
            found += [without_unit(self._unit)] * without + [inexact_unit(self._unit)] * inexact
        return found

    def _asked(self, names: Columns) -> list[tuple[int, Refusal]]:
        return list(itertools.product(range(len(names)), Refusal))

    def _codes_query(
        self, connection: duckdb.DuckDBPyConnection, parts: Sequence[TablePart], names: Columns
    ) -> str:
        if self._unit is None:
            rows = self._all_encoded(connection, parts, names)
            return f"SELECT {_codes(len(names))} FROM ({rows})"
        # Which rows of a unit are kept is decided by all of its codes, whichever are asked for.
        everything = self.schema.names
        rows = self._all_encoded(connection, parts, everything)
        codes = _codes(len(everything))
        places = ", ".join(f"c{everything.index(name)}" for name in names)
        # A refused row is kept wherever it stands, so that the table is refused because of it.
        refused = " OR ".join(f"{code} IS NULL" for code in ("u", *codes.split(", ")))
        flag = f"CASE WHEN {refused} THEN NULL ELSE 0::UTINYINT END AS u"
        # By bytes: a collation of the column would take two units for one.
        return (
            f"SELECT {places}, {flag} "
            f"FROM (SELECT *, {_DUCKDB.fingerprint(['u', codes])} AS hashed FROM ({rows})) "
            f"QUALIFY row_number() OVER (PARTITION BY encode(u) ORDER BY hashed, {codes}) "
            f"<= {self.schema.privacy.max_rows_per_unit} OR {refused}"
        )

    def _all_encoded(
        self, connection: duckdb.DuckDBPyConnection, parts: Sequence[TablePart], names: Columns
    ) -> str:
        marks = {name: levels_of(self.schema.column(name)) for name in names}
        has_unit = self._unit is not None
        return " UNION ALL ".join(
            self._encoded(connection, part, names, marks, None, with_unit=has_unit)
            for part in parts
        )

    def _encoded(
        self,
        connection: duckdb.DuckDBPyConnection,
        part: TablePart,
        names: Columns,
        marks: Mapping[str, Marks],
        sql_type: str | None,
        *,
        with_unit: bool,
    ) -> str:
        """A part's rows as c0, c1, … (and u, the unit's name, and whether there is none). Each step
        is a query of its own, so that nothing is computed twice."""
        places = [part.names.index(name) for name in names]
        encodings = [
            encoding(self.schema.column(name), _stored(name, part.types[place]), i, _DUCKDB)
            for i, (name, place) in enumerate(zip(names, places, strict=True))
        ]
        _create_types(connection, encodings)
        stored = [f"k{place} AS x{i}" for i, place in enumerate(places)]
        unit = []
        if with_unit and self._unit is not None:
            place = part.names.index(self._unit)
            key = f"k{place}", part.types[place]
            stored += [f"{unit_text(*key)} AS u", f"{no_unit(*key)} AS no_unit"]
            unit = ["u", "no_unit"]
        aliases = ", ".join(f"k{i}" for i in range(len(part.names)))
        codes = [
            f"CAST({e.code(marks[name])} AS {sql_type or self._code_type(name)}) AS c{i}"
            for i, (e, name) in enumerate(zip(encodings, names, strict=True))
        ]
        rows = f"SELECT {', '.join(stored) or '1'} FROM {part.relation} AS stored({aliases})"
        for step in steps(encodings):
            rows = f"SELECT {', '.join(['*', *step])} FROM ({rows})"
        return f"SELECT {', '.join(codes + unit) or '1'} FROM ({rows})"

    def _code_type(self, name: str) -> str:
        return "UTINYINT" if self.schema.column(name).dtype == np.uint8 else "USMALLINT"


def _stored(name: str, sql_type: str) -> Stored:
    return Stored(name, storage_of(sql_type), sql_type)


def _codes(count: int) -> str:
    return ", ".join(f"c{i}" for i in range(count))


def _create_types(connection: duckdb.DuckDBPyConnection, encodings: Sequence[Encoding]) -> None:
    for i, one in enumerate(encodings):
        if one.texts:
            connection.execute(
                f"CREATE OR REPLACE TYPE {enum_type(i)} AS ENUM (SELECT unnest(?))",
                [list(one.texts)],
            )
