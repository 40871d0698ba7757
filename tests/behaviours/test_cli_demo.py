"""The demo: made of nobody, made again by anybody, and every command in it works."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from admeasure.cli.run import run
from admeasure.demo.generate import COLUMNS, ROWS, people
from admeasure.evaluate import NOT_PRIVATE
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.open import open_source
from admeasure.workload import load_questions, parse_workload

BUNDLE = files("admeasure.demo")


def bundled() -> list[tuple[str, ...]]:
    text = gzip.decompress((BUNDLE / "people.csv.gz").read_bytes()).decode()
    head, *rows = csv.reader(io.StringIO(text))
    assert tuple(head) == COLUMNS
    return [tuple(row) for row in rows]


def test_the_generator_makes_the_bundled_table_again() -> None:
    assert list(people()) == bundled()


def test_the_bundle_is_small() -> None:
    assert len((BUNDLE / "people.csv.gz").read_bytes()) < 500_000


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.loads((BUNDLE / "schema.toml").read_text())


def test_the_schema_has_every_kind_of_column(schema: Schema) -> None:
    assert schema.names == COLUMNS
    assert {c.type for c in schema.columns} == {"integer", "number", "string", "boolean", "date"}
    assert any(c.missing_values is not None for c in schema.columns)
    assert any(c.other for c in schema.columns)
    assert schema.zeros


def test_the_table_uses_missing_and_other_and_keeps_the_zeros(schema: Schema) -> None:
    source = open_source(str(BUNDLE / "people.csv.gz"), schema)
    education, work = source.counts([("education",), ("work",)])
    assert education[schema.column("education").missing_code] > 0
    assert work[schema.column("work").other_code] > 0
    for zero, counts in zip(
        schema.zeros, source.counts([z.columns for z in schema.zeros]), strict=True
    ):
        assert not counts[zero.mask].any()


def test_the_columns_depend_on_each_other() -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in bundled()]
    assert len(rows) == ROWS

    def share(column: str, value: str, group: list[dict[str, str]]) -> float:
        return sum(row[column] == value for row in group) / len(group)

    degree = [r for r in rows if r["education"] == "degree"]
    school = [r for r in rows if r["education"] == "school"]
    assert share("smoker", "true", school) > 1.5 * share("smoker", "true", degree)
    ages = [[r for r in rows if low <= int(r["age"]) < low + 20] for low in (20, 40, 60)]
    widowed = [share("marital", "widowed", group) for group in ages]
    assert all(later > earlier for earlier, later in pairwise(widowed))


def test_the_workload_and_the_questions_fit_the_schema(schema: Schema) -> None:
    workload = parse_workload(Path(str(BUNDLE / "workload.toml")), schema.domain)
    questions = load_questions(str(BUNDLE / "questions.toml"), schema)
    asked = [set(q.query.columns) for q in questions]
    assert all(any(columns <= set(c) for c in workload.marginals()) for columns in asked)


def test_the_demo_shows_every_verb_and_leaves_a_release_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert run(["demo", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for verb in ("check", "ledger create", "plan", "fit", "answer", "report", "evaluate"):
        assert f"$ admeasure {verb} " in said, verb
    assert NOT_PRIVATE in said
    release = Release.load(out / "release")
    assert release.certificate.private
    assert (out / "report.txt").read_text().startswith("Release of 'people'")
    assert (out / "synthetic.csv").exists() == ("$ admeasure sample" in said)
    assert run(["demo", "--out", str(out)]) == 2


def test_the_demo_finds_a_free_folder_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "admeasure-demo").mkdir()
    assert run(["demo"]) == 0
    assert (tmp_path / "admeasure-demo-2" / "release").is_dir()
    assert "admeasure-demo-2" in capsys.readouterr().out


def test_the_commands_of_the_demo_work_when_they_are_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert run(["demo", "--out", str(out)]) == 0
    line = next(
        x for x in capsys.readouterr().out.splitlines() if x.startswith("$ admeasure answer")
    )
    argv = line.removeprefix("$ admeasure ").split()
    done = subprocess.run(
        [sys.executable, "-m", "admeasure.cli", *argv], capture_output=True, text=True, check=True
    )
    assert "retired women" in done.stdout
