"""Among other tools: tables of any tool are judged, and a release is written in their forms."""

from __future__ import annotations

import csv
import json
from datetime import date
from itertools import combinations, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import DataError, UsageError
from admeasure.evaluation import NOT_PRIVATE
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.schema.imports import of_json

SCHEMA = """
[table]
name = "Visits 2026"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 5
missing_values = ["-9"]
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
title = "Sex"
[[column]]
name = "town"
type = "string"
enum = ["A", "B"]
other = true
missing_values = ["?"]
[[column]]
name = "smoker"
type = "boolean"
true_values = ["yes"]
false_values = ["no"]
[[column]]
name = "seen"
type = "date"
format = "%d.%m.%Y"
minimum = 2026-01-01
maximum = 2026-12-31
bins = 4
[[column]]
name = "grade"
type = "integer"
enum = [1, 2, 5]
[[column]]
name = "weight"
type = "number"
minimum = 0.0
maximum = 200.0
bins = 4
"""
ROWS = [
    [
        "-9" if i % 11 == 0 else str(i % 100),
        "fm"[i % 2],
        ["A", "B", "elsewhere", "?"][i % 4],
        ["yes", "no"][i % 3 == 0],
        f"{1 + i % 28:02d}.{1 + i % 12:02d}.2026",
        str([1, 2, 5][i % 3]),
        f"{i % 150}.5",
    ]
    for i in range(240)
]
HEAD = ["age", "sex", "town", "smoker", "seen", "grade", "weight"]


def write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEAD, *rows])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    (folder / "schema.toml").write_text(SCHEMA)
    write(folder / "real.csv", ROWS)
    write(folder / "half.csv", ROWS[:120])
    write(folder / "women.csv", [row for row in ROWS if row[1] == "f"])
    admeasure.fit(
        str(folder / "real.csv"),
        folder / "schema.toml",
        workload="all-2way",
        mechanism=admeasure.mst(),
        epsilon=5,
        delta=1e-9,
        out=folder / "release",
    )
    return folder


@pytest.fixture(autouse=True)
def _there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


ASKED = ["--schema", "schema.toml", "--workload", "all-2way"]


def by_hand(rows: list[list[str]]) -> float:
    """The mean L1 distance of the pairs of columns, from the texts of the tables."""

    def level(name: str, text: str) -> str:
        match name:
            case "age":
                return text if text == "-9" else str(int(text) // 20)
            case "town":
                return text if text in ("A", "B", "?") else "other"
            case "seen":
                day, month = int(text[:2]), int(text[3:5])
                lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
                return str(int((sum(lengths[: month - 1]) + day - 1) * 4 / 365))
            case "weight":
                return str(int(float(text) // 50))
        return text

    def shares(table: list[list[str]], pair: tuple[int, int]) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for row in table:
            cell = tuple(level(HEAD[i], row[i]) for i in pair)
            found[cell] = found.get(cell, 0) + 1 / len(table)
        return found

    errors = []
    for pair in combinations(range(len(HEAD)), 2):
        real, made = shares(ROWS, pair), shares(rows, pair)
        errors.append(sum(abs(real.get(c, 0) - made.get(c, 0)) for c in {*real, *made}))
    return float(np.mean(errors))


def test_tables_of_any_tool_are_judged_as_a_computation_by_hand_judges_them(capfd):
    pl.read_csv("half.csv", infer_schema=False).write_parquet("half.parquet")
    tables = ["women.csv", "half.csv", "half.parquet", "real.csv", "release"]
    assert run(["compare", "real.csv", *tables, *ASKED, "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["stamp"] == NOT_PRIVATE
    errors = {name: found["workload_error"] for name, found in said["tables"].items()}
    assert list(errors.values()) == sorted(errors.values())
    assert errors["real.csv"] == 0
    for name, rows in (("half.csv", ROWS[:120]), ("women.csv", [r for r in ROWS if r[1] == "f"])):
        # Bins of days are cut between days, so that one of 365 may lie on the other side.
        assert errors[name] == pytest.approx(by_hand(rows), abs=0.02)
    assert errors["half.parquet"] == errors["half.csv"]
    assert 0 < errors["release"] < 1


def test_the_comparison_says_not_private_in_every_form(capfd, tmp_path):
    page = tmp_path / "c.html"
    assert run(["compare", "real.csv", "half.csv", "women.csv", *ASKED, "-o", str(page)]) == 0
    heard = capfd.readouterr()
    assert heard.out.count(NOT_PRIVATE) == 2
    (written,) = tmp_path.iterdir()
    assert written.name == "c.NOT-PRIVATE.html"
    assert written.stat().st_mode & 0o077 == 0
    text = written.read_text()
    assert text.count(NOT_PRIVATE) >= 3
    assert "half.csv" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "<script" not in text


def test_a_table_that_breaks_the_schema_is_refused_by_name_and_without_a_value():
    rows = [[*row[:1], "zebra", *row[2:]] for row in ROWS]
    write(Path("broken.csv"), rows)
    with pytest.raises(DataError, match=r"broken\.csv") as refused:
        admeasure.compare(
            "real.csv", {"broken.csv": "broken.csv"}, "schema.toml", workload="all-1way"
        )
    assert "zebra" not in str(refused.value)


def test_a_data_package_describes_its_rows(capfd, tmp_path):
    out = tmp_path / "package"
    argv = ["export", "release", "--as", "frictionless", "-o", str(out), "-n", "200", "--seed", "1"]
    assert run(argv) == 0
    assert sorted(p.name for p in out.iterdir()) == [
        *("certificate.yaml", "datapackage.json", "rows.csv")
    ]
    package = json.loads((out / "datapackage.json").read_text())
    assert package["name"] == "visits-2026"
    (resource,) = package["resources"]
    fields = {field["name"]: field for field in resource["schema"]["fields"]}
    with (out / resource["path"]).open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert list(rows[0]) == list(fields)
    for row, name in product(rows, fields):
        field, text = fields[name], row[name]
        if text in field.get("missingValues", [""]):
            assert not field.get("constraints", {}).get("required")
            continue
        limits = field.get("constraints", {})
        assert text in limits.get("enum", [text]) or int(text) in limits["enum"]
        if name in ("age", "weight"):
            assert limits["minimum"] <= float(text) <= limits["maximum"]
        if name == "smoker":
            assert text in field["trueValues"] + field["falseValues"]
    assert run(argv) == 2  # never over another one


def test_what_is_exported_can_be_read_back_as_a_description(tmp_path):
    out = tmp_path / "package"
    admeasure.export("release", out, "frictionless", rows=5, seed=0)
    admeasure.export("release", tmp_path / "sdv.json", "sdv")
    schema = Schema.load("schema.toml")
    for document in (out / "datapackage.json", tmp_path / "sdv.json"):
        facts = of_json(json.loads(document.read_text()), document.name)
        assert set(facts) == set(HEAD)
        assert facts["seen"]["format"] == "%d.%m.%Y"
        assert facts["weight"]["type"] == "number"
    facts = of_json(json.loads((out / "datapackage.json").read_text()), "package")
    assert (facts["age"]["minimum"], facts["age"]["maximum"]) == (0, 99)
    assert facts["age"]["missing_values"] == ["-9"]
    days = (facts["seen"]["minimum"], facts["seen"]["maximum"])
    assert days == (date(2026, 1, 1), date(2026, 12, 31))
    assert facts["sex"]["enum"] == list(schema.column("sex").listed or ())
    assert facts["grade"]["enum"] == [1, 2, 5]


def test_metadata_of_sdv_has_a_type_for_every_column(tmp_path):
    admeasure.export("release", tmp_path / "m.json", "sdv")
    document = json.loads((tmp_path / "m.json").read_text())
    (table,) = document["tables"].values()
    assert {name: c["sdtype"] for name, c in table["columns"].items()} == {
        "age": "numerical",
        "sex": "categorical",
        "town": "categorical",
        "smoker": "boolean",
        "seen": "datetime",
        "grade": "categorical",
        "weight": "numerical",
    }


def test_the_measurements_as_csv_are_all_numbers_of_the_release(tmp_path):
    admeasure.export("release", tmp_path / "m.csv", "csv")
    release = Release.load("release")
    with (tmp_path / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(m.values.size for m in release.measurements)
    for number, measurement in enumerate(release.measurements, start=1):
        mine = [row for row in rows if row["measurement"] == str(number)]
        assert [float(row["value"]) for row in mine] == measurement.values.ravel().tolist()
        assert {float(row["sigma"]) for row in mine} == {float(measurement.sigma)}
        for row in mine:
            codes = tuple(map(int, row["codes"].split(";")))
            assert measurement.values[codes] == float(row["value"])
            names = row["columns"].split(";")
            labels = [release.schema.column(n).labels[c] for n, c in zip(names, codes, strict=True)]
            assert row["levels"] == ";".join(labels)


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(UsageError, match="data package"):
        admeasure.export("release", tmp_path / "m.csv", "csv", rows=3)
    (tmp_path / "there.json").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        admeasure.export("release", tmp_path / "there.json", "sdv")
    assert (tmp_path / "there.json").read_text() == "mine"
