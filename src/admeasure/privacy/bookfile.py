"""The file behind the budget book: making it, opening it, and saying what is wrong with it.

The file is touched through SQLite alone. Opening and closing it in any other way would drop the
locks that this process holds on it (a rule of POSIX), and with them the guarantee. Making it is the
exception: a file that this call has just made is locked by nobody.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy import changes, format_one
from admeasure.privacy.changes import BookConnection, Change, Damage, SetBack
from admeasure.privacy.journal import NOTHING, Mark

APPLICATION_ID = 0x61646D62  # "admb"
FORMAT = 2
"""1 kept a row for each data set and each run, altered in place. Such a book is read as it is, and
turned into one of format 2 by the first change, in the same transaction."""


PAUSE_SECONDS = (0.001, 0.01)
"""Between two looks whether the write lock is free: by chance, so that no two keep step."""
UNUSABLE = (BudgetError, UsageError)
"""What is raised where a book cannot be used."""


@dataclass(frozen=True)
class BookFile:
    """The store of a book in a file."""

    path: Path
    wait_seconds: float

    def make(self) -> None:
        """Make the book, for its owner alone, where there is none (or an empty file); leave an
        existing book alone.

        One transaction: a kill leaves an empty file, which is no book yet, or a whole book.
        """
        if self.path.absolute().parent.is_dir():
            _make_file(self.path)
        with self._begun(write=True, make=True) as db:
            if _is_empty(db):
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                changes.make_tables(db)
                changes.append(db, {"change": "book"})
                db.execute(f"PRAGMA user_version = {FORMAT}")
            else:
                _check(db, self.path)

    @contextmanager
    def transaction(
        self, *, write: bool = False, unchanged: str = ""
    ) -> Iterator[sqlite3.Connection]:
        """A transaction on a book of a format that is known here.

        One that writes takes the write lock before it reads, so that nobody can spend between the
        look and the charge.
        """
        with self._begun(write=write, unchanged=unchanged) as db:
            if _check(db, self.path) < FORMAT and write:
                _migrate(db)
            yield db

    @contextmanager
    def _begun(
        self, *, write: bool, make: bool = False, unchanged: str = ""
    ) -> Iterator[sqlite3.Connection]:
        """A transaction on the file, whatever is in it."""
        with self._connection(make=make, unchanged=unchanged) as db:
            if write:
                self._begin_to_write(db)
            else:
                db.execute("BEGIN")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def read(self, db: BookConnection, after: Change | None = None) -> tuple[Change, ...]:
        """Every change of the book, or those after one, checked as far as its format can be."""
        if not self.is_current(db):
            return changes.linked(format_one.changes_of(db))
        return changes.read(db, after)

    def is_current(self, db: BookConnection) -> bool:
        return _pragma(db, "user_version") == FORMAT

    def read_mark(self, db: BookConnection, entry: int) -> Mark:
        """How far the journal of a run goes; nothing is known of it in a book of format 1."""
        return changes.read_mark(db, entry) if self.is_current(db) else NOTHING

    def check_marks(self, db: BookConnection, entries: Collection[int]) -> None:
        """`Damage` unless every run has a sound mark."""
        if self.is_current(db) and changes.read_marks(db).keys() != set(entries):
            raise Damage

    def check_pages(self, db: BookConnection) -> None:
        check_pages(db)

    def _begin_to_write(self, db: sqlite3.Connection) -> None:
        """Take the write lock, or raise when it was not free for all the time that is waited.

        SQLite itself looks ten times a second, and keeps no queue: among processes that charge one
        run after the other it can miss every moment at which the lock is free.
        """
        until = time.monotonic() + self.wait_seconds
        db.execute("PRAGMA busy_timeout = 0")
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
            time.sleep(random.uniform(*PAUSE_SECONDS))
        db.execute(f"PRAGMA busy_timeout = {round(1000 * self.wait_seconds)}")

    @contextmanager
    def _connection(
        self, *, make: bool = False, unchanged: str = ""
    ) -> Iterator[sqlite3.Connection]:
        """A connection to the book for the length of the block, with SQLite's errors in plain
        words. `unchanged` is what to say of a change that was not made because the file could not
        be used."""
        path = self.path
        if path.is_dir():
            raise UsageError(f"The budget book {path} is a folder. Name a file.")
        if not make and not path.exists():
            raise NoBook(
                f"There is no budget book {path}. Check the path, or make one by `admeasure ledger "
                "create`."
            )
        if make and not path.absolute().parent.is_dir():
            raise UsageError(f"The folder of the budget book {path} does not exist. Make it first.")
        uri = f"{path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
        try:
            with closing(
                sqlite3.connect(uri, uri=True, timeout=self.wait_seconds, isolation_level=None)
            ) as db:
                db.execute("PRAGMA synchronous = EXTRA")
                yield db
        except sqlite3.Error as error:
            raise _in_words(error, path, self.wait_seconds, unchanged) from error
        except SetBack:
            raise set_back(path) from None
        except (Damage, UnicodeDecodeError):  # SQLite gives texts as they are, in its errors too
            raise damaged(path) from None


def check_pages(db: BookConnection) -> None:
    """`Damage` where a page of the file is damaged. Reads the whole file."""
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise Damage


def damaged(path: object) -> BudgetError:
    return BudgetError(
        f"The budget book {path} is damaged. Restore it from a backup and enter later runs again; "
        "do not start a new book, which would forget what was spent."
    )


def set_back(path: object) -> BudgetError:
    return BudgetError(
        f"The budget book {path} is damaged, or was put back to an older state: it lacks changes "
        "that were in it before. Restore its newest state from a backup and enter later runs again."
    )


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return  # it is there, or cannot be made: SQLite says which


def _migrate(db: BookConnection) -> None:
    """Turn a book of format 1 into one of this format, inside the caller's transaction.

    What a run under way has drawn was not kept before, so its mark is that of an empty journal.
    """
    check_pages(db)  # there is no other check of the old rows
    found = format_one.changes_of(db)
    changes.make_tables(db)
    changes.append(db, {"change": "book"})
    for what in found:
        changes.append(db, what)
        if what["change"] == "reserve":
            changes.write_mark(db, what["entry"], NOTHING)
    format_one.drop(db)
    db.execute(f"PRAGMA user_version = {FORMAT}")


def _check(db: BookConnection, path: Path) -> int:
    """Raise unless this is a book of a format that is known here; the format."""
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
    if version < 1:
        raise Damage
    return version


def _pragma(db: BookConnection, name: str) -> int:
    (value,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _is_empty(db: BookConnection) -> bool:
    (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return objects == 0 and _pragma(db, "application_id") == 0


def _code(error: sqlite3.Error) -> int:
    """Extended codes carry the plain code in their low byte."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _in_words(error: sqlite3.Error, path: Path, wait_seconds: float, unchanged: str) -> Exception:
    code = _code(error)
    said = f"{unchanged} " if unchanged else ""
    if _is_busy(error):
        return BudgetError(
            f"The budget book {path} is in use by another process and stayed locked for "
            f"{wait_seconds:g} s. {said}Try again when the other one has ended."
        )
    if code == sqlite3.SQLITE_NOTADB:
        return UsageError(
            f"{path} is not a budget book. Name another file, or restore it from a backup if it "
            "was one."
        )
    if code == sqlite3.SQLITE_READONLY:
        return BudgetError(
            f"The budget book {path} is read-only. {said}Give yourself the right to write the file "
            "and its folder."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return UsageError(
            f"The budget book {path} cannot be opened. {said}Check the rights to the file and its "
            "folder."
        )
    if code == sqlite3.SQLITE_FULL:
        return BudgetError(
            f"The disk of the budget book {path} is full. {said}Make room, then try again."
        )
    if code == sqlite3.SQLITE_IOERR:
        return BudgetInDoubt(
            f"The budget book {path} could not be read or written (a disk error). Look at "
            "`admeasure ledger show` before the next run: the last change may stand."
        )
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return error  # a fault of ours, not of the file
    return damaged(path)


class NoBook(UsageError):
    """There is no book where one was looked for."""


class BudgetInDoubt(BudgetError):
    """A change of the book that may or may not have been made."""
