"""A connection to PostgreSQL: one read-only transaction, results as arrays, errors without values.

The transaction is REPEATABLE READ and lasts as long as the source: all scans of a run see the same
rows, whatever others write meanwhile. It is READ ONLY; the user needs no right but SELECT on the
schema's columns. Results come as binary COPY, 64-bit whole numbers only, and become arrays without
a Python object for each cell.

What the server says of an error is dropped, since it may quote the table or the query.
"""

from __future__ import annotations

import socket
import threading
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from psycopg import errors
from sqlglot import exp

from admeasure.errors import AdmeasureError, DataError, ResourceError
from admeasure.schema.values import quoted
from admeasure.sources.dialect import Stored
from admeasure.sources.kind import NotFixed, refusal
from admeasure.sources.warehouse.address import WarehouseAddress
from admeasure.sources.warehouse.dialects.postgres import Postgres, cut_name, stored
from admeasure.sources.warehouse.query import NotComparable
from admeasure.sources.warehouse.views import check

_PATIENCE_SECONDS = 15
_HEADER_BYTES = 19
_BATCH_BYTES = 4 * 2**20
_RELATION = """
SELECT c.oid, c.relkind::text, EXISTS (
  SELECT FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_collation k ON k.oid = a.attcollation
  WHERE a.attrelid = c.oid AND a.attnum > 0
  AND (t.typname = 'citext' OR NOT coalesce(k.collisdeterministic, true))
)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind IN ('r', 'p', 'm', 'v', 'f')
AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
"""A table or view: its number, its kind, and whether different texts of it are equal."""


class PostgresDatabase:
    """One table of one database. `columns` are its columns in stored order."""

    def __init__(self, address: WarehouseAddress) -> None:
        self.address = address
        self.words = address.words
        self._connection = _connect(_parameters(address), address)
        self._begin()
        self.relation = ".".join(map(self.dialect.identifier, address.table))
        with self._or_closed():
            oid, kind = self._find(self.relation)
            if kind == "v":
                self._check_view(oid)

    @classmethod
    def of_query(cls, connection: psycopg.Connection, query: str) -> PostgresDatabase:
        """The rows of a query, over a connection of its own to the same database."""
        info = connection.info
        database = cls.__new__(cls)
        database.address = WarehouseAddress(
            "postgres", info.host, (info.dbname,), ("query",), info.user, info.port
        )
        database.words = f"the ibis table of {database.address.place}"
        parameters = {**info.get_parameters(), "password": info.password}
        database._connection = _connect(parameters, database.address)
        database._begin()
        database.relation = f"({query}) AS stored"
        with database._or_closed():
            database._check_query(query)
        return database

    def close(self) -> None:
        """End the transaction, and with it the locks that keep the table from being altered."""
        self._connection.close()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        weakref.finalize(self, self._connection.close)
        encoding = self._connection.info.parameter_status("server_encoding") or "UTF8"
        self.dialect = Postgres(_PYTHON_ENCODINGS.get(encoding, "utf-8"))
        timeout = int(self.address.options.get("statement_timeout", "0"))
        with self._guarded() as cursor:
            # Compiling such long expressions takes longer than it saves.
            cursor.execute("SET LOCAL jit = off")
            cursor.execute("SET LOCAL standard_conforming_strings = on")
            cursor.execute("SET LOCAL datestyle = 'ISO'")
            cursor.execute("SET LOCAL timezone = 'UTC'")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            if timeout:
                cursor.execute(f"SET LOCAL statement_timeout = {timeout * 1000}".encode())

    @contextmanager
    def _or_closed(self) -> Iterator[None]:
        try:
            yield
        except NotFixed as refused:
            self.close()
            raise refusal(self.words, refused) from None
        except BaseException:
            self.close()
            raise

    def _check_view(self, oid: int) -> None:
        with self._guarded() as cursor:
            cursor.execute("SAVEPOINT names")
            # Whatever is not built in is written with its schema then.
            cursor.execute("SET LOCAL search_path = ''")
            found = cursor.execute("SELECT pg_catalog.pg_get_viewdef(%s::oid)", [oid]).fetchone()
            cursor.execute("ROLLBACK TO SAVEPOINT names")
        self._check_query(str(found and found[0]))

    def _check_query(self, query: str) -> None:
        check(query, "postgres", self._check_relation)

    def _check_relation(self, table: exp.Table) -> None:
        """A table or view that a view reads."""
        name = ".".join(self.dialect.identifier(part.name) for part in table.parts)
        with self._guarded() as cursor:
            found = cursor.execute(_RELATION.encode(), [name]).fetchone()
        if found is None:
            raise NotFixed("it reads what is no table of the database")
        oid, kind, has_equal_texts = found
        if has_equal_texts:
            raise NotFixed("it reads texts with a collation, of which any spelling may be taken")
        if kind == "v":
            self._check_view(oid)

    def _find(self, name: str) -> tuple[int, str]:
        with self._guarded() as cursor:
            found = cursor.execute(
                "SELECT oid, relkind::text FROM pg_catalog.pg_class "
                "WHERE oid = pg_catalog.to_regclass(%s) AND relkind IN ('r', 'p', 'm', 'v', 'f')",
                [name],
            ).fetchone()
        if found is None:
            raise DataError(
                f"There is no {self.words} that the user may see. Check the names (case counts), "
                "and that the user may use the schema."
            )
        return found

    def names(self) -> list[str]:
        """The names of all columns; the user may see them without a right to read any."""
        with self._guarded() as cursor:
            if self.relation.startswith("("):
                cursor.execute(f"SELECT * FROM {self.relation} LIMIT 0".encode())
                return [column.name for column in cursor.description or ()]
            found = cursor.execute(
                "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = "
                "pg_catalog.to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                [self.relation],
            ).fetchall()
        return [name for (name,) in found]

    def known_as(self, name: str) -> str:
        """A name of the schema as this server would have stored it."""
        return cut_name(name)

    def stored(self, names: Sequence[str]) -> list[Stored]:
        """How the named columns are stored."""
        if not names:
            return []
        listed = ", ".join(map(self.dialect.identifier, names))
        with self._guarded() as cursor:
            cursor.execute(f"SELECT {listed} FROM {self.relation} LIMIT 0".encode())
            types = [column.type_code for column in cursor.description or ()]
            found = cursor.execute(
                "SELECT oid, typname, typtype = 'e' FROM pg_catalog.pg_type WHERE oid = ANY(%s)",
                [list(set(types))],
            ).fetchall()
        known = {oid: (name, is_enum) for oid, name, is_enum in found}
        return [
            stored(name, known[oid][0], is_enum=known[oid][1])
            for name, oid in zip(names, types, strict=True)
        ]

    def row(self, query: str) -> tuple[Any, ...]:
        """The one row of an aggregate."""
        with self._guarded() as cursor:
            (found,) = cursor.execute(query.encode()).fetchall()
        return found

    def numbers(self, query: str, names: Sequence[str]) -> Generator[np.ndarray]:
        """The named columns of a query's result, as (rows, columns) arrays; NULL is -1."""
        listed = ", ".join(f"coalesce({name}, -1)::bigint" for name in names)
        layout = np.dtype(
            [("fields", ">i2"), *((n, [("size", ">i4"), ("x", ">i8")]) for n in names)]
        )
        with self._guarded() as cursor:
            copy = f"COPY (SELECT {listed} FROM ({query}) q) TO STDOUT (FORMAT binary)"
            with cursor.copy(copy.encode()) as blocks:
                for held in _joined(blocks, layout.itemsize):
                    rows = np.frombuffer(held, layout)
                    yield np.stack([rows[n]["x"] for n in names], axis=1).astype(np.int64)

    def texts(self, query: str) -> Iterator[tuple[str, int]]:
        """The rows of a query that gives a text and a number, one after the other."""
        with self._guarded() as cursor:
            yield from cursor.stream(query.encode())

    @contextmanager
    def _guarded(self) -> Iterator[psycopg.Cursor]:
        with self._lock:
            try:
                with self._connection.cursor() as cursor:
                    yield cursor
            except psycopg.Error as error:
                raise self._explained(error) from None

    def _explained(self, error: psycopg.Error) -> AdmeasureError:
        match error:
            case errors.InsufficientPrivilege():
                return DataError(
                    f"The user may not read {self.words}. Grant SELECT on the schema's columns of "
                    "the table, and USAGE on its schema."
                )
            case errors.UndefinedFunction():
                return NotComparable(f"Values of {self.words} cannot be compared.")
            case errors.QueryCanceled():
                return ResourceError(
                    f"Counting {self.words} took longer than the server's statement timeout. "
                    "Raise it (?statement_timeout=SECONDS), or ask for fewer marginals."
                )
            case errors.InsufficientResources():
                return ResourceError(
                    f"The server ran out of memory or disk counting {self.words}. Ask for fewer "
                    "marginals, or give the server room."
                )
        if self._connection.closed:
            return DataError(
                f"The connection to {self.address.place} was lost. Start again, with --resume if a "
                "run was under way."
            )
        return DataError(
            f"The rows of {self.words} cannot be read. A view or a policy of the table fails, or "
            "it changed its columns meanwhile."
        )


def _joined(blocks: Any, item: int) -> Iterator[bytearray]:
    """Whole rows of a binary COPY, some at a time. The header comes before, -1 after the rows."""
    held, skip = bytearray(), _HEADER_BYTES
    for block in blocks:
        held += block
        if skip and len(held) >= skip:
            del held[:skip]
            skip = 0
        if not skip and len(held) >= _BATCH_BYTES:
            whole = len(held) // item * item
            yield held[:whole]
            del held[:whole]
    whole = len(held) // item * item
    if whole:
        yield held[:whole]


def _parameters(address: WarehouseAddress) -> dict[str, Any]:
    ours = {"statement_timeout", "host"}
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": address.path[0],
        "connect_timeout": _PATIENCE_SECONDS,
        **{name: value for name, value in address.options.items() if name not in ours},
    }


def _connect(parameters: dict[str, Any], address: WarehouseAddress) -> psycopg.Connection:
    given = {name: value for name, value in parameters.items() if value is not None}
    given |= {"client_encoding": "utf8", "application_name": "admeasure"}
    try:
        connection = psycopg.connect(**given)
    except (psycopg.Error, UnicodeError, ValueError):
        reason = _why_not(address)
        raise DataError(reason) from None
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    connection.prepare_threshold = None  # statements are long, and asked once
    return connection


def _why_not(address: WarehouseAddress) -> str:
    """Why no connection was made, found out anew: what the driver says may hold the password."""
    port = address.port or 5432
    if not address.host.startswith("/"):
        try:
            socket.create_connection((address.host, port), _PATIENCE_SECONDS).close()
        except socket.gaierror:
            return f"There is no host {quoted(address.host)}. Check the address."
        except OSError:
            return (
                f"No server answers at {quoted(address.host)}, port {port}. Check the address, "
                "and that the server may be reached from here."
            )
    return (
        f"The server at {address.place} refused the user, the password or the database. Check "
        "them; a password is taken from the address, PGPASSWORD or ~/.pgpass."
    )


_PYTHON_ENCODINGS = {
    **{f"LATIN{i}": f"iso8859-{i}" for i in range(1, 5)},
    **{f"ISO_8859_{i}": f"iso8859-{i}" for i in range(5, 9)},
    **{
        f"LATIN{i}": f"iso8859-{n}"
        for i, n in zip(range(5, 11), (9, 10, 13, 14, 15, 16), strict=True)
    },
    **{f"WIN{i}": f"cp{i}" for i in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "EUC_CN": "gb2312",
}
"""Encodings of servers that cannot store every text; all others are taken to."""
