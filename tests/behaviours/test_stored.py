"""Releases and a budget book that an earlier version wrote are read as it read them.

`stored/` was made at commit 201cdea, on a generated table of 400 people: a release of each kind of
model and one of a threshold, the values that that version answered (`answers.json`), and a book
that three of the releases were charged to. `rap-box` came with its kind of model.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.families.registry import MODELS

STORED = Path(__file__).parent / "stored"
ANSWERED = json.loads((STORED / "answers.json").read_text())
CHARGED = ("aim", "mwem", "thresholds")


@pytest.fixture
def book(tmp_path) -> Path:
    """A copy: to open a book of the first format writes it anew."""
    return Path(shutil.copy(STORED / "book.db", tmp_path / "book.db"))


@pytest.mark.parametrize("name", ANSWERED)
def test_a_stored_release_answers_as_the_version_that_wrote_it(name):
    asked = STORED / ANSWERED[name]["questions"]
    answers = admeasure.answer(STORED / name, asked)
    assert isinstance(answers, list)
    assert {a.name: a.value for a in answers} == pytest.approx(ANSWERED[name]["values"], rel=1e-6)
    assert all(a.low <= a.value <= a.high for a in answers)


@pytest.mark.parametrize("name", ANSWERED)
def test_a_stored_release_passes_its_audit(name, capsys):
    assert run(["audit", str(STORED / name), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.parametrize("name", sorted(set(ANSWERED) - {"gaussian", "rap-box", "thresholds"}))
def test_rows_of_a_stored_release_are_of_its_schema(name):
    release = admeasure.Release.load(STORED / name)
    rows = release.sample_columns(50, seed=1)
    assert list(rows) == [c.name for c in release.schema.columns]
    assert {len(values) for values in rows.values()} == {50}


def test_every_kind_of_model_is_stored():
    kinds = {admeasure.Release.load(STORED / name).model.kind for name in ANSWERED}
    assert kinds == set(MODELS)


def test_a_stored_book_says_what_its_releases_say(book):
    spent = sum(admeasure.Release.load(STORED / n).certificate.rho_spent for n in CHARGED)
    opened = admeasure.Book.open(book)
    assert float(opened.account("people").spent) == pytest.approx(spent)
    assert [e.mechanism for e in opened.history("people")] == ["aim", "mwem", "gaussian"]
    assert opened.account("shut").spent.rho == 0


def test_a_stored_book_goes_on_refusing(book, tmp_path, capsys):
    people = tmp_path / "people.csv"
    people.write_text("region,smoker\nnorth,yes\n")
    asked = ["fit", str(people), "--schema", str(STORED / "mwem" / "schema.toml")]
    asked += ["--workload", "all-2way", "--mechanism", "gaussian", "--delta", "1e-9"]
    asked += ["--out", str(tmp_path / "out"), "--ledger", str(book)]
    assert run([*asked, "--epsilon", "0.1", "--dataset", "shut"]) == 4
    assert run([*asked, "--epsilon", "20", "--dataset", "people"]) == 4
    assert run([*asked, "--epsilon", "0.1", "--dataset", "people"]) == 0
