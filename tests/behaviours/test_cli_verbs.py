"""The command line: every verb's result, for people and for machines."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from admeasure.cli.app import command
from admeasure.cli.run import run
from admeasure.errors import SchemaError
from admeasure.evaluation import NOT_PRIVATE
from admeasure.mechanisms import REGISTRY
from admeasure.planning.mechanism import LearnsFromPublic
from admeasure.privacy.book import Book
from admeasure.privacy.convert import rho_of
from admeasure.release import Release
from admeasure.schema import Schema

VERBS = [
    "demo",
    "draft",
    "check",
    "plan",
    "fit",
    "sample",
    "answer",
    "infer",
    "evaluate",
    "report",
    "ledger",
]
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
bins = 5
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
[[column]]
name = "smoker"
type = "boolean"
"""
QUERIES = """
[[query]]
name = "women"
where = {sex = "f"}
[[query]]
name = "two of three"
at_least = 2
of = {sex = "m", smoker = true, age = {to = 39}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{(7 * i) % 100},{'fm'[i % 2]},{str(i % 3 == 0).lower()}" for i in range(300)]
    (tmp_path / "data.csv").write_text("\n".join(["age,sex,smoker", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "q.toml").write_text(QUERIES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


GIVEN = ["--schema", "schema.toml", "--workload", "all-2way", "--epsilon", "1"]
FIT = ["fit", "data.csv", *GIVEN, "--mechanism", "mwem", "--out", "release"]
Said = pytest.CaptureFixture[str]


def json_of(capsys: Said) -> dict[str, object]:
    return json.loads(capsys.readouterr().out)


def python(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("argv", [[], ["--help"], *([verb, "--help"] for verb in VERBS)])
def test_help_ends_well_and_names_what_there_is(argv: list[str], capsys: Said) -> None:
    assert run(argv) == 0
    said = capsys.readouterr().out
    assert "Usage: admeasure" in said
    if len(argv) < 2:
        assert all(verb in said for verb in VERBS)


def every_command(parser: Any = None, *path: str) -> Iterator[tuple[str, ...]]:
    """`()` for the program itself, then each verb, and those below a verb."""
    parser = parser or command()
    yield path
    for name, below in getattr(parser, "commands", {}).items():
        yield from every_command(below, *path, name)


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_a_mistake_in_the_arguments_points_to_the_help_of_its_verb(
    path: tuple[str, ...], capsys: Said
) -> None:
    assert run([*path, "--nonsense"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"See `{' '.join(('admeasure', *path))} --help`.\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("verb", [[], ["fit"], ["ledger"], ["ledger", "show"]])
def test_help_imports_nothing_heavy(verb: list[str]) -> None:
    code = (
        "import sys\n"
        "from admeasure.cli.run import run\n"
        "run(sys.argv[1:])\n"
        "heavy = {'numpy', 'scipy', 'duckdb', 'opendp', 'narwhals', 'jinja2', 'rich'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = python("-c", code, *verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_alone_imports_no_library_but_its_parser() -> None:
    code = (
        "import sys\nfrom admeasure.cli.app import command\ncommand()\n"  # with every verb
        "heavy = {'numpy', 'scipy', 'duckdb', 'opendp', 'narwhals', 'rich', 'pydantic'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_the_package_s(capsys: Said) -> None:
    import admeasure

    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"admeasure {admeasure.__version__}"


def test_a_draft_names_columns_and_must_be_filled_in(folder: Path, capsys: Said) -> None:
    assert run(["draft", "data.csv", "-o", "draft.toml"]) == 0
    text = (folder / "draft.toml").read_text()
    assert [line for line in text.splitlines() if line.startswith("name")][1:] == [
        'name = "age"',
        'name = "sex"',
        'name = "smoker"',
    ]
    with pytest.raises(SchemaError, match="TODO"):
        Schema.load(folder / "draft.toml")
    capsys.readouterr()
    assert run(["draft", "data.csv"]) == 0
    assert capsys.readouterr().out.strip() == text.strip()


def test_a_draft_of_parquet_takes_storage_types_and_no_values(folder: Path, capsys: Said) -> None:
    pl.read_csv(folder / "data.csv").write_parquet(folder / "data.parquet")
    assert run(["draft", "data.parquet"]) == 0
    text = capsys.readouterr().out
    assert text.count('type = "integer"') == 1
    assert text.count('type = "boolean"') == 1
    assert "99" not in text


def test_check_says_what_was_checked(folder: Path, capsys: Said) -> None:
    assert run(["check", "data.csv", "--schema", "schema.toml"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("OK: ")
    assert "3 columns" in said
    assert run(["check", "data.csv", "--schema", "schema.toml", "--json"]) == 0
    assert json_of(capsys)["ok"] is True


@pytest.mark.parametrize("mechanism", sorted(REGISTRY))
def test_plan_shows_the_split_without_any_data(folder: Path, capsys: Said, mechanism: str) -> None:
    (folder / "data.csv").rename(folder / "public.csv")
    argv = ["plan", *GIVEN, "--mechanism", mechanism, "--rows", "300"]
    if issubclass(REGISTRY[mechanism], LearnsFromPublic):
        argv += ["--public", "public.csv"]
    assert run(argv) == 0
    said = capsys.readouterr().out
    assert f"{mechanism}: " in said
    assert "memory" in said
    assert run([*argv, "--json"]) == 0
    found = json_of(capsys)
    assert found["rho"] == rho_of(1, 1e-9)
    items = found["items"]
    assert isinstance(items, list)
    assert sum(i["rho"] * i["times"] for i in items) <= rho_of(1, 1e-9) * (1 + 1e-9)


def test_plan_takes_a_default_mechanism_and_options(folder: Path, capsys: Said) -> None:
    assert run(["plan", *GIVEN, "--json"]) == 0
    assert json_of(capsys)["mechanism"] in REGISTRY
    assert run(["plan", *GIVEN, "--mechanism", "mwem", "--rounds", "7", "--json"]) == 0
    assert json_of(capsys)["rounds"] == "7"


def test_a_plan_of_many_bought_columns_prints_the_largest_parts_and_adds_up_the_rest(
    folder: Path, capsys: Said
) -> None:
    column = 'type = "integer"\nminimum = 0\nmaximum = 500\nbins = "private"\n'
    head = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
    many = "".join(f'[[column]]\nname = "c{i}"\n{column}' for i in range(60))
    (folder / "many.toml").write_text(head + many)
    argv = ["plan", "--schema", "many.toml", "--workload", "all-2way", "--epsilon", "1"]
    assert run(argv) == 0
    said = capsys.readouterr().out
    assert run([*argv, "--json"]) == 0
    items = json_of(capsys)["items"]
    assert isinstance(items, list)
    lines = said.splitlines()
    shown = [item for item in items if any(line.startswith(item["what"]) for line in lines)]
    small = [item for item in items if item not in shown]
    assert "rounds of selection and measurement, together" in {item["what"] for item in shown}
    paid = [item["rho"] * item["times"] for item in small]
    assert max(paid) <= min(item["rho"] * item["times"] for item in shown)
    part = 100 * sum(paid) / rho_of(1, 1e-9)
    assert f"… and {len(small)} more, {part:.1f}% together; --json has them all." in lines


def test_fit_prints_json_on_stdout_and_progress_on_stderr(folder: Path, capsys: Said) -> None:
    assert run([*FIT, "--json", "--rounds", "3", "--measure=cells"]) == 0
    heard = capsys.readouterr()
    found = json.loads(heard.out)
    for key in [
        "mechanism",
        "epsilon",
        "delta",
        "neighbours",
        "rho",
        "rho_spent",
        "rounds",
        "seconds",
        "peak_megabytes",
        "model_megabytes",
        "release",
    ]:
        assert key in found, key
    assert found["options"]["measure"] == "cells"
    assert (found["rounds"], found["delta"], found["private"]) == (3, 1e-9, True)
    assert found["rho_spent"] <= found["rho"] == rho_of(1, 1e-9)
    assert "reading data.csv" in heard.err
    assert "spending the budget" in heard.err
    assert Release.load(folder / "release").facts["rounds"] == 3


def test_fit_tells_people_the_promise_and_the_next_commands(folder: Path, capsys: Said) -> None:
    assert run(FIT) == 0
    said = capsys.readouterr().out
    assert Release.load(folder / "release").certificate.promise in said
    assert "admeasure answer release" in said


def test_a_seed_is_stamped_loudly(folder: Path, capsys: Said) -> None:
    assert run([*FIT, "--seed", "1"]) == 0
    heard = capsys.readouterr()
    assert "warning: NOT PRIVATE" in heard.err
    assert heard.out.startswith("*** NOT PRIVATE")
    assert run(["answer", "release", "q.toml"]) == 0
    assert capsys.readouterr().out.startswith("*** NOT PRIVATE")


def test_fit_charges_the_book_with_what_it_spent(folder: Path, capsys: Said) -> None:
    create = ["ledger", "create", "book.db", "--dataset", "toy", "--epsilon", "2"]
    assert run(create) == 0
    assert run([*FIT, "--ledger", "book.db", "--dataset", "toy"]) == 0
    capsys.readouterr()
    assert run(["ledger", "show", "book.db", "--json"]) == 0
    datasets = json_of(capsys)["datasets"]
    assert isinstance(datasets, list)
    (shown,) = datasets
    account = Book.open(folder / "book.db").account("toy")
    assert shown["rho_spent"] == float(account.spent.rho)
    release = Release.load(folder / "release")
    spent = sum((Fraction(e["rho"]) for e in release.log if e["event"] != "intent"), Fraction(0))
    assert account.spent.rho == spent
    assert [r["status"] for r in shown["runs"]] == ["released"]
    assert run(["ledger", "show", "book.db", "--dataset", "toy"]) == 0
    said = capsys.readouterr().out
    assert "mwem" in said
    assert "released" in said
    assert run(["ledger", "close", "book.db", "--dataset", "toy"]) == 0
    assert run(["ledger", "show", "book.db"]) == 0
    assert "closed" in capsys.readouterr().out


def test_verify_compares_a_book_with_its_copy(folder: Path, capsys: Said) -> None:
    create = ["ledger", "create", "book.db", "--dataset"]
    assert run([*create, "toy", "--epsilon", "2"]) == 0
    shutil.copy("book.db", "copy.db")
    assert run(["ledger", "verify", "book.db", "--against", "copy.db"]) == 0
    assert "holds all 2 changes of copy.db." in capsys.readouterr().out
    assert run([*create, "other", "--epsilon", "2"]) == 0
    capsys.readouterr()
    assert run(["ledger", "verify", "book.db", "--against", "copy.db", "--json"]) == 0
    told = json_of(capsys)
    against = {"copy": "copy.db", "shared": 2, "only_here": 1, "only_there": 0}
    assert (told["changes"], told["against"]) == (3, against)
    assert run(["ledger", "verify", "copy.db", "--against", "book.db"]) == 4
    assert "was set back" in capsys.readouterr().err
    assert run(["ledger", "create", "copy.db", "--dataset", "third", "--epsilon", "1"]) == 0
    assert run(["ledger", "verify", "copy.db", "--against", "book.db"]) == 4
    assert "part after 2 shared changes" in capsys.readouterr().err
    assert run(["ledger", "create", "new.db", "--dataset", "toy", "--epsilon", "1"]) == 0
    assert run(["ledger", "verify", "new.db", "--against", "book.db"]) == 4
    assert "different books" in capsys.readouterr().err
    content = (folder / "book.db").read_bytes()
    (folder / "book.db").write_bytes(content.replace(b"other", b"othes"))
    assert run(["ledger", "verify", "book.db"]) == 4
    assert "damaged" in capsys.readouterr().err


def test_profile_says_where_the_time_went_and_nothing_of_the_table(
    folder: Path, capsys: Said
) -> None:
    assert run([*FIT, "--profile", "--json"]) == 0
    profile = json_of(capsys)["profile"]
    assert isinstance(profile, dict)
    steps = ["reading and encoding", "counting", "selection", "noise", "estimation", "writing"]
    assert list(profile) == [*steps, "total"]
    assert all(0 < profile[step] <= profile["total"] for step in ("selection", "estimation"))
    assert run([*FIT[:-1], "again", "--profile"]) == 0
    assert "where the time went" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_sample_writes_rows_that_satisfy_the_schema(
    folder: Path, capsys: Said, suffix: str
) -> None:
    assert run(FIT) == 0
    name = f"rows.{suffix}"
    assert run(["sample", "release", "-n", "120", "-o", name]) == 0
    frame = (pl.read_csv if suffix == "csv" else pl.read_parquet)(folder / name)
    assert (frame.height, frame.columns) == (120, ["age", "sex", "smoker"])
    assert run(["check", name, "--schema", "schema.toml"]) == 0
    capsys.readouterr()
    assert run(["sample", "release", "-n", "1", "-o", name]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["sample", "release", "-n", "1", "-o", name, "--force"]) == 0


def test_sample_takes_the_believed_number_of_rows_where_none_is_told(
    folder: Path, capsys: Said
) -> None:
    assert run(FIT) == 0
    capsys.readouterr()
    assert run(["sample", "release", "-o", "rows.csv", "--json"]) == 0
    assert json_of(capsys)["rows"] == Release.load(folder / "release").rows


def test_answer_gives_value_interval_share_and_kind(folder: Path, capsys: Said) -> None:
    assert run(FIT) == 0
    capsys.readouterr()
    assert run(["answer", "release", "q.toml", "--confidence", "0.9", "--json"]) == 0
    found = json_of(capsys)
    answers = found["answers"]
    assert isinstance(answers, list)
    assert [a["name"] for a in answers] == ["women", "two of three"]
    for answer in answers:
        assert answer["low"] <= answer["value"] <= answer["high"]
        assert answer["share"] == pytest.approx(answer["value"] / found["rows"])  # pyright: ignore
        assert answer["kind"] in ("supported", "unsupported", "trivial")
    assert run(["answer", "release", "q.toml"]) == 0
    said = capsys.readouterr().out
    assert "two of three" in said
    assert "95% confidence" in said


def test_a_report_holds_no_true_error_and_the_internal_one_says_so_in_its_name(
    folder: Path, capsys: Said
) -> None:
    assert run(FIT) == 0
    assert run(["report", "release", "-o", "report.txt"]) == 0
    assert "NOT PRIVATE" not in (folder / "report.txt").read_text()
    assert run(["report", "release", "-o", "report.txt", "--internal", "data.csv"]) == 0
    internal = (folder / "report.NOT-PRIVATE.txt").read_text().splitlines()
    assert NOT_PRIVATE in internal[0]
    assert NOT_PRIVATE in internal[-1]
    assert any("True errors" in line for line in internal)
    assert "report.NOT-PRIVATE.txt" in capsys.readouterr().out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {}])
def test_there_is_no_colour_where_there_is_no_terminal(
    folder: Path, environment: dict[str, str]
) -> None:
    done = python("-m", "admeasure", *FIT, "--seed", "1", **environment)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    done = python("-m", "admeasure", "fit", "--help", **environment)
    assert "\x1b" not in done.stdout + done.stderr


def on_a_terminal(argv: list[str], **environment: str) -> str:
    """What a command writes when stdout and stderr are a terminal."""
    seen: list[bytes] = []
    master, slave = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    with subprocess.Popen(argv, stdout=slave, stderr=slave, env=env | environment) as process:
        os.close(slave)
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while data := os.read(master, 4096):
                seen.append(data)
        process.wait()
    os.close(master)
    return b"".join(seen).decode()


def test_a_terminal_gets_colour_unless_no_color_is_set(folder: Path) -> None:
    argv = [sys.executable, "-m", "admeasure", *FIT[:-1]]
    assert "\x1b[" in on_a_terminal([*argv, "one", "--seed", "1"])
    plain = on_a_terminal([*argv, "two", "--seed", "1"], NO_COLOR="1")
    assert "\x1b[1;31m" not in plain
    assert "\x1b[33m" not in plain


def test_a_reader_that_stops_early_is_no_error(folder: Path) -> None:
    assert run([*FIT]) == 0
    command = f"{sys.executable} -m admeasure answer release q.toml | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names_in_files_cannot_steer_the_terminal(folder: Path, capsys: Said) -> None:
    (folder / "q.toml").write_text('[[query]]\nname = "a\\u001b[31mb"\nwhere = {sex = "f"}\n')
    assert run(FIT) == 0
    assert run(["answer", "release", "q.toml"]) == 0
    assert "\x1b" not in capsys.readouterr().out
