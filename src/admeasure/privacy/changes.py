"""The changes of a budget book, in the order in which they were made: added to, never altered.

A book is what its changes make of it (`account`): a data set entered or closed, a run charged or
ended. Each is one row, a JSON text, with a number and a link: the SHA-256 of the link before, the
number and the text. A seal beside the rows holds how many there are and the last link. So a row
that is lost, doubled, moved or altered by as little as one bit shows, and so does a seal: a damaged
book is refused and never understates what was spent. Reading changes checks their links; whoever
has read a book up to some change reads on from its link.

A run's mark, how far its journal goes, moves with every draw. It is kept in a row of its own with
a checksum of its own, and says nothing about what is charged.

This is against damage, not against an owner who computes links: whoever can write the file can.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from admeasure.privacy.journal import Mark

What = dict[str, Any]

TABLES = (
    "CREATE TABLE change (number {whole} PRIMARY KEY, text TEXT NOT NULL, link TEXT NOT NULL)",
    "CREATE TABLE seal (changes {whole} NOT NULL, link TEXT NOT NULL)",
    "CREATE TABLE mark (entry {whole} PRIMARY KEY, length {whole} NOT NULL, sha256 TEXT NOT NULL, "
    "checksum TEXT NOT NULL)",
)


_MARKS = "SELECT entry, length, sha256, checksum FROM mark"


class BookConnection(Protocol):
    """What the tables of a book are reached through, inside a transaction: statements of plain SQL,
    with `?` for values."""

    def execute(self, statement: str, values: Any = ..., /) -> Any: ...


class Damage(Exception):
    """What a book holds contradicts itself."""


class SetBack(Damage):
    """A book lacks a change that was in it before."""


@dataclass(frozen=True)
class Change:
    """One change and the link that binds it to all before it."""

    number: int
    what: What
    link: str


def make_tables(db: BookConnection, whole: str = "INTEGER") -> None:
    """Make them; `whole` is the store's type of whole numbers."""
    for statement in TABLES:
        db.execute(statement.format(whole=whole))
    db.execute("INSERT INTO seal VALUES (0, ?)", (_sha256(""),))


def append(db: BookConnection, what: What) -> int:
    """Add a change; its number. Inside a transaction that has read the changes.

    A random text is put before it: two books that were copies of each other share no later link,
    even if the same is entered in both in the same second.
    """
    changes, link = _seal(db)
    text = _text({"id": secrets.token_hex(8), **what})
    link = _linked(link, changes + 1, text)
    db.execute("INSERT INTO change VALUES (?, ?, ?)", (changes + 1, text, link))
    db.execute("UPDATE seal SET changes = ?, link = ?", (changes + 1, link))
    return changes + 1


def linked(found: Iterable[What]) -> tuple[Change, ...]:
    """Changes with the links that they would have."""
    link, made = _sha256(""), []
    for what in found:
        link = _linked(link, len(made) + 1, _text(what))
        made.append(Change(len(made) + 1, what, link))
    return tuple(made)


def read(db: BookConnection, after: Change | None = None) -> tuple[Change, ...]:
    """Every change, or those after one, checked; `Damage` where a link, a number or the seal does
    not fit, `SetBack` where the one is not there."""
    number, link = (0, _sha256("")) if after is None else (after.number, after.link)
    if after is not None:
        known = db.execute("SELECT link FROM change WHERE number = ?", (number,)).fetchone()
        if known != (link,):
            raise SetBack
    found = []
    rows = db.execute(
        "SELECT number, text, link FROM change WHERE number > ? ORDER BY number", (number,)
    )
    for next_number, text, stored in rows:
        number, link = number + 1, _linked(link, number + 1, text)
        if (next_number, stored) != (number, link):
            raise Damage
        found.append(Change(number, _what(text), link))
    if _seal(db) != (number, link):
        raise Damage
    return tuple(found)


def common(one: Sequence[Change], other: Sequence[Change]) -> int:
    """How many changes two books share from the beginning on."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared].link == other[shared].link:
        shared += 1
    return shared


def read_mark(db: BookConnection, entry: int) -> Mark:
    found = _marks(db.execute(f"{_MARKS} WHERE entry = ?", (entry,)))
    if entry not in found:
        raise Damage
    return found[entry]


def read_marks(db: BookConnection) -> dict[int, Mark]:
    return _marks(db.execute(_MARKS))


def _marks(rows: Iterable[tuple[int, int, str, str]]) -> dict[int, Mark]:
    found = {}
    for entry, length, sha256, checksum in rows:
        if entry in found or checksum != _checksum(entry, length, sha256):
            raise Damage
        found[entry] = Mark(length, sha256)
    return found


def write_mark(db: BookConnection, entry: int, mark: Mark) -> None:
    row = (entry, mark.length, mark.sha256)
    db.execute(
        "INSERT INTO mark VALUES (?, ?, ?, ?) ON CONFLICT (entry) DO UPDATE SET length = "
        "excluded.length, sha256 = excluded.sha256, checksum = excluded.checksum",
        (*row, _checksum(*row)),
    )


def _seal(db: BookConnection) -> tuple[int, str]:
    rows = db.execute("SELECT changes, link FROM seal").fetchall()
    if len(rows) != 1:
        raise Damage
    return rows[0]


def _text(what: What) -> str:
    return json.dumps(what, separators=(",", ":"))


def _what(text: str) -> What:
    """A text whose link has been checked, so one that `append` wrote, or somebody who computes
    links; the general reader takes twice as long for all of a book."""
    try:
        what = json.loads(text)
    except (ValueError, RecursionError):
        raise Damage from None
    if not isinstance(what, dict):
        raise Damage
    return what


def _linked(before: str, number: int, text: str) -> str:
    return _sha256(f"{before}\n{number}\n{text}")


def _checksum(entry: int, length: int, sha256: str) -> str:
    return _sha256(f"mark {entry} {length} {sha256}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
