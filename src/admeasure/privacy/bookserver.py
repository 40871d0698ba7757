"""A budget book on a PostgreSQL server, for teams: the same changes as in a file, with the same
promises (`book`).

    postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?schema=NAME]

A book is a schema of the database (`admeasure`, unless another is named) with four tables. One that
writes locks the seal's table against every other writer before it reads anything, and keeps the
lock until it has committed: nobody can spend between the look and the charge. One that reads sees
one snapshot. The server has a change on its disk before the call returns, whatever the database's
default for that is. A client that is killed leaves the state before or after a change: the server
rolls back what was not committed when its connection ends.

Where the connection is lost during the commit itself nobody here can tell which, and the error says
so (`BudgetInDoubt`).

An address may hold a password. It is shown nowhere: `str` and `repr` leave it out, with the user,
and what the driver or the server says of an error is dropped.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from admeasure.errors import BudgetError, UsageError
from admeasure.extras import need
from admeasure.privacy import changes
from admeasure.privacy.bookfile import BudgetInDoubt, NoBook, damaged, set_back
from admeasure.privacy.changes import BookConnection, Change, Damage, SetBack
from admeasure.privacy.journal import Mark

if TYPE_CHECKING:
    import psycopg

FORMAT = 2
"""As that of a file: its changes, their links and the seal are the same."""
FORM = "postgres://USER@HOST:PORT/DATABASE?schema=NAME"
SCHEMA = "admeasure"
HIDDEN = "…"
OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "host", "connect_timeout")
PATIENCE_SECONDS = 15
ABANDONED_SECONDS = 60
"""A client that hangs inside a transaction loses it, and the lock, after this time."""

_ADDRESS = re.compile(r"postgres(?:ql)?:/", re.IGNORECASE)
_PLAIN = re.compile(r"[\w.-]{1,63}")


@dataclass(frozen=True)
class BookAddress:
    """Where a book is on a server. `str` is what may be shown and stored: who asks is left out."""

    host: str
    database: str
    schema: str = SCHEMA
    port: int | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        host, database, schema = map(_shown, (self.host, self.database, self.schema))
        return f"postgres://{host}{port}/{database}?schema={schema}"

    @property
    def has_no_secret(self) -> bool:
        """Whether all of it has a form that has no room for a password, the user's name too."""
        named = (
            self.host,
            self.database,
            self.schema,
            self.user or "x",
            *dict(self.options).values(),
        )
        return self.password is None and HIDDEN not in map(_shown, named)


def place_of(book: str | Path | BookAddress) -> Path | BookAddress:
    """Where a book is: a file, or a place on a server.

    >>> str(place_of("postgres://ann:secret@db.example/people"))
    'postgres://db.example/people?schema=admeasure'
    """
    if isinstance(book, BookAddress):
        return book
    if not _ADDRESS.match(str(book)):
        return Path(book)
    if isinstance(book, Path):  # which has taken one of the slashes away
        raise UsageError("Give the address of a budget book on a server as a text, not as a path.")
    return _parsed(book)


def _parsed(text: str) -> BookAddress:
    wrong = UsageError(f"The address of a budget book on a server has the form {FORM}.")
    try:
        parts = urlsplit(text)
        port = parts.port
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise wrong from None
    options = dict(pairs)
    database = unquote(parts.path.removeprefix("/"))
    schema = options.pop("schema", SCHEMA)
    host = unquote(parts.hostname or options.get("host", ""))
    whole = host and database and "/" not in database and schema and not parts.fragment
    if not whole or len(dict(pairs)) < len(pairs):
        raise wrong
    if set(options) - set(OPTIONS):  # not named: part of a password may look like one
        known = ", ".join(("schema", *OPTIONS))
        raise UsageError(f"The address of a budget book has an unknown option. Known: {known}.")
    return BookAddress(
        host=host,
        database=database,
        schema=schema,
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        options=tuple(options.items()),
    )


@dataclass(frozen=True)
class BookServer:
    """The store of a book on a server."""

    address: BookAddress
    wait_seconds: float

    def make(self) -> None:
        """Make the book where there is none; leave an existing one alone. One transaction, which
        others that make a book wait for."""
        with self._begun("READ COMMITTED", "Nothing was entered.") as db:
            db.execute("SELECT pg_advisory_xact_lock(hashtext('admeasure book'))")
            named = (self.address.schema,)
            found = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?"
            if db.execute(found, named).fetchone() is None:
                db.execute(f"CREATE SCHEMA {_quoted(self.address.schema)}")
            tables = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = ?"
            if db.execute(tables, named).fetchone() == (0,):
                changes.make_tables(db, "BIGINT")
                db.execute("CREATE TABLE book (format BIGINT NOT NULL)")
                db.execute("INSERT INTO book VALUES (?)", (FORMAT,))
                changes.append(db, {"change": "book"})
            self._check(db)

    @contextmanager
    def transaction(self, *, write: bool = False, unchanged: str = "") -> Iterator[BookConnection]:
        level = "READ COMMITTED" if write else "REPEATABLE READ, READ ONLY"
        with self._begun(level, unchanged) as db:
            if write:
                db.execute("LOCK TABLE seal IN EXCLUSIVE MODE")
            self._check(db)
            yield db

    def read(self, db: BookConnection, after: Change | None = None) -> tuple[Change, ...]:
        return changes.read(db, after)

    def is_current(self, db: BookConnection) -> bool:
        return True

    def read_mark(self, db: BookConnection, entry: int) -> Mark:
        return changes.read_mark(db, entry)

    def check_marks(self, db: BookConnection, entries: Collection[int]) -> None:
        if changes.read_marks(db).keys() != set(entries):
            raise Damage

    def check_pages(self, db: BookConnection) -> None:
        """The server's own business; links and seal show what it lost."""

    @contextmanager
    def _begun(self, level: str, unchanged: str) -> Iterator[BookConnection]:
        """A transaction, with the driver's errors in plain words."""
        need("psycopg", "warehouse", "A budget book on a server")
        import psycopg

        connection = self._connected(unchanged)
        committing = False
        try:
            db = _Statements(connection)
            milliseconds = max(1, round(1000 * self.wait_seconds))
            settings = (
                f"lock_timeout = {milliseconds}",
                "synchronous_commit = on",
                f"idle_in_transaction_session_timeout = {1000 * ABANDONED_SECONDS}",
                f"search_path = {_quoted(self.address.schema)}",
            )
            begin = (f"BEGIN ISOLATION LEVEL {level}", *(f"SET LOCAL {s}" for s in settings))
            db.execute("; ".join(begin))
            yield db
            committing = True
            if db.execute("COMMIT").statusmessage != "COMMIT":  # it had failed, and was rolled back
                raise psycopg.errors.InternalError_
        except psycopg.Error as error:
            raise self._in_words(error, unchanged, committing=committing) from None
        except SetBack:
            raise set_back(self.address) from None
        except Damage:
            raise damaged(self.address) from None
        finally:
            connection.close()  # which rolls back what was not committed

    def _connected(self, unchanged: str) -> psycopg.Connection:
        import psycopg

        given = {
            "host": self.address.host,
            "port": self.address.port,
            "user": self.address.user,
            "password": self.address.password,
            "dbname": self.address.database,
            "connect_timeout": PATIENCE_SECONDS,
            **dict(self.address.options),
            "client_encoding": "utf8",
            "application_name": "admeasure",
        }
        known = {name: value for name, value in given.items() if value is not None}
        try:
            return psycopg.connect(**known, autocommit=True, prepare_threshold=None)
        except (psycopg.Error, UnicodeError, ValueError):
            reason = self._why_not()
        raise BudgetError(f"{reason} {unchanged}".strip())

    def _why_not(self) -> str:
        """Why no connection was made, found out anew: what the driver says may hold a password."""
        host, port = self.address.host, self.address.port or 5432
        if not host.startswith("/"):
            try:
                socket.create_connection((host, port), PATIENCE_SECONDS).close()
            except OSError:
                return (
                    f"No server answers for the budget book {self.address}. Check the address, and "
                    "that the server may be reached from here."
                )
        return (
            f"The server of the budget book {self.address} refused the user, the password or the "
            "database. Check them; a password is taken from the address, PGPASSWORD or ~/.pgpass."
        )

    def _check(self, db: BookConnection) -> None:
        """Raise unless this is a book of a format that is known here."""
        found = db.execute("SELECT format FROM book").fetchall()
        if len(found) != 1 or found[0][0] < FORMAT:
            raise Damage
        if found[0][0] > FORMAT:
            raise UsageError(
                f"The budget book {self.address} has format {found[0][0]}, and this version of "
                f"admeasure knows {FORMAT}. Install a newer version."
            )

    def _in_words(self, error: psycopg.Error, unchanged: str, *, committing: bool) -> Exception:
        from psycopg import errors

        said = f"{unchanged} " if unchanged else ""
        match error:
            case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
                return BudgetError(
                    f"The budget book {self.address} is in use by another process and stayed "
                    f"locked for {self.wait_seconds:g} s. {said}Try again when the other one has "
                    "ended."
                )
            case errors.InsufficientPrivilege():
                return BudgetError(
                    f"The user may not use the budget book {self.address} for this. {said}Grant "
                    "the rights that the documentation of the book lists."
                )
            case errors.ReadOnlySqlTransaction():
                return BudgetError(
                    f"The budget book {self.address} is read-only: its server is a copy, or set "
                    f"so. {said}Name the server that is written to."
                )
            case errors.InsufficientResources():
                return BudgetError(
                    f"The server of the budget book {self.address} has no room. {said}Make room, "
                    "then try again."
                )
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                return NoBook(
                    f"There is no budget book {self.address}. Check the address, or make one by "
                    "`admeasure ledger create`."
                )
            case errors.IntegrityError() | errors.ProgrammingError():
                return error  # a fault of ours, not of the book
        if committing:
            return BudgetInDoubt(
                f"The connection to the budget book {self.address} was lost while a change was "
                "made. Look at `admeasure ledger show` before the next run: the last change may "
                "stand."
            )
        if isinstance(error, errors.OperationalError):
            return BudgetError(
                f"The connection to the budget book {self.address} was lost. {said}Try again."
            )
        return damaged(self.address)


class _Statements:
    """A connection that takes statements as SQLite writes them."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Iterable[Any] = (), /) -> Any:
        text = statement.replace("?", "%s")
        return self._connection.execute(text.encode(), tuple(values) or None)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _shown(name: str) -> str:
    """A name for messages: a part of a password may have ended up in it."""
    name = name.strip("/")
    return name if all(map(_PLAIN.fullmatch, name.split("/"))) else HIDDEN
