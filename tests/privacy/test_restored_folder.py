"""A run cannot be resumed from an older copy of its folder, nor from two copies at once.

Each would draw again what was shown already, and the book would count one draw. Without a book
nobody can tell; the run and its certificate say so.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import shutil
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from admeasure.certificate import WITHOUT_BOOK
from admeasure.errors import BudgetError, ResourceError
from admeasure.limits import Limits
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.privacy.noise import ExactNoise
from admeasure.release import Release
from admeasure.release.store import partial_folder
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
DATA = {"a": [0, 1, 2, 0], "b": [0, 1, 0, 1], "c": [1, 1, 0, 0]}
TOTAL = Fraction(rho_of(1.0, 1e-6))
PARTS = Path(__file__).parent / "broken" / "parts"


class After:
    """A listener that stops the run after a number of results, as Ctrl-C does."""

    def __init__(self, results: int) -> None:
        self.left = results

    def __call__(self, event: dict[str, Any]) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


class Steward:
    def __init__(self, folder: Path, *, book: bool = True) -> None:
        self.out, self.copy = folder / "release", folder / "copy"
        self.book = folder / "book.db" if book else None
        if self.book is not None:
            Book.create(self.book, "toy", epsilon=3.0, delta=1e-6)

    @property
    def partial(self) -> Path:
        return partial_folder(self.out)

    def run(self, stop_after: int = 0, out: Path | None = None, **more: Any) -> Release | None:
        listeners = (After(stop_after),) if stop_after else ()
        with contextlib.suppress(KeyboardInterrupt), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit(
                DATA,
                SCHEMA,
                workload="all-2way",
                mechanism=build("gaussian"),
                epsilon=1.0,
                delta=1e-6,
                out=out or self.out,
                charge_to=ChargeTo(self.book, "toy") if self.book else None,
                listeners=listeners,
                resume=partial_folder(out or self.out).exists(),
                **more,
            )
        return None

    def keep_copy(self) -> None:
        shutil.copytree(self.partial, self.copy)

    def put_back(self) -> None:
        shutil.rmtree(self.partial, ignore_errors=True)
        shutil.copytree(self.copy, self.partial)


@pytest.fixture
def steward(tmp_path: Path) -> Steward:
    return Steward(tmp_path)


def test_a_folder_put_back_from_a_copy_is_not_resumed(steward: Steward) -> None:
    steward.run(stop_after=1)
    steward.keep_copy()
    steward.run(stop_after=2)
    newest = steward.partial.rename(steward.out.with_name("newest"))
    steward.put_back()
    assert steward.book is not None
    content = steward.book.read_bytes()
    with pytest.raises(BudgetError, match="not the newest state") as refused:
        steward.run()
    assert refused.value.exit_code == 4
    assert steward.book.read_bytes() == content
    assert not steward.out.exists()
    shutil.rmtree(steward.partial)
    newest.rename(steward.partial)
    assert steward.run() is not None
    assert Book.open(steward.book).account("toy").spent.rho == TOTAL


def test_nor_is_one_that_was_copied_while_it_drew(
    steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy holds the intent of the draw whose result the run showed last."""
    plain: Callable = ExactNoise.discrete_gaussian

    def drawn(noise: ExactNoise, sigma: float, size: int) -> Any:
        if not steward.copy.exists():
            steward.keep_copy()
        return plain(noise, sigma, size)

    monkeypatch.setattr(ExactNoise, "discrete_gaussian", drawn)
    steward.run(stop_after=1)
    steward.put_back()
    with pytest.raises(BudgetError, match="not the newest state"):
        steward.run()


def test_nor_is_an_older_copy_of_a_run_that_ended_at_a_limit(
    steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward.run(stop_after=1)
    steward.keep_copy()
    monkeypatch.setattr("admeasure.limits.resident", lambda: 0.0 if _results(steward) < 2 else 1e9)
    with pytest.raises(ResourceError):
        steward.run(limits=Limits(megabytes=1e6))
    assert steward.book is not None
    charged = Book.open(steward.book).account("toy").spent.rho
    assert charged == _recorded(steward) < TOTAL
    steward.put_back()
    with pytest.raises(BudgetError, match="not the newest state"):
        steward.run()
    assert Book.open(steward.book).account("toy").spent.rho == charged


def _results(steward: Steward) -> int:
    journal = steward.partial / "journal.jsonl"
    return journal.read_bytes().count(b'"event":"measure"') if journal.exists() else 0


def _recorded(steward: Steward) -> Fraction:
    lines = map(json.loads, (steward.partial / "journal.jsonl").read_bytes().splitlines())
    return sum((Fraction(e["rho"]) for e in lines if e["event"] == "measure"), Fraction(0))


def test_of_two_copies_that_go_on_at_once_the_second_to_draw_is_refused(
    steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward.run(stop_after=1)
    twin = steward.out.with_name("twin")
    shutil.copytree(steward.partial, partial_folder(twin))
    journal = partial_folder(twin) / "journal.jsonl"
    before = journal.read_bytes().count(b"\n")
    plain: Callable = ExactNoise.discrete_gaussian

    def drawn(noise: ExactNoise, sigma: float, size: int) -> Any:
        monkeypatch.setattr(ExactNoise, "discrete_gaussian", plain)
        steward.run(stop_after=2)  # the other one draws meanwhile
        return plain(noise, sigma, size)

    monkeypatch.setattr(ExactNoise, "discrete_gaussian", drawn)
    with pytest.raises(BudgetError, match="in another place") as refused:
        steward.run(out=twin)
    assert "stays charged" in str(refused.value)
    assert journal.read_bytes().count(b"\n") <= before + 1, "more than an intent is visible"
    with pytest.raises(BudgetError, match="not the newest state"):
        steward.run(out=twin)
    assert steward.run() is not None


def test_a_limit_that_is_reached_while_replaying_lowers_no_charge(
    steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on record is released, however far the replay came."""
    steward.run(stop_after=2)
    heard: list[object] = []
    monkeypatch.setattr("admeasure.limits.resident", lambda: 1e9 if heard else 0.0)
    with pytest.raises(ResourceError, match="rho") as stopped:
        _fit_hearing(steward, heard)
    recorded = _recorded(steward)
    assert len(heard) == 1
    assert f"{float(recorded):.6g} of" in str(stopped.value)
    assert steward.book is not None
    assert Book.open(steward.book).account("toy").spent.rho == recorded < TOTAL
    monkeypatch.undo()
    assert steward.run() is not None
    assert Book.open(steward.book).account("toy").spent.rho == TOTAL


def _fit_hearing(steward: Steward, heard: list[object]) -> None:
    assert steward.book is not None
    fit(
        DATA,
        SCHEMA,
        workload="all-2way",
        mechanism=build("gaussian"),
        epsilon=1.0,
        delta=1e-6,
        out=steward.out,
        charge_to=ChargeTo(steward.book, "toy"),
        listeners=(heard.append,),
        resume=True,
        limits=Limits(megabytes=1e6),
    )


def test_without_a_book_the_run_and_its_certificate_say_what_is_not_protected(
    tmp_path: Path,
) -> None:
    steward = Steward(tmp_path, book=False)
    steward.run(stop_after=1)
    with pytest.warns(UserWarning, match="no budget book"):
        release = fit(
            DATA,
            SCHEMA,
            workload="all-2way",
            mechanism=build("gaussian"),
            epsilon=1.0,
            delta=1e-6,
            out=steward.out,
            resume=True,
        )
    assert WITHOUT_BOOK in release.certificate.unprotected


def test_with_a_book_the_certificate_says_nothing_of_that(steward: Steward) -> None:
    release = steward.run()
    assert release is not None
    assert WITHOUT_BOOK not in release.certificate.unprotected


def test_a_book_that_knows_no_journals_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Callable[[str, int], None]
) -> None:
    broken = runpy.run_path(str(PARTS / "book_without_marks.py"))
    broken["apply"](monkeypatch.setattr)
    steward = Steward(tmp_path)
    steward.run(stop_after=1)
    steward.keep_copy()
    steward.run(stop_after=2)
    steward.put_back()
    with pytest.raises(AssertionError, match=broken["CAUGHT_BY"]):
        _refuses(steward)
    tally("broken variants caught: book_without_marks", 1)


def _refuses(steward: Steward) -> None:
    with contextlib.suppress(BudgetError):
        steward.run()
        raise AssertionError("RESTORED: an older copy of the folder was resumed")
