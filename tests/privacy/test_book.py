"""The budget book never lets a data set's entries pass its total, and never forgets a charge."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import BudgetError, UsageError
from admeasure.privacy.book import Book, refuse_unless_private

RUN = {"mechanism": "aim", "release": "r"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def book(path):
    return Book.create(path, "adult", epsilon=1, delta=1e-9)


@pytest.mark.parametrize("shares", [3, 7, 10, 49, 100])
def test_exact_shares_fit_exactly(book, shares):
    total = book.account("adult").total.rho
    for _ in range(shares):
        book.reserve("adult", total / shares, **RUN)
    assert book.account("adult").spent.rho == total
    with pytest.raises(BudgetError):
        book.reserve("adult", Fraction(1, 10**40), **RUN)


@pytest.mark.parametrize("shares", [3, 7, 10, 49, 100])
@pytest.mark.parametrize("epsilon", [0.3, 1, 3.7])
def test_float_shares_fit_and_still_never_pass_the_total(path, shares, epsilon):
    book = Book.create(path, "adult", epsilon=epsilon, delta=1e-9)
    total = book.account("adult").total.rho
    share = float(total) / shares
    numbers = [book.reserve("adult", share, **RUN) for _ in range(shares)]
    assert total * (1 - Fraction(1, 2**50)) <= book.account("adult").spent.rho <= total
    assert all(book.entry(n).cost.rho == Fraction(share) for n in numbers[:-1])
    assert book.entry(numbers[-1]).cost.rho <= Fraction(share)
    with pytest.raises(BudgetError):
        book.reserve("adult", share, **RUN)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.fractions(0, 1).filter(bool), st.sampled_from(["settle", "fail", "leave"])),
        max_size=8,
    ),
    st.fractions(0, 1),
)
def test_spent_is_the_exact_sum_of_what_was_granted_and_not_given_back(runs, used):
    with tempfile.TemporaryDirectory() as folder:
        book = Book.create(Path(folder) / "b.db", "x", epsilon=1, delta=1e-9)
        total, spent = book.account("x").total.rho, Fraction(0)
        for share, end in runs:
            rho = share * total
            if spent + rho > total:
                with pytest.raises(BudgetError):
                    book.reserve("x", rho, **RUN)
                continue
            number = book.reserve("x", rho, **RUN)
            if end == "settle":
                book.settle(number, rho * used)
            elif end == "fail":
                book.fail(number)
            spent += rho * used if end == "settle" else rho
            assert book.account("x").spent.rho == spent


def test_seeded_runs_are_refused():
    refuse_unless_private(True)
    with pytest.raises(UsageError, match="NOT PRIVATE and cannot be entered"):
        refuse_unless_private(False)


def test_a_budget_that_is_none_makes_no_file(path):
    with pytest.raises(UsageError):
        Book.create(path, "adult", epsilon=-1, delta=1e-9)
    assert not path.exists()


# Files that cannot be used


def _foreign(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")


def _newer(path):
    Book.create(path, "adult", epsilon=1, delta=1e-9)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def _damaged(path):
    Book.create(path, "adult", epsilon=1, delta=1e-9)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


def _cut_short(path):
    Book.create(path, "adult", epsilon=1, delta=1e-9)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: None, "There is no budget book"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_text("age,sex\n1,2\n" * 100), "not a budget book"),
        (lambda path: path.write_bytes(b""), "empty file"),
        (_foreign, "no budget book"),
        (_newer, "format 99"),
        (_damaged, "damaged"),
        (_cut_short, "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(path, spoil, message):
    spoil(path)
    with pytest.raises((BudgetError, UsageError), match=message) as error:
        Book.open(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("spoil", [_foreign, _newer, _damaged])
def test_create_never_writes_into_a_file_that_is_no_usable_book(path, spoil):
    spoil(path)
    content = path.read_bytes()
    with pytest.raises((BudgetError, UsageError)):
        Book.create(path, "census", epsilon=1, delta=1e-9)
    assert path.read_bytes() == content


def test_an_amount_that_cannot_be_read_is_damage_and_grants_nothing(book, path):
    book.reserve("adult", book.account("adult").total.rho, **RUN)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("""UPDATE change SET text = replace(text, '"rho":"', '"rho":"nothing')""")
    with pytest.raises(BudgetError, match="damaged"):
        book.reserve("adult", 1e-6, **RUN)


def test_a_book_in_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        Book.create(tmp_path / "no" / "b.db", "adult", epsilon=1, delta=1e-9)


def test_a_locked_book_is_waited_for_and_then_refused_without_a_charge(book, path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BudgetError, match=r"locked for 0\.2 s"):
            Book(path, wait_seconds=0.2).reserve("adult", 1e-4, **RUN)
        other.execute("ROLLBACK")
    assert book.history("adult") == ()


def test_a_read_only_book_can_be_read_and_refuses_charges():
    # Rights do not bind the superuser, so a superuser becomes nobody for the length of the test.
    folder = Path(tempfile.mkdtemp())
    book = Book.create(folder / "b.db", "adult", epsilon=1, delta=1e-9)
    superuser = os.geteuid() == 0
    try:
        book.path.chmod(0o444)
        folder.chmod(0o555)
        if superuser:
            os.seteuid(65534)
        assert Book.open(book.path).account("adult").spent.rho == 0
        with pytest.raises(BudgetError, match="read-only"):
            book.reserve("adult", 1e-4, **RUN)
    finally:
        if superuser:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


# Several processes

RESERVER = """
import sys, time
from fractions import Fraction
from admeasure.errors import BudgetError
from admeasure.privacy.book import Book
path, share, start = sys.argv[1], Fraction(sys.argv[2]), float(sys.argv[3])
book = Book.open(path)
time.sleep(max(0.0, start - time.time()))
try:
    while True:
        print(book.reserve("adult", share, mechanism="aim", release="r"), flush=True)
except BudgetError as error:
    assert "is left" in str(error), error
"""


@pytest.mark.parametrize("processes", [2, 8])
def test_processes_that_ask_at_once_never_pass_the_total(book, path, processes):
    total = book.account("adult").total.rho
    share = total * 2 / 61  # thirty fit, and half a share is left over
    start = str(time.time() + 0.15 * processes + 0.3)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RESERVER, str(path), str(share), start],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    granted = []
    for process in started:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        granted += map(int, output.split())
    assert len(granted) == len(set(granted)) == 30
    assert {entry.id for entry in book.history("adult")} == set(granted)
    assert book.account("adult").spent.rho == 30 * share <= total


# What it prints is what its caller was told: a number once the charge is promised, "ending N"
# before a charge may be lowered, "ended N" once it was.
WORKER = """
import os, sys
from fractions import Fraction
from admeasure.privacy.book import Book
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
path, share = sys.argv[1], Fraction(sys.argv[2])
book = Book.create(path, f"d{os.getpid()}", epsilon=1, delta=1e-9)
while True:
    number = book.reserve("adult", share, mechanism="aim", release="r")
    say("reserved", number)
    say("ending", number)
    book.settle(number, share / 2)
    say("ended", number)
"""


def test_a_kill_at_any_moment_leaves_the_book_readable_and_no_charge_forgotten(book, path):
    share = book.account("adult").total.rho / 10**6
    moments = random.Random(0)
    promised: dict[int, str] = {}
    for _ in range(20):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(share)], stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        first = worker.stdout.readline()  # it is under way
        time.sleep(moments.uniform(0, 0.1))
        worker.send_signal(signal.SIGKILL)
        rest, _ = worker.communicate()
        for line in (first + rest).decode().splitlines():
            word, number = line.split()
            promised[int(number)] = word

        entries = {entry.id: entry for entry in Book.open(path).history("adult")}
        for number, word in promised.items():
            least = share if word == "reserved" else share / 2
            assert entries[number].cost.rho >= least
            assert word != "ended" or entries[number].status == "released"
        for entry in entries.values():
            assert entry.cost.rho == (share if entry.status == "running" else share / 2)
        spent = sum((entry.cost.rho for entry in entries.values()), Fraction(0))
        assert book.account("adult").spent.rho == spent
    assert len(promised) >= 20


def test_a_kill_while_a_book_is_made_leaves_no_half_made_book(tmp_path):
    make = (
        "import sys\nfrom admeasure.privacy.book import Book\nprint(flush=True)\n"
        "Book.create(sys.argv[1], 'adult', epsilon=1, delta=1e-9)"
    )
    moments = random.Random(1)
    for attempt in range(8):
        path = tmp_path / f"{attempt}.db"
        maker = subprocess.Popen([sys.executable, "-c", make, str(path)], stdout=subprocess.PIPE)
        assert maker.stdout is not None
        maker.stdout.readline()
        time.sleep(moments.uniform(0, 0.02))
        maker.kill()
        maker.communicate()
        with contextlib.suppress(BudgetError):  # it was made whole before the kill
            Book.create(path, "adult", epsilon=1, delta=1e-9)
        assert Book.open(path).account("adult").spent.rho == 0
