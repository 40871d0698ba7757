"""A damaged budget book is refused, or says what it said before: it never understates.

Damage is made to the bytes of the file: one bit, a sector, a page, its end. A flip that no reader
notices must leave every total, every sum and every closing as they were, or show more as spent.
"""

from __future__ import annotations

import contextlib
import random
import runpy
import shutil
import sqlite3
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from admeasure.errors import AdmeasureError, BudgetError
from admeasure.privacy.account import Account
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of

PARTS = Path(__file__).parent / "broken" / "parts"
UNDERSTATED = "UNDERSTATED: less is spent, or more is left, than before the damage"


def used_book(path: Path) -> Book:
    """Three data sets, one of them closed; runs that ended, failed and still run; several pages."""
    for name in ("adult", "census", "survey"):
        book = Book.create(path, name, epsilon=2, delta=1e-9)
    rng = random.Random(3)
    for i in range(60):
        name = rng.choice(["adult", "census", "survey"])
        number = book.reserve(
            name, book.account(name).total.rho / 50, mechanism="aim", release=f"r{i}"
        )
        share = Fraction(rng.randint(0, 100), 5000)
        end = rng.choice([book.settle, book.fail, lambda number, rho: None])
        end(number, share * book.account(name).total.rho)
    book.close_dataset("survey")
    return book


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> tuple[bytes, tuple[Account, ...]]:
    path = tmp_path_factory.mktemp("sound") / "book.db"
    book = used_book(path)
    assert path.stat().st_size > 4 * 4096
    return path.read_bytes(), book.datasets()


def judge(content: bytes, truth: tuple[Account, ...], path: Path) -> str:
    """Whether a book of these bytes is refused or harmless; an AssertionError for any other."""
    path.write_bytes(content)
    try:
        said = {account.dataset: account for account in Book.open(path).datasets()}
    except AdmeasureError:
        return "refused"
    for account in truth:
        found = said.get(account.dataset)
        assert found is not None, UNDERSTATED
        assert found.spent.rho >= account.spent.rho, UNDERSTATED
        assert found.left.rho <= account.left.rho, UNDERSTATED
        assert found.closed or not account.closed, UNDERSTATED
    return "harmless"


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_no_flipped_bit_makes_a_book_understate(sound, tmp_path, times, tally):
    content, truth = sound
    rng = random.Random(16)
    found = Counter(
        judge(flipped(content, rng.randrange(8 * len(content))), truth, tmp_path / "b.db")
        for _ in range(times(400, 10_000))
    )
    assert found["refused"] > found.total() / 2
    tally("budget book: single bits flipped", found.total())
    tally("budget book: flips refused", found["refused"])


def _sector(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) // 512) * 512
    filling = rng.choice([bytes(512), b"\xff" * 512, rng.randbytes(512)])
    return content[:start] + filling + content[start + 512 :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _swapped(content: bytes, rng: random.Random) -> bytes:
    pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    i, j = rng.sample(range(len(pages)), 2)
    pages[i], pages[j] = pages[j], pages[i]
    return b"".join(pages)


def _doubled(content: bytes, rng: random.Random) -> bytes:
    pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    i, j = rng.sample(range(len(pages)), 2)
    pages[i] = pages[j]
    return b"".join(pages)


@pytest.mark.parametrize("damage", [_sector, _cut, _swapped, _doubled])
def test_no_lost_sector_or_page_makes_a_book_understate(sound, damage, tmp_path, times, tally):
    content, truth = sound
    rng = random.Random(17)
    for _ in range(times(20, 500)):
        judge(damage(content, rng), truth, tmp_path / "b.db")
    tally("budget book: sectors and pages damaged", times(20, 500))


AT_THE_END = (
    "DELETE FROM change WHERE number = (SELECT max(number) FROM change)",
    "DELETE FROM change WHERE number > 5",
    "DELETE FROM change",
    "DELETE FROM seal",
    "UPDATE seal SET changes = changes - 1",
    "INSERT INTO seal SELECT * FROM seal",
    "UPDATE change SET number = number + 1000 WHERE number > 20",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
)
IN_BETWEEN = (
    "DELETE FROM change WHERE number = 9",
    "DELETE FROM mark WHERE entry = 3",
    "UPDATE mark SET length = length + 1 WHERE entry = 3",
    """UPDATE change SET text = replace(text, '"rho":"', '"rho":"1/') WHERE number = 8""",
    """UPDATE change SET text = replace(text, 'census', 'adult')""",
)


@pytest.mark.parametrize("edit", AT_THE_END + IN_BETWEEN)
def test_rows_that_are_lost_or_altered_are_damage(sound, edit, tmp_path):
    """Whoever opens the book sees it. Who had checked those rows before does not look at them
    again, and says what the book said before; where its end is damaged, nobody is granted
    anything."""
    path = tmp_path / "book.db"
    path.write_bytes(sound[0])
    book = Book.open(path)
    before = book.account("adult")
    asked = before.left.rho / 100
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(edit)
    with pytest.raises(BudgetError, match="damaged"):
        Book.open(path)
    with pytest.raises(BudgetError, match="damaged"):
        book.changes()
    if edit in AT_THE_END:
        with pytest.raises(BudgetError, match="damaged"):
            book.reserve("adult", asked, mechanism="aim", release="r")
    else:
        book.reserve("adult", asked, mechanism="aim", release="r")
        assert book.account("adult").spent.rho == before.spent.rho + asked


def test_a_book_that_is_put_back_to_an_older_state_is_refused_by_who_knew_it(sound, tmp_path):
    path = tmp_path / "book.db"
    path.write_bytes(sound[0])
    book = Book.open(path)
    _grow(book, 2)
    assert book.account("adult").spent
    older = path.read_bytes()
    _grow(book, 1)
    spent = book.account("adult").spent
    path.write_bytes(older)
    for ask in (lambda: book.account("adult"), lambda: _grow(book, 1)):
        with pytest.raises(BudgetError, match="put back to an older state"):
            ask()
    again = Book.open(path)
    _grow(again, 1)  # as many changes as before, and another last one
    assert again.account("adult").spent == spent
    with pytest.raises(BudgetError, match="put back to an older state"):
        book.check("adult", spent)


@pytest.mark.parametrize("text", [b"markmark", b"sealseal", b"REATE TABLE", b"adult"])
def test_text_that_is_no_text_is_damage(sound, text, tmp_path):
    """SQLite says the damaged text in its error, as it is."""
    content, _ = sound
    (tmp_path / "book.db").write_bytes(content.replace(text, bytes([text[0] | 128]) + text[1:]))
    with pytest.raises(BudgetError, match="damaged"):
        Book.open(tmp_path / "book.db")


def test_a_book_without_a_chain_is_found_out(sound, tmp_path, monkeypatch, tally):
    """Of single bits about one in sixty made such a book understate: 600 miss it with e^-10."""
    content, truth = sound
    broken = runpy.run_path(str(PARTS / "book_without_chain.py"))
    broken["apply"](monkeypatch.setattr)
    rng = random.Random(16)

    def attack() -> None:
        for _ in range(3000):
            judge(flipped(content, rng.randrange(8 * len(content))), truth, tmp_path / "b.db")

    with pytest.raises(AssertionError, match=broken["CAUGHT_BY"]):
        attack()
    tally("broken variants caught: book_without_chain", 1)


def take_turns(path: Path) -> None:
    """Two that have opened the same book, and charge tenths of it one after the other."""
    Book.create(path, "adult", epsilon=1, delta=1e-9)
    books, granted = (Book.open(path), Book.open(path)), 0
    total = books[0].account("adult").total
    for turn in range(14):
        with contextlib.suppress(BudgetError):
            books[turn % 2].reserve("adult", total / 10, mechanism="aim", release="r")
            granted += 1
    assert granted == 10, "PASSED: more was granted than the total"


def test_who_has_read_the_book_sees_what_others_charge(tmp_path):
    take_turns(tmp_path / "book.db")


def test_a_book_that_does_not_read_on_is_found_out(tmp_path, monkeypatch, tally):
    broken = runpy.run_path(str(PARTS / "book_read_once.py"))
    broken["apply"](monkeypatch.setattr)
    with pytest.raises(AssertionError, match=broken["CAUGHT_BY"]):
        take_turns(tmp_path / "book.db")
    tally("broken variants caught: book_read_once", 1)


# A journal of SQLite's own, left by a kill, goes back to the state before: damage to it as well.


def _killed_while_settling(path: Path) -> tuple[bytes, bytes]:
    """The book and its rollback journal as a kill in the middle of a change leaves them."""
    beside = path.with_name(path.name + "-journal")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        for number in range(1, 30):  # more pages than the cache holds: they are written before
            db.execute("UPDATE change SET link = ? WHERE number = ?", ("0" * 64, number))
        db.execute("CREATE TABLE filler (x)")
        db.executemany("INSERT INTO filler VALUES (?)", [("x" * 3000,)] * 20)
        left = path.read_bytes(), beside.read_bytes()
        db.execute("ROLLBACK")
    return left


def test_no_flipped_bit_of_a_rollback_journal_makes_a_book_understate(
    sound, tmp_path, times, tally
):
    (tmp_path / "first.db").write_bytes(sound[0])
    content, journal = _killed_while_settling(tmp_path / "first.db")
    path = tmp_path / "book.db"
    beside = path.with_name("book.db-journal")
    path.write_bytes(content)
    beside.write_bytes(journal)
    truth = Book.open(path).datasets()  # rolled back
    rng = random.Random(18)
    for _ in range(times(60, 2000)):
        beside.write_bytes(flipped(journal, rng.randrange(8 * len(journal))))
        judge(content, truth, path)
        beside.unlink(missing_ok=True)
    tally("budget book: bits of a rollback journal flipped", times(60, 2000))


# Copies


def _grow(book: Book, times: int) -> None:
    for _ in range(times):
        book.reserve("adult", book.account("adult").left.rho / 10, mechanism="aim", release="later")


def test_a_copy_is_compared_with_the_original(sound, tmp_path):
    (tmp_path / "book.db").write_bytes(sound[0])
    book = Book.open(tmp_path / "book.db")
    shutil.copy(book.path, tmp_path / "copy.db")
    copy = Book.open(tmp_path / "copy.db")
    count = len(book.changes())
    same = book.compare(copy)
    assert (same.shared, same.only_here, same.only_there) == (count, 0, 0)
    _grow(book, 2)
    older = book.compare(copy)
    assert (older.shared, older.only_here, older.only_there) == (count, 2, 0)
    assert older.lacks_nothing
    set_back = copy.compare(book)
    assert (set_back.shared, set_back.only_here, set_back.only_there) == (count, 0, 2)
    assert not set_back.lacks_nothing
    _grow(copy, 3)
    parted = book.compare(copy)
    assert (parted.shared, parted.only_here, parted.only_there) == (count, 2, 3)
    assert not parted.lacks_nothing


def test_another_book_shares_nothing_even_with_the_same_data_sets(tmp_path):
    one = Book.create(tmp_path / "one.db", "adult", epsilon=1, delta=1e-9)
    other = Book.create(tmp_path / "other.db", "adult", epsilon=1, delta=1e-9)
    assert one.compare(other).shared == 0


# Who may read and write it


def test_a_book_is_made_for_its_owner_alone(tmp_path):
    book = Book.create(tmp_path / "book.db", "adult", epsilon=1, delta=1e-9)
    assert book.path.stat().st_mode & 0o777 == 0o600


def test_the_rights_that_a_group_was_given_stay(tmp_path):
    book = Book.create(tmp_path / "book.db", "adult", epsilon=1, delta=1e-9)
    book.path.chmod(0o660)
    Book.create(book.path, "census", epsilon=1, delta=1e-9)
    _grow(book, 2)
    assert book.path.stat().st_mode & 0o777 == 0o660


# Books of format 1

FORMAT_1 = Path(__file__).parent / "book_format_1.sql"


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(FORMAT_1.read_text())
    return path


def as_before(book: Book) -> None:
    adult, census = book.datasets()
    assert (adult.epsilon, adult.delta, adult.closed) == (1, 1e-9, None)
    assert census.closed == "2026-10-03T08:00:00Z"
    assert adult.total.rho == Fraction(rho_of(1, 1e-9))
    running, released, failed = book.history("adult")
    assert [e.id for e in (running, released, failed)] == [1, 2, 4]
    assert (running.status, running.cost.rho, running.ended) == ("running", Fraction(1, 1000), None)
    assert (released.status, released.cost.rho) == ("released", Fraction(1, 3000))
    assert released.reserved.rho == Fraction(1, 2000)
    assert (failed.status, failed.cost.rho) == ("failed", Fraction(1, 700))
    assert adult.spent.rho == Fraction(1, 1000) + Fraction(1, 3000) + Fraction(1, 700)
    assert running.release == "out/first [a1b2c3]"


def test_a_book_of_format_1_is_read_as_it_is(old):
    content = old.read_bytes()
    as_before(Book.open(old))
    assert old.read_bytes() == content


def test_the_first_change_turns_a_book_of_format_1_into_one_of_this(old):
    book = Book.open(old)
    number = book.reserve("adult", Fraction(1, 5000), mechanism="mst", release="new")
    assert number == 5
    book.fail(number, 0)
    book.settle(1, Fraction(1, 9000))
    assert Book.open(old).entry(1).cost.rho == Fraction(1, 9000)
    with contextlib.closing(sqlite3.connect(old)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert {"change", "seal", "mark"} <= tables
    assert not {"entry", "dataset"} & tables


def test_a_refused_change_leaves_a_book_of_format_1_as_it_is(old):
    content = old.read_bytes()
    with pytest.raises(BudgetError, match="Nothing was charged"):
        Book.open(old).reserve("adult", 1, mechanism="mst", release="new")
    assert old.read_bytes() == content
    as_before(Book.open(old))


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entry SET rho = 'nothing' WHERE id = 2",
        "UPDATE entry SET rho = '1/100' WHERE id = 2",
        "UPDATE entry SET dataset = 'nobody' WHERE id = 2",
        "UPDATE entry SET ended = NULL WHERE id = 2",
        "DELETE FROM dataset WHERE name = 'adult'",
    ],
)
def test_what_contradicts_itself_in_a_book_of_format_1_is_damage(old, edit):
    with contextlib.closing(sqlite3.connect(old)) as db, db:
        db.execute(edit)
    with pytest.raises(BudgetError, match="damaged"):
        Book.open(old)
