"""`admeasure run`: one file for a run, checked wholly before anything is read or charged; the same
file again goes on, makes what is missing, and charges nothing twice."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import AdmeasureError, ExitCode, UsageError
from admeasure.mechanisms import REGISTRY
from admeasure.planning.mechanism import makes_rows
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.release import Release
from admeasure.schema import Schema

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 2})
QUERIES = '[[query]]\nname = "some"\nwhere = {a = 1, b = 0}\n'
FILE = """
data = "private/people.csv"
schema = "schema.toml"
workload = "all-2way"
out = "release"
[budget]
epsilon = 1.0
delta = 1e-6
book = "book.db"
dataset = "toy"
[mechanism]
name = "mwem"
rounds = 4
[rows]
file = "rows.csv"
rows = 50
[answers]
queries = "q.toml"
file = "answers.json"
[report]
file = "report.html"
"""
OUTPUTS = ("rows.csv", "answers.json", "report.html")
ONE = Fraction(rho_of(1.0, 1e-6))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that the file names; the command is given elsewhere."""
    folder = tmp_path / "pipeline"
    (folder / "private").mkdir(parents=True)
    rows = "".join(f"{i % 3},{i % 2},{i // 3 % 2}\n" for i in range(120))
    (folder / "private" / "people.csv").write_text("a,b,c\n" + rows)
    (folder / "schema.toml").write_text(SCHEMA.dumps())
    (folder / "q.toml").write_text(QUERIES)
    (folder / "release.toml").write_text(FILE)
    Book.create(folder / "book.db", "toy", epsilon=3, delta=1e-6)
    monkeypatch.chdir(tmp_path)
    return folder


def spent(place: Path) -> Fraction:
    return Book.open(place / "book.db").account("toy").spent.rho


def test_a_run_file_makes_the_release_and_all_that_it_names(place, capfd):
    assert run(["run", "pipeline/release.toml", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["fitted"] is True
    assert [Path(f).name for f in said["written"]] == list(OUTPUTS)
    release = Release.load(place / "release")
    assert release.certificate.mechanism == "mwem"
    assert release.certificate.options["rounds"] == 4
    assert release.certificate.dataset == "toy"
    assert spent(place) == sum(Fraction(e["rho"]) for e in release.log if e["event"] != "intent")
    with (place / "rows.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 50
    answers = json.loads((place / "answers.json").read_text())
    (found,) = answers["answers"]
    (expected,) = release.answer(place / "q.toml")
    assert (found["name"], found["value"], found["low"]) == ("some", expected.value, expected.low)
    assert "<html" in (place / "report.html").read_text()


def test_run_again_a_file_does_nothing_and_charges_nothing(place):
    admeasure.run_file(place / "release.toml")
    before = {f: (place / f).read_bytes() for f in OUTPUTS}
    changes = Book.open(place / "book.db").changes()
    again = admeasure.run_file(place / "release.toml")
    assert (again.fitted, again.written) == (False, ())
    assert {path.name for path in again.kept} == set(OUTPUTS)
    assert {f: (place / f).read_bytes() for f in OUTPUTS} == before
    assert Book.open(place / "book.db").changes() == changes


def test_what_is_missing_of_a_finished_run_is_made_without_a_charge(place):
    admeasure.run_file(place / "release.toml")
    changes = Book.open(place / "book.db").changes()
    (place / "answers.json").unlink()
    (place / "private" / "people.csv").unlink()  # and nothing is read
    again = admeasure.run_file(place / "release.toml")
    assert [path.name for path in again.written] == ["answers.json"]
    assert Book.open(place / "book.db").changes() == changes


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("epsilon = 1.0", "epsilon = 0.5", "epsilon"),
        ("delta = 1e-6", "delta = 1e-7", "delta"),
        ('workload = "all-2way"', 'workload = "all-1way"', "workload"),
        ("rounds = 4", "rounds = 5", "mechanism"),
        ('name = "mwem"\nrounds = 4', 'name = "mst"', "mechanism"),
        ('book = "book.db"\ndataset = "toy"', "", "dataset"),
    ],
)
def test_a_release_of_another_run_is_never_taken_for_this_one(place, old, new, named):
    admeasure.run_file(place / "release.toml")
    assert old in FILE
    (place / "release.toml").write_text(FILE.replace(old, new))
    (place / "rows.csv").unlink()
    with pytest.raises(UsageError, match=f"another {named}"):
        admeasure.run_file(place / "release.toml")
    assert not (place / "rows.csv").exists()


def test_a_release_of_another_schema_is_never_taken_for_this_one(place):
    admeasure.run_file(place / "release.toml")
    other = Schema.coded("toy", {"a": 4, "b": 2, "c": 2})
    (place / "schema.toml").write_text(other.dumps())
    with pytest.raises(UsageError, match="another schema"):
        admeasure.run_file(place / "release.toml")


BAD = {
    "an unknown key": ("epsilon = 1.0", "epsilom = 1.0", 2, "'epsilom' in [budget]"),
    "a key in another table": ("[budget]", "epsilon = 1\n[budget]", 2, "It stands in [budget]"),
    "an unknown table": ("[rows]", "[raws]", 2, "'raws'"),
    "no data": ('data = "private/people.csv"', "", 2, "'data' is missing"),
    "no epsilon": ("epsilon = 1.0", "", 2, "'epsilon' is missing in [budget]"),
    "a text for a number": ("epsilon = 1.0", 'epsilon = "1"', 2, "'epsilon' in [budget]"),
    "a negative epsilon": ("epsilon = 1.0", "epsilon = -1.0", 2, "epsilon"),
    "no such schema": ('schema = "schema.toml"', 'schema = "no.toml"', 3, "no.toml"),
    "no such workload": ('"all-2way"', '"all-9way"', 3, "9"),
    "no such mechanism": ('"mwem"', '"mwam"', 2, "mwam"),
    "no such option": ("rounds = 4", "roundz = 4", 2, "roundz"),
    "no such queries": ('"q.toml"', '"p.toml"', 2, "p.toml"),
    "queries of other columns": ('"q.toml"', '"wrong.toml"', 3, "zzz"),
    "rows of another form": ('"rows.csv"', '"rows.xlsx"', 2, "rows.xlsx"),
    "answers of another form": ('"answers.json"', '"answers.txt"', 2, ".json"),
    "a folder that is not there": ('"report.html"', '"no/report.html"', 2, "does not exist"),
    "two outputs in one place": ('"report.html"', '"./answers.json"', 2, "the same place"),
    "a file in the way": ('"report.html"', '"q.toml"', 2, "q.toml exists already"),
    "no such data set": ('dataset = "toy"', 'dataset = "tyo"', 2, "tyo"),
    "no data set": ('dataset = "toy"', "", 2, "belong together"),
    "more than is left": ("epsilon = 1.0", "epsilon = 9.0", 4, "Nothing was charged"),
    "no such confidence": (
        'file = "answers.json"',
        'file = "answers.json"\nconfidence = 2',
        2,
        "1",
    ),
    "rows of answers alone": ('name = "mwem"\nrounds = 4', 'name = "gaussian"', 2, "[rows]"),
    "no TOML": ("[budget]", "[budget", 2, "TOML"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_served_is_refused_before_anything_is_read_or_charged(case, place, capfd):
    """The table is not there: whoever tried to read it would say so."""
    old, new, code, words = BAD[case]
    assert old in FILE
    (place / "release.toml").write_text(FILE.replace(old, new))
    (place / "wrong.toml").write_text(QUERIES.replace("a = 1", "zzz = 1"))
    (place / "private" / "people.csv").unlink()
    before = sorted(place.rglob("*"))
    assert run(["run", "pipeline/release.toml"]) == code
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert "release.toml" in said
    assert sorted(place.rglob("*")) == before
    assert spent(place) == 0


FOUND = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "a"
type = "string"
enum = "private"
[[column]]
name = "b"
type = "integer"
minimum = 0
maximum = 1
[[column]]
name = "c"
type = "integer"
"""


@pytest.mark.parametrize("asked", ["zzz = 1", "b = 7"])
def test_questions_about_levels_that_the_run_finds_are_read_after_it(asked, place, capfd):
    """And all else of them before: an unknown column beside one, a value that another has not."""
    rows = "".join(f"{'xyz'[i % 3]},{i % 2},{i // 3 % 2}\n" for i in range(3000))
    (place / "private" / "people.csv").write_text("a,b,c\n" + rows)
    (place / "schema.toml").write_text(FOUND)
    text = FILE.replace('book = "book.db"\ndataset = "toy"\n', "")
    text = text.replace('name = "mwem"\nrounds = 4\n', 'name = "independent"\n')
    (place / "release.toml").write_text(text)
    known = '[[query]]\nname = "found"\nwhere = {a = "x"}\n[[query]]\nname = "m"\nmean = "c"\n'
    beside = f'where = {{a = "x", {asked}}}' if "zzz" in asked else f"where = {{{asked}}}"
    (place / "q.toml").write_text(known + f'[[query]]\nname = "wrong"\n{beside}\n')
    assert run(["run", "pipeline/release.toml"]) == 3
    assert f"'{asked.split()[0]}'" in capfd.readouterr().err
    assert not (place / "release").exists()
    (place / "q.toml").write_text(known)
    assert run(["run", "pipeline/release.toml"]) == 0, capfd.readouterr().err
    answers = json.loads((place / "answers.json").read_text())
    assert [one["name"] for one in (*answers["answers"], *answers["statistics"])] == ["found", "m"]


def test_no_message_repeats_a_password_of_the_file(place, capfd):
    text = FILE.replace('"private/people.csv"', '"postgres://ann:hunter2@127.0.0.1:1/db?table=t"')
    for change in ("", "epsilom = 1\n", 'public = "postgres://ann:hunter2@h/db?table=t"\n'):
        (place / "release.toml").write_text(change + text)
        assert run(["run", "pipeline/release.toml", "--log", "json"]) in (2, 3)
        heard = capfd.readouterr()
        assert "hunter2" not in heard.err + heard.out


def test_mechanisms_that_make_no_rows_say_so():
    answers_only = {n for n, kind in REGISTRY.items() if not makes_rows(object.__new__(kind))}
    assert answers_only == {n for n, k in REGISTRY.items() if "no rows" in k.summary} | {"all-zero"}


KILLED_AT = """
import os, signal, sys
from admeasure.privacy.journal import Journal
tell, left = Journal._tell, [int(sys.argv[2])]
def told(self, event):
    tell(self, event)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGTERM)
Journal._tell = told
from admeasure.cli.run import run
sys.exit(run(["run", sys.argv[1]]))
"""


def test_a_run_that_was_interrupted_goes_on_when_the_file_is_run_again(place):
    argv = [sys.executable, "-c", KILLED_AT, str(place / "release.toml"), "5"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == ExitCode.INTERRUPTED, ended.stderr
    assert "Run the same file again" in ended.stderr
    assert (place / "release.partial").is_dir()
    assert spent(place) == ONE
    ran = admeasure.run_file(place / "release.toml")
    assert ran.fitted
    assert {path.name for path in ran.written} == set(OUTPUTS)
    assert len(Book.open(place / "book.db").history("toy")) == 1
    assert spent(place) <= ONE


def test_a_message_that_says_resume_says_that_the_file_does_it_by_itself(place, monkeypatch):
    def stopped(*_: object, **__: object) -> None:
        raise AdmeasureError("Stopped. Run again with --resume.")

    monkeypatch.setattr("admeasure.verbs.run_file.fit", stopped)
    with pytest.raises(AdmeasureError, match="continues by itself"):
        admeasure.run_file(place / "release.toml")
