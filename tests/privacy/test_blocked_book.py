"""A book that cannot be used while a run is under way: what is said of the charge is true.

Before the reservation nothing is charged; after it the whole budget is, until the run is resumed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admeasure.errors import BudgetError, ResourceError
from admeasure.limits import Limits
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.release import Release
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.screen import screen

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
DATA = {"a": [0, 1, 2, 0], "b": [0, 1, 0, 1]}
TOTAL = Fraction(rho_of(1.0, 1e-6))
NOT_SO = "Nothing was charged"


class Blocker:
    """Another process that holds the book, as far as SQLite can tell."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held: sqlite3.Connection | None = None

    def block(self, *_: object) -> None:
        if self.held is None:
            self.held = sqlite3.connect(self.path, isolation_level=None)
            self.held.execute("BEGIN EXCLUSIVE")

    def free(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None


@pytest.fixture
def blocker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocker]:
    path = tmp_path / "book.db"
    Book.create(path, "toy", epsilon=3.0, delta=1e-6)
    monkeypatch.setattr(Book, "open", classmethod(lambda cls, p: cls(Path(p), wait_seconds=0.1)))
    blocker = Blocker(path)
    yield blocker
    blocker.free()


def run(blocker: Blocker, mechanism: str = "gaussian", **more: Any) -> Release:
    return fit(
        DATA,
        SCHEMA,
        workload="all-1way",
        mechanism=build(mechanism),
        epsilon=1.0,
        delta=1e-6,
        charge_to=ChargeTo(blocker.path, "toy"),
        **more,
    )


def spent(blocker: Blocker) -> Fraction:
    blocker.free()
    return Book(blocker.path).account("toy").spent.rho


def test_a_book_that_is_blocked_before_the_reservation_charges_nothing(blocker, tmp_path):
    blocker.block()
    with pytest.raises(BudgetError, match=NOT_SO):
        run(blocker, out=tmp_path / "release")
    assert spent(blocker) == 0
    assert not (tmp_path / "release.partial").exists()


def test_a_book_that_is_blocked_between_draws_says_that_the_run_is_charged(blocker, tmp_path):
    out = tmp_path / "release"
    with pytest.raises(BudgetError, match=r"locked for 0\.1 s") as stopped:
        run(blocker, out=out, listeners=(blocker.block,))
    said = str(stopped.value)
    assert NOT_SO not in said
    assert f"The whole budget of the run, rho {float(TOTAL):.6g}, stays charged" in said
    assert "--resume" in said
    assert spent(blocker) == TOTAL
    run(blocker, out=out, resume=True)
    assert spent(blocker) == TOTAL


@pytest.mark.parametrize("mechanism", ["gaussian", "all-zero"])
def test_a_book_that_is_blocked_at_the_end_says_that_the_release_is_whole(
    blocker, tmp_path, monkeypatch, mechanism
):
    out = tmp_path / "release"
    save = Release.save
    monkeypatch.setattr(
        Release, "save", lambda self, path, **kw: (save(self, path, **kw), blocker.block())[0]
    )
    with pytest.raises(BudgetError, match="is whole") as stopped:
        run(blocker, mechanism, out=out)
    said = str(stopped.value)
    assert NOT_SO not in said
    assert f"charged rho {float(TOTAL):.6g}" in said
    assert "--resume" in said
    assert spent(blocker) == TOTAL
    monkeypatch.undo()
    release = run(blocker, mechanism, out=out, resume=True)
    assert spent(blocker) == Fraction(release.certificate.rho_spent)
    assert spent(blocker) == (0 if mechanism == "all-zero" else TOTAL)


def test_a_limit_that_is_reached_while_the_book_is_blocked_says_that_all_is_charged(
    blocker, tmp_path, monkeypatch
):
    out = tmp_path / "release"
    monkeypatch.setattr("admeasure.limits.resident", lambda: 1e9 if blocker.held else 0.0)
    with pytest.raises(ResourceError, match="limit") as stopped:
        run(blocker, out=out, listeners=(blocker.block,), limits=Limits(megabytes=1e6))
    said = str(stopped.value)
    assert NOT_SO not in said
    assert "for what it spent" not in said
    assert "stays charged" in said
    assert spent(blocker) == TOTAL
    run(blocker, out=out, resume=True)
    assert spent(blocker) == TOTAL


def test_a_release_in_memory_is_handed_out_with_a_warning(blocker):
    with pytest.warns(UserWarning, match="that stands") as warned:
        release = run(blocker, listeners=(blocker.block,))
    assert NOT_SO not in str(warned[0].message)
    assert len(release.measurements) == 2
    assert spent(blocker) == TOTAL


def test_a_run_in_memory_that_fails_while_the_book_is_blocked_shows_its_own_error(blocker):
    def fail(event: object) -> None:
        blocker.block()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(blocker, listeners=(fail,))
    assert spent(blocker) == TOTAL


def screened(blocker: Blocker, **more: Any):
    return screen(
        DATA,
        {"one": DATA, "two": {"a": [0, 2], "b": [1, 1]}},
        SCHEMA,
        workload="all-1way",
        epsilon=1.0,
        delta=1e-6,
        charge_to=ChargeTo(blocker.path, "toy"),
        **more,
    )


def test_a_screening_that_is_paid_for_is_shown(blocker, monkeypatch):
    settle = Book.settle

    def blocked(self: Book, *args: Any) -> None:
        blocker.block()
        settle(Book(self.path, 0.1), *args)

    monkeypatch.setattr(Book, "settle", blocked)
    with pytest.warns(UserWarning, match="charged in full"):
        found = screened(blocker)
    assert len(found.candidates) == 2
    assert spent(blocker) == TOTAL


def test_a_screening_that_ends_at_its_time_limit_says_what_it_is_charged(blocker, monkeypatch):
    """However many candidates it had come to."""
    cut_short = SimpleNamespace(error=0.0, gap=1.0)
    monkeypatch.setattr("admeasure.privacy.best_mixture.best_mixture", lambda *_, **__: cut_short)
    with pytest.raises(ResourceError) as stopped:
        screened(blocker, time_limit=1e-9)
    assert "the whole budget of the screening is charged" in str(stopped.value)
    assert spent(blocker) == TOTAL
