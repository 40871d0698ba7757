"""What is wrong is said in one line, with what to do next; nothing is written or charged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.privacy.book import Book

SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 10
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
[[column]]
name = "income"
type = "number"
minimum = 0
maximum = 100
bins = 4
"""
ROWS = [f"{(7 * i) % 100},{'fm'[i % 2]},{(3 * i) % 100}" for i in range(50)]
SECRET = "98765"
"""A value of the private table that no message may show."""


@dataclass
class Place:
    """A folder with a sound table, schema and book; a test breaks one of them."""

    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def table(self, *rows: str, header: str = "age,sex,income") -> None:
        surplus = "," * (header.count(",") - 2)
        self.write("data.csv", "\n".join([header, *(r + surplus for r in ROWS), *rows]) + "\n")

    def schema(self, old: str = "", new: str = "") -> None:
        assert old in SCHEMA
        self.write("schema.toml", SCHEMA.replace(old, new) if old else SCHEMA)

    def fit(self, **changed: str | None) -> list[str]:
        """The arguments of a fit; a change names an option, None leaves it out."""
        options: dict[str, str | None] = {
            "schema": self["schema.toml"],
            "workload": "all-1way",
            "epsilon": "1",
            "delta": "1e-9",
            "mechanism": "gaussian",
            "out": self["release"],
            "ledger": self["book.db"],
            "dataset": "toy",
        }
        data = changed.pop("data", self["data.csv"])
        options |= changed
        given = [[f"--{k.replace('_', '-')}", v] for k, v in options.items() if v is not None]
        return ["fit", str(data), *(text for pair in given for text in pair)]

    def spent(self) -> object:
        return Book.open(self.folder / "book.db").account("toy").spent.rho

    def listing(self) -> list[str]:
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.table()
    made.schema()
    Book.create(tmp_path / "book.db", "toy", epsilon=10, delta=1e-9)
    return made


Break = Callable[[Place], list[str]]


def with_table(*rows: str, header: str = "age,sex,income") -> Break:
    def change(place: Place) -> list[str]:
        place.table(*rows, header=header)
        return place.fit()

    return change


def with_schema(old: str, new: str) -> Break:
    def change(place: Place) -> list[str]:
        place.schema(old, new)
        return place.fit()

    return change


def with_file(name: str, text: str, **changed: str) -> Break:
    def change(place: Place) -> list[str]:
        place.write(name, text)
        return place.fit(**{k: place[v] if v == name else v for k, v in changed.items()})

    return change


def with_option(**changed: str | None) -> Break:
    return lambda place: place.fit(**changed)


def with_sparse_columns(place: Place) -> list[str]:
    columns = "\n".join(
        f'[[column]]\nname = "c{i}"\ntype = "integer"\nminimum = 0\nmaximum = 99' for i in range(9)
    )
    place.write("schema.toml", SCHEMA + columns)
    return place.fit(mechanism="mwem")


CASES: dict[str, tuple[Break, int, str]] = {
    # the table
    "no such file": (with_option(data="nowhere.csv"), 2, "no file 'nowhere.csv'"),
    "no file matches": (with_option(data="nowhere*.csv"), 2, "No file matches"),
    "unknown suffix": (with_file("data.xyz", "a\n1\n", data="data.xyz"), 2, "suffix"),
    "unknown address": (with_option(data="oracle://host/db"), 2, "no source for oracle"),
    "empty file": (with_file("empty.csv", "", data="empty.csv"), 3, "is empty"),
    "not Parquet": (with_file("no.parquet", "hello", data="no.parquet"), 3, "Parquet"),
    "missing column": (with_table(header="age,sex,pay"), 3, "Column 'income' is not"),
    "duplicated column": (with_table(header="age,sex,income,sex"), 3, "'sex'"),
    "outside the enum": (with_table(f"5,{SECRET},5"), 3, "'sex' has a value not in enum"),
    "outside the bounds": (with_table(f"{SECRET},f,5"), 3, "'age' has a value outside"),
    "not an integer": (with_table(f"x{SECRET},f,5"), 3, "'age' has a value that is not an integer"),
    "a fraction": (with_table("1.5,f,5"), 3, "'age' has a value that is not an integer"),
    "not a number": (with_table(f"1,f,x{SECRET}"), 3, "'income' has a value that is not a number"),
    "NaN": (with_table("1,f,nan"), 3, "'income' has missing values"),
    "infinity": (with_table("1,f,inf"), 3, "'income' has a value outside"),
    "minus infinity": (with_table("1,f,-Infinity"), 3, "'income' has a value outside"),
    "missing value": (with_table(",f,1"), 3, "'age' has missing values"),
    "a row too short": (with_table("1,f"), 3, "more or fewer fields"),
    # the schema
    "no schema file": (with_option(schema="nowhere.toml"), 3, "no schema file nowhere.toml"),
    "not TOML": (with_file("s.toml", "[table", schema="s.toml"), 3, "not valid TOML"),
    "a TODO": (with_schema("maximum = 99", 'maximum = "TODO"'), 3, "maximum = TODO"),
    "no maximum": (with_schema("maximum = 99", ""), 3, "'age' has no maximum"),
    "bounds upside down": (with_schema("maximum = 99", "maximum = -1"), 3, "'age'"),
    "unknown field": (with_schema("maximum = 99", "maximun = 99"), 3, "maximum"),
    "described twice": (with_schema('name = "income"', 'name = "age"'), 3, "'age'"),
    "an infinite bound": (with_schema("maximum = 100", "maximum = inf"), 3, "'income'"),
    "a bound of NaN": (with_schema("maximum = 100", "maximum = nan"), 3, "'income'"),
    # the workload
    "unknown workload": (with_option(workload="every-3way"), 3, "no workload 'every-3way'"),
    "too many columns": (with_option(workload="all-7way"), 3, "3 columns"),
    "unknown target": (with_option(workload="target:sx:2way"), 3, "'sx'"),
    "no workload file": (with_option(workload="nowhere.toml"), 2, "no file nowhere.toml"),
    "unknown column in a workload": (
        with_file("w.toml", '[[marginal]]\ncolumns = ["agee"]', workload="w.toml"),
        3,
        "'agee'",
    ),
    # the budget
    "epsilon zero": (with_option(epsilon="0"), 2, "epsilon must be"),
    "epsilon negative": (with_option(epsilon="-1"), 2, "epsilon must be"),
    "epsilon NaN": (with_option(epsilon="nan"), 2, "epsilon must be"),
    "epsilon infinite": (with_option(epsilon="inf"), 2, "epsilon must be"),
    "epsilon no number": (with_option(epsilon="much"), 2, "--epsilon"),
    "delta zero": (with_option(delta="0"), 2, "delta must lie"),
    "delta one": (with_option(delta="1"), 2, "delta must lie"),
    "delta NaN": (with_option(delta="nan"), 2, "delta must lie"),
    "over budget": (with_option(epsilon="11"), 4, "Nothing was charged"),
    "no such book": (with_option(ledger="nowhere.db"), 2, "no budget book nowhere.db"),
    "no such data set": (with_option(dataset="tot"), 2, "no data set 'tot'"),
    "a book without a data set": (with_option(dataset=None), 2, "belong together"),
    "a data set without a book": (with_option(ledger=None), 2, "belong together"),
    "seeded and booked": (with_option(seed="1"), 2, "NOT PRIVATE"),
    # the mechanism
    "unknown mechanism": (with_option(mechanism="gausian"), 2, "Did you mean gaussian?"),
    "unknown option": (with_option(rounds="3"), 2, "no option --rounds"),
    "misspelt option": (with_option(delat="0.1"), 2, "Did you mean --delta?"),
    "option of a wrong type": (with_option(mechanism="mwem", rounds="few"), 2, "a whole number"),
    "option out of range": (with_option(mechanism="mwem", rounds="0"), 2, "at least 1"),
    "domain too large": (with_sparse_columns, 5, "cells"),
    "public data for nothing": (with_option(public="data.csv"), 2, "public"),
    "no public data": (with_option(mechanism="pmw-pub"), 2, "needs a public table"),
    "no such public data": (
        with_option(mechanism="pmw-pub", public="nowhere.csv"),
        2,
        "no file 'nowhere.csv'",
    ),
    # where to write
    "no such folder": (with_option(out="nowhere/release"), 2, "folder nowhere does not exist"),
    "in a file": (lambda p: p.fit(out=p["data.csv/release"]), 2, "data.csv"),
    "over something": (lambda p: p.fit(out=p["data.csv"]), 2, "exists already"),
    "nothing to resume": (lambda p: [*p.fit(), "--resume"], 2, "no interrupted run"),
    # the command line
    "no epsilon": (with_option(epsilon=None), 2, "--epsilon"),
    "an empty mechanism": (with_option(mechanism=""), 2, "no mechanism ''"),
    "an option and no mechanism": (
        lambda p: [*with_option(mechanism=None)(p), "--rounds", "5"],
        2,
        "auto has no option --rounds",
    ),
    "no schema": (with_option(schema=None), 2, "--schema"),
    "no out": (with_option(out=None), 2, "--out"),
    "an option without a value": (lambda p: [*p.fit(), "--rounds"], 2, "needs a value"),
    "a stray argument": (lambda p: [*p.fit(), "stray"], 2, "stray"),
    "an unknown verb": (lambda p: ["fti", *p.fit()[1:]], 2, "fti"),
    "options before DATA": (
        lambda p: ["fit", "--rounds", "3", *p.fit()[1:]],
        2,
        "DATA comes first",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_cannot_be_is_refused_in_one_line_and_leaves_no_trace(
    case: str, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    breaks, code, words = CASES[case]
    argv = breaks(place)
    before = place.listing()
    assert run(argv) == code
    heard = capsys.readouterr()
    assert heard.out == ""
    errors = [line for line in heard.err.splitlines() if not line.startswith("reading ")]
    assert errors[0].startswith("error: "), errors
    assert len(errors) == 1, errors
    assert words in errors[0]
    assert SECRET not in heard.err
    assert place.listing() == before
    assert place.spent() == 0


def test_every_problem_of_a_table_is_named_at_once(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.table(f"{SECRET},f,5", "1,x,5", "1,f,")
    check = ["check", place["data.csv"], "--schema", place["schema.toml"]]
    assert run(check) == 3
    heard = capsys.readouterr().err
    for words in ("'age' has a value outside", "'sex' has a value not", "'income' has missing"):
        assert words in heard
    assert SECRET not in heard
    assert run([*check, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert len(found["problems"]) == 3


def test_check_names_a_rule_of_zeros_that_the_table_breaks(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write(
        "schema.toml",
        SCHEMA + '[[zero]]\ncolumns = ["age", "sex"]\nwhere = {age = {to = 9}, sex = "f"}\n',
    )
    assert run(["check", place["data.csv"], "--schema", place["schema.toml"]]) == 3
    assert "[[zero]] of age, sex" in capsys.readouterr().err


def test_a_value_outside_goes_to_other_where_there_is_one(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.table(f"{SECRET},neither,x")
    for old in ('enum = ["f", "m"]', "maximum = 99", "maximum = 100"):
        text = (place.folder / "schema.toml").read_text()
        place.write("schema.toml", text.replace(old, old + "\nother = true"))
    assert run(["check", place["data.csv"], "--schema", place["schema.toml"]]) == 0
    assert run(place.fit()) == 0
    assert SECRET not in "".join(capsys.readouterr())


@pytest.mark.parametrize("mechanism", ["gaussian", "mwem", "aim"])
def test_one_row_is_enough(place: Place, mechanism: str) -> None:
    place.write("data.csv", "age,sex,income\n5,f,5\n")
    assert run(place.fit(mechanism=mechanism, ledger=None, dataset=None)) == 0


@pytest.mark.parametrize("mechanism", ["gaussian", "mwem", "aim"])
def test_a_column_may_have_one_category(place: Place, mechanism: str) -> None:
    place.schema('enum = ["f", "m"]', 'enum = ["f"]')
    place.write("data.csv", "age,sex,income\n5,f,5\n6,f,7\n")
    assert run(place.fit(mechanism=mechanism, workload="all-2way")) == 0


@pytest.mark.parametrize(("delta", "warned"), [("0.02", True), ("0.019", True), ("1e-9", False)])
def test_a_delta_that_protects_nobody_is_warned_of_with_the_reason(
    place: Place, capsys: pytest.CaptureFixture[str], delta: str, warned: bool
) -> None:
    place.schema('name = "toy"', 'name = "toy"\nrows = 60')
    assert run(place.fit(delta=delta, ledger=None, dataset=None)) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert bool(warnings) == warned
    if warned:
        assert warnings[0].startswith("warning: delta = ")
        assert "not below 1/rows" in warnings[0]


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_charged(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/proc/self").exists():
        pytest.skip("no /proc, where not even root can make a folder")
    assert run(place.fit(out="/proc/release")) == 2
    assert "/proc/release" in capsys.readouterr().err
    assert place.spent() == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = place.folder / "locked"
    locked.mkdir(mode=0o500)
    assert run(place.fit(out=str(locked / "release"))) == 2
    assert "cannot be written to" in capsys.readouterr().err
    assert place.spent() == 0


def test_a_closed_data_set_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ledger", "close", place["book.db"], "--dataset", "toy"]) == 0
    before = place.listing()
    assert run(place.fit()) == 4
    assert "closed" in capsys.readouterr().err
    assert place.listing() == before


@pytest.fixture
def release(place: Place, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run(place.fit(mechanism="mwem")) == 0
    capsys.readouterr()
    place.write("q.toml", '[[query]]\nname = "women"\nwhere = {sex = "f"}\n')
    return place.folder / "release"


def head_of(release: Path, **changed: object) -> None:
    head = json.loads((release / "release.json").read_text())
    (release / "release.json").write_text(json.dumps(head | changed))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer": (lambda r: head_of(r, format=99), "Update admeasure"),
    "no format": (lambda r: head_of(r, format=None), "format"),
    "unknown model": (lambda r: head_of(r, model="crystal ball"), "damaged"),
    "no head": (lambda r: (r / "release.json").unlink(), "no release.json"),
    "head cut": (lambda r: (r / "release.json").write_text('{"format"'), "is damaged"),
    "head of something else": (lambda r: (r / "release.json").write_text("[]"), "is damaged"),
    "model cut": (
        lambda r: (r / "model.npz").write_bytes((r / "model.npz").read_bytes()[:40]),
        "model.npz is damaged",
    ),
    "schema changed": (
        lambda r: (r / "schema.toml").write_text((r / "schema.toml").read_text() + "\n"),
        "schema.toml is damaged or changed",
    ),
    "log gone": (lambda r: (r / "log.jsonl").unlink(), "log.jsonl"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("verb", ["answer", "sample", "report"])
def test_a_damaged_or_newer_release_is_refused_in_one_line(
    place: Place, release: Path, capsys: pytest.CaptureFixture[str], damage: str, verb: str
) -> None:
    change, words = DAMAGE[damage]
    change(release)
    before = place.listing()
    rest = {
        "answer": [place["q.toml"]],
        "sample": ["-n", "5", "-o", place["rows.csv"]],
        "report": ["-o", place["report.txt"]],
    }[verb]
    assert run([verb, str(release), *rest]) == 3
    heard = capsys.readouterr()
    assert heard.out == ""
    assert re.fullmatch(r"error: .*\n", heard.err), heard.err
    assert words in heard.err
    assert place.listing() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no query"),
        ("[[query", "not valid TOML"),
        ('[[query]]\nwhere = {sex = "f"}', "has no name"),
        ('[[query]]\nname = "q"', "needs either"),
        ('[[query]]\nname = "q"\nwhere = {sx = "f"}', "'sx'"),
        ('[[query]]\nname = "q"\nwhere = {sex = "x"}', "'x'"),
        ('[[query]]\nname = "q"\nwhere = {age = {from = 5}}', "part of the bin"),
    ],
)
def test_a_wrong_query_file_is_refused_in_one_line(
    place: Place, release: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    place.write("bad.toml", text)
    assert run(["answer", str(release), place["bad.toml"]]) == 3
    heard = capsys.readouterr()
    assert heard.err.startswith("error: ")
    assert heard.err.count("\n") == 1
    assert words in heard.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["answer", "{release}", "{q.toml}", "--confidence", "1.5"], "between 0 and 1"),
        (["answer", "{release}", "nowhere.toml"], "no file nowhere.toml"),
        (["answer", "nowhere", "{q.toml}"], "not a release"),
        (["sample", "{release}", "-n", "-1", "-o", "{rows.csv}"], "must not be negative"),
        (["sample", "{release}", "-n", "5", "-o", "{rows.xls}"], "suffix"),
        (["sample", "{release}", "-n", "5", "-o", "{data.csv}"], "exists already"),
        (["sample", "{release}", "-n", "5", "-o", "{none/rows.csv}"], "does not exist"),
        (["report", "{release}", "-o", "{data.csv}"], "exists already"),
        (["draft", "{data.csv}", "-o", "{schema.toml}"], "exists already"),
        (["ledger", "show", "{nowhere.db}"], "no budget book"),
        (["ledger", "show", "{data.csv}"], "data.csv"),
        (["ledger", "create", "{book.db}", "--dataset", "toy", "--epsilon", "1"], "already"),
        (["ledger", "create", "{new.db}", "--dataset", "toy", "--epsilon", "0"], "epsilon"),
    ],
)
def test_every_verb_refuses_in_one_line_and_writes_nothing(
    place: Place,
    release: Path,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    words: str,
) -> None:
    before = place.listing()
    given = [re.sub(r"\{(.*)\}", lambda m: place[m[1]], text) for text in argv]
    assert run(given) in (2, 3, 4)
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith("error: ")
    assert heard.err.count("\n") == 1
    assert words in heard.err
    assert place.listing() == before


def failing_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ValueError(SECRET), 1, "unexpected ValueError"),
        (MemoryError(), 5, "not enough memory"),
        (OSError(28, "No space left on device", "/full"), 5, "No space left on device (/full)"),
        (PermissionError(13, "Permission denied", "/locked"), 2, "Permission denied (/locked)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (UsageError("Two lines\x1b[31m"), 2, "Two lines?[31m"),
    ],
)
def test_what_goes_wrong_inside_becomes_one_line_without_values(
    place: Place,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr("admeasure.verbs.fit.fit", failing_with(error))
    monkeypatch.delenv("ADMEASURE_DEBUG", raising=False)
    assert run(place.fit()) == code
    heard = capsys.readouterr()
    lines = heard.err.strip().splitlines()
    assert len(lines) == 1, lines
    assert words in lines[0]
    assert SECRET not in heard.err


def test_the_debug_switch_shows_where_an_unexpected_error_came_from(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admeasure.verbs.fit.fit", failing_with(ValueError("here")))
    monkeypatch.setenv("ADMEASURE_DEBUG", "1")
    assert run(place.fit()) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("case", ["no such file", "outside the enum", "epsilon NaN", "over budget"])
def test_the_installed_command_refuses_in_the_same_way(case: str, place: Place) -> None:
    breaks, code, words = CASES[case]
    argv = breaks(place)
    done = subprocess.run(
        [sys.executable, "-m", "admeasure", *argv],
        cwd=place.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert place.spent() == 0
