"""Tables of PostgreSQL, BigQuery and Snowflake, encoded and counted where they lie.

The encoder is pushed down as SQL and rows are grouped by their codes there: what leaves the
database is the number of rows in each cell that occurs of the marginals asked for (or of a small
joint of several of them), never a row. Counting many marginals takes few scans: those that fit
together in one small joint are counted as that joint and summed here, and each statement counts as
many joints as `STATEMENT_CELLS` allows from one scan.

On PostgreSQL all scans of a source see one snapshot. Elsewhere a table whose number of rows changes
between scans is an error.

Nothing is released here: counts are exact, and private. Errors name columns and rules. What the
warehouse says of an error is dropped, since it may quote the table. At most `max_rows_per_unit`
rows of each unit are counted (see `admeasure.sources.warehouse.query`): this is what every
sensitivity rests on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from admeasure.domain import Columns, canonical
from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.extras import need
from admeasure.joints import batches, homes, summed
from admeasure.limits import available_megabytes
from admeasure.schema.check import NO_ROWS, broken_rules
from admeasure.schema.encode import absent_columns
from admeasure.schema.model import Schema
from admeasure.schema.problems import Problem, Refusal, data_error
from admeasure.schema.storage import Storage
from admeasure.schema.values import quoted
from admeasure.sources.coarser import AddedUp
from admeasure.sources.count import check, check_columns
from admeasure.sources.dialect import Dialect, Stored
from admeasure.sources.kind import Progress
from admeasure.sources.texts import SOUGHT, TextsOf, check_storage, in_blocks
from admeasure.sources.warehouse.address import parse
from admeasure.sources.warehouse.query import NOWHERE, NotComparable, WarehouseTable
from admeasure.sparse import LARGEST_POSITION, SparseCounts

JOINT_CELLS = 16_384
"""The largest joint that is counted although nobody asked for it."""

STATEMENT_CELLS = 2**21
"""The most cells that one statement counts, unless one marginal alone has more: the server holds
about a hundred bytes for each cell that occurs until a statement ends."""

STATEMENT_JOINTS = 100
"""The most joints of one statement. Snowflake takes 128 grouping sets."""


class Database(Protocol):
    """What a warehouse is asked for."""

    words: str
    dialect: Dialect
    relation: str

    def names(self) -> list[str]: ...
    def known_as(self, name: str) -> str: ...
    def stored(self, names: Sequence[str]) -> list[Stored]: ...
    def row(self, query: str) -> tuple[Any, ...]: ...
    def numbers(self, query: str, names: Sequence[str]) -> Generator[np.ndarray]: ...
    def close(self) -> None: ...


@runtime_checkable
class GivesTexts(Protocol):
    """A database that texts are read from."""

    def texts(self, query: str) -> Iterator[tuple[str, int]]: ...


def open_warehouse(
    data: Any,
    schema: Schema,
    *,
    memory_megabytes: float | None = None,
    progress: Progress | None = None,
) -> WarehouseSource:
    """The source of a table of a warehouse, read once and validated.

    `data` is an address (see `admeasure.sources.warehouse.address`) or an ibis table expression of
    a PostgreSQL, BigQuery or Snowflake backend. `memory_megabytes` limits the arrays of one call of
    `counts` or `sparse` (half of what the machine has free, if not given).
    """
    with contextlib.ExitStack() as unless_opened:
        database = unless_opened.enter_context(contextlib.closing(connect(data)))
        limit = memory_megabytes
        source = WarehouseSource(database, schema, memory_megabytes=limit, progress=progress)
        source.validate()
        unless_opened.pop_all()
    return source


def find_problems(data: Any, schema: Schema) -> list[Problem]:
    """Every rule of the schema that a table breaks; an empty list where it is sound.

    For the steward who holds the table: that a rule is broken is knowledge of the table.
    """
    with contextlib.closing(connect(data)) as database:
        return WarehouseSource(database, schema).problems()


def storage_types(data: Any) -> list[tuple[str, str]]:
    """Names and storage types of a table's columns. No row is read."""
    with contextlib.closing(connect(data)) as database:
        return [(one.name, _WORDS[one.storage]) for one in database.stored(database.names())]


# The words of DuckDB, which `admeasure.schema.draft` reads.
_WORDS = {
    Storage.TEXT: "VARCHAR",
    Storage.BOOLEAN: "BOOLEAN",
    Storage.WHOLE: "BIGINT",
    Storage.WIDE: "HUGEINT",
    Storage.REAL: "DOUBLE",
    Storage.DECIMAL: "DECIMAL",
    Storage.DAY: "DATE",
    Storage.MOMENT: "TIMESTAMP WITH TIME ZONE",
    Storage.OTHER: "BLOB",
}


def connect(data: Any) -> Database:
    """The database of an address or of an ibis table."""
    if not isinstance(data, str):
        return _of_ibis(data)
    address = parse(data)
    if address.kind == "postgres":
        return _postgres().PostgresDatabase(address)
    from admeasure.sources.warehouse.ibis import connected

    return connected(address)


def _postgres() -> Any:
    need("psycopg", "warehouse", "Reading a table of PostgreSQL")
    from admeasure.sources.warehouse import postgres

    return postgres


def _of_ibis(table: Any) -> Database:
    from admeasure.sources.warehouse.ibis import DIALECTS, IbisDatabase

    wanted = "Give an ibis table of PostgreSQL, BigQuery or Snowflake."
    if not hasattr(table, "get_backend") or not hasattr(table, "schema"):
        raise UsageError(f"A {type(table).__name__} is not a table. {wanted}")
    try:
        backend = table.get_backend()
    except Exception:
        raise UsageError(f"The ibis table belongs to no database. {wanted}") from None
    if backend.name == "postgres":
        return _postgres().PostgresDatabase.of_query(backend.con, backend.compile(table))
    if backend.name in DIALECTS:
        return IbisDatabase(table, f"The ibis table of {backend.name}")
    raise UsageError(f"There is no source for ibis tables of {quoted(backend.name)}. {wanted}")


class WarehouseSource:
    """Counts of one table of a warehouse, after `validate`: see `open_warehouse`.

    It holds a connection, and on PostgreSQL a transaction, until `close` or until it is no longer
    used.
    """

    def __init__(
        self,
        database: Database,
        schema: Schema,
        *,
        memory_megabytes: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._database = database
        self._schema = schema
        given = memory_megabytes is not None
        self._memory_megabytes = memory_megabytes if given else available_megabytes() / 2
        self._progress = progress
        self._rows = 0
        unit = schema.privacy.unit_column
        wanted = (*schema.names, *([] if unit is None else [unit]))
        # A server that cuts long names knows a column by the cut one.
        back = {database.known_as(name): name for name in wanted}
        self._absent = absent_columns([back.get(name, name) for name in database.names()], schema)
        absent = {problem.column for problem in self._absent}
        self._present = tuple(name for name in schema.names if name not in absent)
        names = [name for name in wanted if name not in absent]
        self._table = WarehouseTable(
            database.dialect,
            database.relation,
            tuple(database.stored(names)),
            schema,
        )

    @property
    def in_memory(self) -> bool:
        return False

    @property
    def schema(self) -> Schema:
        return self._schema

    def close(self) -> None:
        """End the connection."""
        self._database.close()

    def validate(self) -> None:
        """One scan, which counts the rows; a second one only where a value has no level."""
        self._tell(0.0)
        if self._absent:
            raise data_error(self._absent)
        rows, *found = self._database.row(self._table.sound())
        if any(with_level < rows for with_level in found):
            problems = self.problems()
            raise data_error(problems) if problems else self._changed()
        self._rows = int(rows) if self._table.unit is None else self._kept()
        self._tell(1.0)

    def _kept(self) -> int:
        try:
            (rows,) = self._database.row(self._table.kept())
        except NotComparable:
            raise DataError(
                f"Column {quoted(self._schema.privacy.unit_column)} cannot name units: its values "
                "cannot be compared. Use texts, numbers or dates."
            ) from None
        return int(rows)

    def problems(self) -> list[Problem]:
        """Which rules are broken, by one scan that looks at every row."""
        query, asked = self._table.broken(self._present)
        rows, *found = self._database.row(query)
        if not rows:
            return [*self._absent, NO_ROWS]
        refused: dict[str, list[Refusal]] = {name: [] for name in self._present}
        for (name, refusal), is_broken in zip(asked, found, strict=False):
            refused[name] += [refusal] * bool(is_broken)
        without, inexact = map(bool, (0, 0) if self._table.unit is None else found[-2:])
        return broken_rules(self._schema, self._absent, refused, without=without, inexact=inexact)

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        domain = self._schema.domain
        marginals = [tuple(columns) for columns in marginals]
        check(domain, marginals)
        home = homes(domain, [canonical(m) for m in marginals if m], JOINT_CELLS)
        tables = self._joints(sorted(set(home.values())))
        result = []
        for columns in marginals:
            if not columns:
                result.append(np.array(self._rows, np.int64))
                continue
            joint = home[canonical(columns)]
            result.append(np.array(summed(tables[joint], joint, columns), np.int64, order="C"))
        return result

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        domain = self._schema.domain
        marginals = [tuple(columns) for columns in marginals]
        check_columns(domain, marginals)
        wanted = {canonical(m) for m in marginals if m}
        small = sorted(m for m in wanted if domain.cells(m) <= JOINT_CELLS)
        found: dict[Columns, SparseCounts] = {}
        for columns, table in zip(small, self.counts(small), strict=True):
            flat = table.reshape(-1)
            found[columns] = self._unflat(columns, places := np.flatnonzero(flat), flat[places])
        numbered = [m for m in sorted(wanted - set(small)) if domain.cells(m) <= LARGEST_POSITION]
        for columns in numbered:
            pairs = self._collected(self._table.cells([columns], domain), ("place", "n"))
            pairs = pairs[np.argsort(pairs[:, 0])]
            self._check_rows(pairs[:, 0], int(pairs[:, 1].sum()))
            found[columns] = self._unflat(columns, pairs[:, 0], pairs[:, 1])
        for columns in sorted(wanted - set(small) - set(numbered)):
            names = [*(f"c{i}" for i in range(len(columns))), "n"]
            cells = self._collected(self._table.combinations(columns), names)
            cells = cells[np.lexsort(cells[:, -2::-1].T)]
            self._check_rows(cells[:, :-1].min(axis=1, initial=0), int(cells[:, -1].sum()))
            found[columns] = SparseCounts(columns, cells[:, :-1], cells[:, -1])
        found[()] = _nothing_but_rows(self._rows)
        return [_in_order_asked(found[canonical(m)], m) for m in marginals]

    def by(self, schema: Schema) -> AddedUp:
        return AddedUp(self, schema)

    def finding(self, columns: Sequence[str]) -> TextsOf:
        database = self._database
        if not isinstance(database, GivesTexts):
            raise UsageError(f"{SOUGHT} are found in PostgreSQL, and in no other warehouse.")
        for name in columns:
            check_storage(self._schema.column(name), self._table.stored[name].storage)
        return lambda name: in_blocks(database.texts(self._table.texts(name)))

    def _unflat(self, columns: Columns, places: np.ndarray, counts: np.ndarray) -> SparseCounts:
        codes = np.unravel_index(places, self._schema.domain.shape(columns))
        return SparseCounts(columns, np.stack(codes, axis=1).astype(np.int64), counts.copy())

    def _collected(self, query: str, names: Sequence[str]) -> np.ndarray:
        limit, held = self._memory_megabytes * 2**20 / 3, 0  # sorting takes copies
        batches = []
        with contextlib.closing(self._database.numbers(query, names)) as arriving:
            for batch in arriving:
                held += batch.nbytes
                if held > limit:
                    raise ResourceError(
                        "The cells of one marginal take more than "
                        f"{self._memory_megabytes:,.0f} MB. Raise the memory limit, or ask for "
                        "fewer columns."
                    )
                batches.append(batch)
        return np.concatenate(batches) if batches else np.zeros((0, len(names)), np.int64)

    def _joints(self, joints: Sequence[Columns]) -> dict[Columns, np.ndarray]:
        """The count array of each joint."""
        domain = self._schema.domain
        tables: dict[Columns, np.ndarray] = {}
        statements = list(batches(joints, domain.cells, STATEMENT_CELLS, STATEMENT_JOINTS))
        for number, together in enumerate(statements):
            self._tell(number / len(statements))
            ends = np.cumsum([domain.cells(joint) for joint in together])
            flat = np.zeros(ends[-1], np.int64)
            for batch in self._database.numbers(
                self._table.cells(together, domain), ("place", "n")
            ):
                if (batch[:, 0] == NOWHERE).any():
                    raise self._changed()
                flat[batch[:, 0]] = batch[:, 1]
            for joint, table in zip(together, np.split(flat, ends[:-1]), strict=True):
                if int(table.sum()) != self._rows:
                    raise self._changed()
                tables[joint] = table.reshape(domain.shape(joint))
        self._tell(1.0)
        return tables

    def _check_rows(self, places: np.ndarray, rows: int) -> None:
        if rows != self._rows or (places == NOWHERE).any():
            raise self._changed()

    def _changed(self) -> DataError:
        words = self._database.words
        return DataError(f"{words[0].upper()}{words[1:]} changed while it was used. Start again.")

    def _tell(self, part: float) -> None:
        if self._progress is not None:
            self._progress(part)


def _nothing_but_rows(rows: int) -> SparseCounts:
    """The marginal of no columns: one cell, which occurs where there are rows."""
    occurs = int(rows > 0)
    return SparseCounts((), np.zeros((occurs, 0), np.int64), np.full(occurs, rows, np.int64))


def _in_order_asked(found: SparseCounts, columns: Columns) -> SparseCounts:
    """With the columns as they were asked for, and arrays of the caller's own."""
    codes = found.codes[:, [found.columns.index(c) for c in columns]]
    order = np.lexsort(codes[:, ::-1].T) if columns else np.arange(len(found.counts))
    return SparseCounts(columns, codes[order], found.counts[order])
