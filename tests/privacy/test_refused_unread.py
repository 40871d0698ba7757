"""A run that the budget book refuses is refused before a byte of the table is read.

The tables here cannot be read at all: one is not there, one answers no call, one is columns that
fail when they are touched. A refusal by the book is only possible where nobody tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from admeasure.cli.run import run
from admeasure.errors import AdmeasureError, BudgetError, LimitReached, UsageError
from admeasure.limits import Limits, Watch
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.verbs.screen import screen

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2})
DATA = {"a": [0, 1, 2, 0], "b": [0, 1, 0, 1]}
ASKED: dict[str, Any] = {"workload": "all-1way", "epsilon": 1.0, "delta": 1e-6}


class Untouchable(Mapping[str, Any]):
    """Columns of which nothing may be asked, not even their names."""

    def __getitem__(self, name: str) -> NoReturn:
        raise AssertionError("the table was read")

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the table was read")

    def __len__(self) -> int:
        raise AssertionError("the table was read")


def by_fit(data: Any, charge_to: ChargeTo, **given: Any) -> None:
    mechanism = build("independent")
    fit(data, SCHEMA, mechanism=mechanism, charge_to=charge_to, **ASKED, **given)


def by_screen(data: Any, charge_to: ChargeTo, **given: Any) -> None:
    screen(data, {"like": DATA}, SCHEMA, charge_to=charge_to, **ASKED, **given)


def spent(book: Book) -> None:
    book.reserve("toy", book.account("toy").total.rho * 9 / 10, mechanism="aim", release="r")


def closed(book: Book) -> None:
    book.close_dataset("toy")


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book.create(tmp_path / "book.db", "toy", epsilon=1.0, delta=1e-6)


@pytest.fixture(params=["a missing file", "a server that is not there", "untouchable columns"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {
        "a missing file": str(tmp_path / "missing.csv"),
        "a server that is not there": "postgres://ann@127.0.0.1:1/db?table=people",
        "untouchable columns": Untouchable(),
    }[request.param]


@pytest.mark.parametrize("verb", [by_fit, by_screen])
@pytest.mark.parametrize(("refuse", "said"), [(spent, "is left"), (closed, "was closed")])
def test_the_book_refuses_before_the_table_is_read(book, table, verb, refuse, said):
    refuse(book)
    before = book.changes()
    with pytest.raises(BudgetError, match=said) as refused:
        verb(table, ChargeTo(book.path, "toy"))
    assert "Nothing was charged" in str(refused.value)
    assert book.changes() == before


@pytest.mark.parametrize("verb", [by_fit, by_screen])
def test_a_data_set_that_is_not_in_the_book_is_refused_before_the_table_is_read(book, table, verb):
    with pytest.raises(UsageError, match="no data set 'tyo'"):
        verb(table, ChargeTo(book.path, "tyo"))


@pytest.mark.parametrize("verb", [by_fit, by_screen])
def test_these_tables_cannot_be_read(book, table, verb):
    """What the tests above rest on."""
    with pytest.raises((AdmeasureError, AssertionError)) as failed:
        verb(table, ChargeTo(book.path, "toy"))
    assert not isinstance(failed.value, BudgetError)
    assert book.history("toy") == ()


def test_what_is_left_of_a_stopped_run_is_asked_for_before_the_table_is_read(book, tmp_path):
    """A run that ended at a limit reserves the rest when it is resumed; meanwhile it was spent."""
    charge_to, out = ChargeTo(book.path, "toy"), tmp_path / "release"

    def full(_: object) -> None:
        raise LimitReached("There is no more time.")

    with pytest.raises(LimitReached):
        by_fit(DATA, charge_to, out=out, listeners=(full,), limits=Watch(Limits()))
    left = book.account("toy").left
    assert left.rho > 0
    book.reserve("toy", left, mechanism="aim", release="another")
    with pytest.raises(BudgetError, match="Nothing is left"):
        by_fit(Untouchable(), charge_to, out=out, resume=True)


def test_the_command_refuses_before_the_table_is_read(book, tmp_path, capfd):
    spent(book)
    (tmp_path / "schema.toml").write_text(SCHEMA.dumps())
    argv = ["fit", str(tmp_path / "missing.csv"), "--schema", str(tmp_path / "schema.toml")]
    argv += ["--workload", "all-1way", "--epsilon", "1", "--out", str(tmp_path / "release")]
    argv += ["--ledger", str(book.path), "--dataset", "toy"]
    assert run(argv) == 4
    assert "Nothing was charged" in capfd.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"book.db", "schema.toml"}
