"""Eight processes and hundreds of charges on one book: exact totals, nothing lost or doubled."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from admeasure.errors import BudgetError
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from commands import script

PROCESSES = 8
IN_MEMORY = Path("/dev/shm")
EACH = Fraction(rho_of(0.05, 1e-6))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder, in memory where there is one: what is tested is who comes first, not the disk."""
    usable = IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if usable else None) as folder:
        yield Path(folder)


def storm(book: Path, folder: Path, fits: int) -> list[str]:
    """What each fit said that it spent, or that it was refused."""
    charges = Path(__file__).with_name("charges.py")
    done = script(charges, book, PROCESSES, fits, folder).ended(550)
    assert done.code == 0, done.err[-2000:].decode()
    return [line for n in range(PROCESSES) for line in (folder / str(n)).read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_fits_in_eight_processes_add_up_exactly(number, place, times, tally):
    """Four books, each begun by all at once: every charge reads the whole of its book."""
    fits = times(10, 30)
    path = place / "book.db"
    book = Book.create(path, "toy", epsilon=50.0, delta=1e-6)
    told = storm(path, place, fits)
    assert len(told) == PROCESSES * fits
    assert "refused" not in told
    entries = book.history("toy")
    assert len(entries) == len({e.id for e in entries}) == len(told)
    assert {e.status for e in entries} == {"released"}
    assert {e.reserved.rho for e in entries} == {EACH}
    assert Counter(e.cost.rho for e in entries) == Counter(map(Fraction, told))
    assert book.account("toy").spent.rho == sum(map(Fraction, told))
    tally("budget book: charges by 8 processes at once", len(told))


@pytest.mark.slow
def test_a_total_that_suffices_for_some_is_spent_and_never_passed(place, tally):
    """Reservations in flight may refuse a fit that would have fitted; none may slip through."""
    path = place / "book.db"
    book = Book.create(path, "toy", epsilon=0.3, delta=1e-6)
    total = book.account("toy").total.rho
    told = storm(path, place, 30)
    granted = [Fraction(line) for line in told if line != "refused"]
    assert len(granted) < len(told)
    account = book.account("toy")
    assert account.spent.rho == sum(granted) <= total
    assert total - account.spent.rho < EACH
    tally("budget book: charges by 8 processes at once", len(told))


def attempt(book: Path):
    return fit(
        {"a": [0, 1, 1]},
        Schema.coded("toy", {"a": 2}),
        workload="all-1way",
        mechanism=build("gaussian"),
        epsilon=0.05,
        delta=1e-6,
        charge_to=ChargeTo(book, "toy"),
    )


def test_a_locked_book_is_a_clear_error_and_nothing_runs(tmp_path, monkeypatch):
    path = tmp_path / "book.db"
    Book.create(path, "toy", epsilon=1.0, delta=1e-6)
    monkeypatch.setattr(Book, "open", classmethod(lambda cls, p: cls(Path(p), wait_seconds=0.1)))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BudgetError, match="in use by another process") as caught:
        attempt(path)
    assert "Nothing was charged" in str(caught.value)
    holder.execute("ROLLBACK")
    holder.close()
    assert Book(path).account("toy").spent.rho == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="marks the file immutable")
def test_a_read_only_book_is_a_clear_error_and_nothing_runs(place):
    """Rights do not stop the superuser, so he becomes another user, who must reach the folder: not
    one below that which pytest closes to others whenever a run of it starts."""
    path = place / "book.db"
    Book.create(path, "toy", epsilon=1.0, delta=1e-6)
    child = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=False
    )
    assert child.returncode == 4, child.stderr
    assert "read-only" in child.stderr
    assert "Nothing was charged" in child.stderr
    assert Book(path).account("toy").spent.rho == 0


READ_ONLY = """
import os, sys
from pathlib import Path
from admeasure.errors import AdmeasureError
from admeasure.mechanisms import build
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
def run(**charged):
    fit({"a": [0, 1]}, Schema.coded("toy", {"a": 2}), workload="all-1way",
        mechanism=build("gaussian"), epsilon=0.05, delta=1e-6, **charged)
path = Path(sys.argv[1])
path.chmod(0o444)
if os.geteuid() == 0:
    os.chown(path, 0, 0)
    path.parent.chmod(0o755)
    run()  # what it imports is imported before the rights to read it are given up
    os.setegid(65534)
    os.seteuid(65534)
else:
    path.parent.chmod(0o555)
try:
    run(charge_to=ChargeTo(path, "toy"))
except AdmeasureError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
