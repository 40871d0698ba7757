"""A table in files as DuckDB reads it: connections, queries, and the codes they bring, some rows at
a time; what is wrong with it, in the words of the schema. Keeps nothing of the rows.

What DuckDB says of an error is dropped, since it may quote the table.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import duckdb
import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError, ResourceError
from admeasure.limits import available_megabytes
from admeasure.schema.check import NO_ROWS, broken_rules
from admeasure.schema.column import Column
from admeasure.schema.difference import DifferenceEntry, reader, refuse_storage, unreadable
from admeasure.schema.encode import absent_columns
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem, Refusal, data_error
from admeasure.schema.values import quoted
from admeasure.sources.encode import MARKS, Encoding, Marks, encoding, level_marks, steps
from admeasure.sources.files.arrow import StreamError, batches
from admeasure.sources.files.encodings import in_utf8
from admeasure.sources.files.engine import LEAST_MEGABYTES, connected
from admeasure.sources.files.sql import (
    DUCKDB,
    TablePart,
    enum_type,
    no_unit,
    text,
    unit_kind,
    unit_text,
)
from admeasure.sources.files.tables import MOST_LINE, Location, layout
from admeasure.sources.kind import Progress
from admeasure.sources.texts import BLOCK, TextsOf, absent_texts, check_storage, sought_text
from admeasure.sparse import TextCounts


class FileTable:
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
            "allowed. Raise the memory limit, or leave some of the "
            f"{len(self.schema.columns):,} columns out of the schema: each takes about half a MB."
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

    def finding(self, columns: Sequence[str]) -> TextsOf:
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
        if len({unit_kind(part.stored(self._unit)[1].type) for part in parts}) > 1:
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
        refused: dict[str, list[Refusal]] = {name: [] for name in names}
        for (i, refusal), is_broken in zip(self._asked(names), broken, strict=False):
            refused[names[i]] += [refusal] * is_broken
        without, inexact = broken[-2:] if has_unit else (False, False)
        return broken_rules(self.schema, found, refused, without=without, inexact=inexact)

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
            f"FROM (SELECT *, {DUCKDB.fingerprint(['u', codes])} AS hashed FROM ({rows})) "
            f"QUALIFY row_number() OVER (PARTITION BY encode(u) ORDER BY hashed, {codes}) "
            f"<= {self.schema.privacy.max_rows_per_unit} OR {refused}"
        )

    def _all_encoded(
        self, connection: duckdb.DuckDBPyConnection, parts: Sequence[TablePart], names: Columns
    ) -> str:
        marks = {name: level_marks(self.schema.column(name)) for name in names}
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
        places = [part.stored(name) for name in names]
        encodings = [
            encoding(self.schema.column(kept.name), kept, i, DUCKDB)
            for i, (_, kept) in enumerate(places)
        ]
        _create_types(connection, encodings)
        stored = [f"{place} AS x{i}" for i, (place, _) in enumerate(places)]
        unit = []
        if with_unit and self._unit is not None:
            place, kept = part.stored(self._unit)
            key = place, kept.type
            stored += [f"{unit_text(*key)} AS u", f"{no_unit(*key)} AS no_unit"]
            unit = ["u", "no_unit"]
        codes = [
            f"CAST({e.code(marks[name])} AS {sql_type or self._code_type(name)}) AS c{i}"
            for i, (e, name) in enumerate(zip(encodings, names, strict=True))
        ]
        rows = f"SELECT {', '.join(stored) or '1'} FROM {part.rows}"
        for step in steps(encodings):
            rows = f"SELECT {', '.join(['*', *step])} FROM ({rows})"
        return f"SELECT {', '.join(codes + unit) or '1'} FROM ({rows})"

    def _code_type(self, name: str) -> str:
        return "UTINYINT" if self.schema.column(name).dtype == np.uint8 else "USMALLINT"


def _codes(count: int) -> str:
    return ", ".join(f"c{i}" for i in range(count))


def _create_types(connection: duckdb.DuckDBPyConnection, encodings: Sequence[Encoding]) -> None:
    for i, one in enumerate(encodings):
        if one.texts:
            connection.execute(
                f"CREATE OR REPLACE TYPE {enum_type(i)} AS ENUM (SELECT unnest(?))",
                [list(one.texts)],
            )


def check_texts(column: Column, parts: Sequence[TablePart]) -> None:
    for part in parts:
        check_storage(column, part.stored(column.name)[1].storage)


def texts_query(column: Column, parts: Sequence[TablePart], unit: str | None, most: int) -> str:
    """Texts and numbers of units (`OpenTable.texts`), in the order of bytes; at most so many texts
    of a unit. They travel as bytes: a collation of the column would take two of them for one."""
    rows = " UNION ALL ".join(_texts(column, part, unit) for part in parts)
    kept = [f"v IS NOT NULL AND length(v) <= {LONGEST_LEVEL}"]
    if absent := absent_texts(column):
        kept.append(f"encode(v) NOT IN ({', '.join(f'encode({text(one)})' for one in absent)})")
    if unit is None:
        rows = f"SELECT encode(v) AS t FROM ({rows}) WHERE {' AND '.join(kept)}"
    else:
        hashed = f"{DUCKDB.fingerprint(['u', 'v'])} AS hashed"
        rows = f"SELECT encode(u) AS u, encode(v) AS t, {hashed} FROM ({rows}) WHERE " + (
            " AND ".join(kept)
        )
        rows = (
            f"SELECT t FROM (SELECT DISTINCT u, t, hashed FROM ({rows})) "
            f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY hashed, t) <= {most}"
        )
    return f"SELECT t, count(*) AS n FROM ({rows}) GROUP BY t ORDER BY t"


def _texts(column: Column, part: TablePart, unit: str | None) -> str:
    asked = [f"{sought_text(column, DUCKDB.text_of(*part.stored(column.name)), DUCKDB)} AS v"]
    if unit is not None:
        place, stored = part.stored(unit)
        asked.append(f"{unit_text(place, stored.type)} AS u")
    return f"SELECT {', '.join(asked)} FROM {part.rows}"


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[TextCounts]:
    """The result, some texts at a time."""
    found = connection.execute(query)
    while rows := found.fetchmany(BLOCK):
        texts = [raw.decode() for raw, _ in rows]
        yield TextCounts(texts, np.array([count for _, count in rows], np.int64))


def with_differences(part: TablePart, schema: Schema) -> TablePart:
    """A part with a column for each difference of columns that it has, as `schema.difference` says
    what they are. Values are read by the same expressions as those of any column, and what is
    missing makes the difference NULL."""
    for entry in schema.difference:
        if part.names.count(entry.of) == 1 and part.names.count(entry.minus) == 1:
            part = _with(part, schema, entry)
    return part


def _with(part: TablePart, schema: Schema, entry: DifferenceEntry) -> TablePart:
    kept = part.aliases
    taken, encodings = [], []
    for i, name in enumerate((entry.of, entry.minus)):
        column, (alias, stored) = reader(schema, name), part.stored(name)
        if stored.storage not in column.rules:
            raise refuse_storage(column)
        encodings.append(encoding(column, stored, i, DUCKDB))
        taken.append(f"{alias} AS x{i}")
    codes = [f"({e.code(MARKS)}) AS c{i}" for i, e in enumerate(encodings)]
    # Where nothing had to be read the stored value is the number.
    later, earlier = (f"v{i}" if e.value else f"x{i}" for i, e in enumerate(encodings))
    missing, other = int(Refusal.MISSING), unreadable(schema.column(entry.column))
    kind = "DOUBLE" if schema.column(entry.column).holds_reals else "BIGINT"
    value = (
        f"CASE WHEN c0 = {missing} OR c1 = {missing} THEN NULL "
        f"WHEN c0 < 0 OR c1 < 0 THEN {DUCKDB.real(other)} "
        f"ELSE CAST(CAST({later} AS {kind}) - CAST({earlier} AS {kind}) AS DOUBLE) END"
    )
    rows = f"SELECT {kept}, {', '.join(taken)} FROM {part.rows}"
    for step in (*steps(encodings), codes):
        rows = f"SELECT {', '.join(['*', *step])} FROM ({rows})"
    rows = f"SELECT {kept}, {value} AS k{len(part.names)} FROM ({rows})"
    # A column of that name in the table itself is not what the schema means.
    names = tuple("" if name == entry.column else name for name in part.names)
    return TablePart(f"({rows})", (*names, entry.column), (*part.types, "DOUBLE"))
