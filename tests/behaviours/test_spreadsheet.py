"""Synthetic rows in a spreadsheet: nothing in a safe file is a formula, and nothing is lost."""

from __future__ import annotations

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admeasure.cli.run import run
from admeasure.mechanisms import build
from admeasure.schema import Schema
from admeasure.schema.spreadsheet import plain_text, safe_text
from admeasure.verbs.fit import fit

LEVELS = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", " =1", "＝1", "'tis", "-5", "a;=1", ""]
SCHEMA = f"""
[table]
name = "toy"
[privacy]
unit = "row"
[[column]]
name = "=name"
type = "string"
enum = {json.dumps(LEVELS)}
[[column]]
name = "n"
type = "integer"
minimum = -3
maximum = -1
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "release"
    rows = {"=name": LEVELS * 40, "n": [-1, -2, -3] * 4 * 40}
    options = {"workload": "all-1way", "mechanism": build("independent")}
    fit(rows, Schema.loads(SCHEMA), **options, epsilon=50.0, delta=1e-6, seed=0, out=out)
    return out


def cells(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def runs_in_a_spreadsheet(cell: str) -> bool:
    """What spreadsheets are known to do; a number is no formula."""
    try:
        float(cell)
    except ValueError:
        return cell[:1] in {"=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"}
    return False


def test_a_faithful_file_holds_the_levels_and_says_what_a_spreadsheet_would_do(
    release, tmp_path, capsys
):
    out = str(tmp_path / "a.csv")
    assert run(["sample", str(release), "-n", "400", "--seed", "1", "-o", out]) == 0
    assert "--spreadsheet-safe" in capsys.readouterr().err
    header, *rows = cells(tmp_path / "a.csv")
    assert header == ["=name", "n"]
    assert {row[0] for row in rows} == set(LEVELS)


def test_a_safe_file_holds_no_formula_and_can_be_undone(release, tmp_path, capsys):
    same = [str(release), "-n", "400", "--seed", "1", "-o"]
    assert run(["sample", *same, str(tmp_path / "a.csv")]) == 0
    capsys.readouterr()
    assert run(["sample", *same, str(tmp_path / "b.csv"), "--spreadsheet-safe"]) == 0
    assert "formulas" not in capsys.readouterr().err
    faithful, safe = cells(tmp_path / "a.csv"), cells(tmp_path / "b.csv")
    assert not [cell for row in safe for cell in row if runs_in_a_spreadsheet(cell)]
    assert [row[1] for row in safe] == [row[1] for row in faithful]
    assert [[plain_text(cell) for cell in row] for row in safe] == faithful
    raw = (tmp_path / "b.csv").read_text(encoding="utf-8")
    assert '"a;=1"' in raw  # a spreadsheet that divides by ; leaves it whole


def test_parquet_has_no_safe_form(release, tmp_path, capsys):
    out = str(tmp_path / "a.parquet")
    assert run(["sample", str(release), "-o", out, "--spreadsheet-safe"]) == 2
    assert run(["sample", str(release), "-o", out]) == 0
    assert "formulas" not in capsys.readouterr().err


def test_in_python_the_rows_are_safe_where_it_is_asked(release):
    from admeasure.release import Release

    rows = Release.load(release).sample(200, seed=0, spreadsheet_safe=True)
    assert set(rows) == {"'=name", "n"}
    assert not [v for v in rows["'=name"] if runs_in_a_spreadsheet(v)]
    assert set(rows["n"].tolist()) == {-1, -2, -3}


@given(st.text())
def test_any_text_becomes_safe_and_comes_back(text):
    assert plain_text(safe_text(text)) == text
    assert not runs_in_a_spreadsheet(safe_text(text))
