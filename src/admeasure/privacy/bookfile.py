"""The file behind the budget book: making it, opening it, and saying what is wrong with it.

The file is touched through SQLite alone. Opening and closing it in any other way would drop the
locks that this process holds on it (a rule of POSIX), and with them the guarantee.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

from admeasure.errors import BudgetError, UsageError
from admeasure.untrusted import rational

APPLICATION_ID = 0x61646D62  # "admb"
FORMAT = 1

_TABLES = """
CREATE TABLE dataset (
    name TEXT PRIMARY KEY,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    rho TEXT NOT NULL,          -- exact, numerator/denominator
    created TEXT NOT NULL,
    closed TEXT
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    mechanism TEXT NOT NULL,
    release TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'released', 'failed')),
    rho TEXT NOT NULL,          -- what is charged now, exact
    reserved TEXT NOT NULL,     -- what was charged at first, exact
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    started TEXT NOT NULL,
    ended TEXT
);
CREATE INDEX entry_by_dataset ON entry (dataset);
"""


@contextmanager
def connection(
    path: Path, wait_seconds: float, *, make: bool = False
) -> Iterator[sqlite3.Connection]:
    """A connection to the book for the length of the block, with SQLite's errors in plain words."""
    if path.is_dir():
        raise UsageError(f"The budget book {path} is a folder. Name a file.")
    if not make and not path.exists():
        raise UsageError(
            f"There is no budget book {path}. Check the path, or make one by `admeasure ledger "
            "create`."
        )
    if make and not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of the budget book {path} does not exist. Make it first.")
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=wait_seconds, isolation_level=None)
        ) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = EXTRA")
            yield db
    except sqlite3.Error as error:
        raise _in_words(error, path, wait_seconds) from error


def make(path: Path, wait_seconds: float) -> None:
    """Make the book where there is none (or an empty file); leave an existing book alone.

    One transaction: a kill leaves an empty file, which is no book yet, or a whole book.
    """
    with connection(path, wait_seconds, make=True) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            if not _is_empty(db):
                db.execute("ROLLBACK")
                check(db, path)
                return
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in _TABLES.strip().split(";\n"):
                db.execute(statement)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def check(db: sqlite3.Connection, path: Path) -> None:
    """Raise unless this is a book of a format that is known here."""
    application, version = _pragma(db, "application_id"), _pragma(db, "user_version")
    if application != APPLICATION_ID:
        if _is_empty(db):
            raise UsageError(
                f"The budget book {path} is an empty file. If it never was a book, make one by "
                "`admeasure ledger create`; otherwise restore it from a backup."
            )
        raise UsageError(f"{path} is an SQLite file but no budget book. Name another file.")
    if version > FORMAT:
        raise UsageError(
            f"The budget book {path} has format {version}, and this version of admeasure knows "
            f"{FORMAT}. Install a newer version."
        )


def check_whole(db: sqlite3.Connection, path: Path) -> None:
    """Raise where a page of the file is damaged. Reads the whole file, so it is done once."""
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise _damaged(path)


def exact(text: str, path: Path) -> Fraction:
    """A stored rational."""
    try:
        return rational(text)
    except ValueError:
        raise _damaged(path) from None


def _pragma(db: sqlite3.Connection, name: str) -> int:
    (value,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _is_empty(db: sqlite3.Connection) -> bool:
    (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return objects == 0 and _pragma(db, "application_id") == 0


def _in_words(error: sqlite3.Error, path: Path, wait_seconds: float) -> Exception:
    # Extended codes carry the plain code in their low byte.
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BudgetError(
            f"The budget book {path} is in use by another process and stayed locked for "
            f"{wait_seconds:g} s. Nothing was charged. Try again when the other one has ended."
        )
    if code == sqlite3.SQLITE_NOTADB:
        return UsageError(
            f"{path} is not a budget book. Name another file, or restore it from a backup if it "
            "was one."
        )
    if code == sqlite3.SQLITE_READONLY:
        return BudgetError(
            f"The budget book {path} is read-only. Nothing was charged. Give yourself the right to "
            "write the file and its folder."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return UsageError(
            f"The budget book {path} cannot be opened. Check the rights to the file and its folder."
        )
    if code == sqlite3.SQLITE_FULL:
        return BudgetError(
            f"The disk of the budget book {path} is full. Nothing was charged. Make room first."
        )
    if code == sqlite3.SQLITE_IOERR:
        return BudgetError(
            f"The budget book {path} could not be read or written (a disk error). Look at "
            "`admeasure ledger show` before the next run: the last charge may stand."
        )
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return error  # a fault of ours, not of the file
    return _damaged(path)


def _damaged(path: Path) -> BudgetError:
    return BudgetError(
        f"The budget book {path} is damaged. Restore it from a backup and enter later runs again; "
        "do not start a new book, which would forget what was spent."
    )
