"""The demo: nobody is in its table, it says where it comes from, and its commands work."""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from admeasure.cli.run import run
from admeasure.demo.make import ROWS
from admeasure.evaluation import NOT_PRIVATE
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.open import open_source
from admeasure.workload import load_questions, parse_workload

BUNDLE = files("admeasure.demo")


TABLE = BUNDLE / "adult.csv.gz"


def bundled() -> list[dict[str, str]]:
    text = gzip.decompress(TABLE.read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_the_bundle_is_small() -> None:
    assert len(TABLE.read_bytes()) < 500_000


def test_the_bundled_table_carries_its_certificate_and_its_attribution() -> None:
    certificate = (BUNDLE / "certificate.yaml").read_text()
    assert certificate.startswith("# (3, 1e-09)-differential privacy")
    assert "aim {" in certificate
    attribution = (BUNDLE / "ATTRIBUTION.md").read_text()
    for words in ("Becker", "Kohavi", "UCI Machine Learning Repository", "CC BY 4.0", "Changes:"):
        assert words in attribution, words


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.loads((BUNDLE / "schema.toml").read_text())


def test_the_table_has_missing_values_and_keeps_the_zeros(schema: Schema) -> None:
    assert schema.zeros
    source = open_source(str(TABLE), schema)
    (rows,) = source.counts([()])
    assert rows == ROWS
    (work,) = source.counts([("workclass",)])
    assert work[schema.column("workclass").missing_code] > 0
    for zero, counts in zip(
        schema.zeros, source.counts([z.columns for z in schema.zeros]), strict=True
    ):
        assert not counts[zero.mask].any()


def test_the_columns_depend_on_each_other() -> None:
    rows = bundled()

    def share_of_high_income(group: list[dict[str, str]]) -> float:
        return sum(row["income"] == ">50K" for row in group) / len(group)

    masters = [r for r in rows if r["education"] == "Masters"]
    school = [r for r in rows if r["education"] == "HS-grad"]
    assert share_of_high_income(masters) > 2 * share_of_high_income(school)
    husbands = [r for r in rows if r["relationship"] == "Husband"]
    assert sum(r["sex"] == "Male" for r in husbands) > 0.95 * len(husbands)


@pytest.mark.data
def test_the_bundled_rows_are_close_to_the_table_they_were_made_from(
    schema: Schema, shared_data: Path
) -> None:
    """Half of the budget of a release gives about half its error; AIM's own figures at epsilon 3
    on all three-way marginals are near 0.06, and 0.12 would be those of epsilon 1."""
    workload = parse_workload("all-3way", schema.domain)
    made = open_source(str(TABLE), schema).counts(workload.marginals())
    true = open_source(str(shared_data / "adult_raw.parquet"), schema).counts(workload.marginals())
    distance = [abs(a / ROWS - b / ROWS).sum() for a, b in zip(made, true, strict=True)]
    assert sum(distance) / len(distance) < 0.12


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
    report = (out / "report.html").read_text()
    assert report.startswith("<!doctype html>")
    assert "adult" in report
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
        [sys.executable, "-m", "admeasure", *argv], capture_output=True, text=True, check=True
    )
    assert "women who earn more than 50K" in done.stdout
