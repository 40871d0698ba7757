"""A release: kept whole, read back the same, honest about what it is."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import admeasure
from admeasure.errors import AdmeasureError, ReleaseError, UsageError, WorkloadError
from admeasure.queries import Where
from admeasure.release import Release
from admeasure.release.store import FORMAT
from admeasure.reporting.text import text_report
from admeasure.workload import Question

SCHEMA = """
[table]
name = "toy"
[privacy]
unit = "person"
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
missing_values = [""]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 59
bins = 6
[[column]]
name = "smoker"
type = "boolean"
[[zero]]
columns = ["age", "smoker"]
where = {age = {to = 9}, smoker = true}
"""


def columns(rows: int = 400) -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    ages = [int(a) for a in rng.integers(0, 60, rows)]
    return {
        "sex": [("f", "m", None)[i] for i in rng.integers(0, 3, rows)],
        "age": ages,
        "smoker": [bool(age > 9 and rng.random() < age / 60) for age in ages],
    }


def fitted(data: Any, tmp_path: Path, **more: Any) -> Release:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    settings: dict[str, Any] = {"mechanism": admeasure.mwem(), "epsilon": 2, "delta": 1e-9}
    return admeasure.fit(data, tmp_path / "schema.toml", workload="all-2way", **(settings | more))


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return fitted(columns(), tmp_path, seed=1, out=tmp_path / "release")


def test_what_fit_wrote_is_what_it_returned(release: Release, tmp_path: Path) -> None:
    restored = Release.load(tmp_path / "release")
    assert restored.certificate == release.certificate
    assert restored.workload == release.workload
    assert restored.schema == release.schema
    assert np.array_equal(restored.marginal(["age", "sex"]), release.marginal(["age", "sex"]))


def test_a_new_process_answers_and_samples_the_same(release: Release, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text('[[query]]\nname = "q"\nwhere = {sex = "f", smoker = true}\n')

    def command(*argv: str) -> str:
        argv = (sys.executable, "-m", "admeasure", *argv)
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    (found,) = json.loads(command("answer", "release", "q.toml", "--json"))["answers"]
    (expected,) = release.answer([Question("q", Where(("sex", "smoker"), [(0,), (1,)]))])
    assert (found["value"], found["low"], found["high"]) == (
        expected.value,
        expected.low,
        expected.high,
    )
    command("sample", "release", "-n", "20", "--seed", "5", "-o", "rows.parquet")
    rows = pl.read_parquet(tmp_path / "rows.parquet").to_dict(as_series=False)
    here = release.sample_columns(20, seed=5)
    assert rows == {name: list(values) for name, values in here.items()}


def test_a_release_is_written_whole_or_not_at_all(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr("admeasure.release.store.os.fsync", full)
    with pytest.raises(AdmeasureError, match="No space left"):
        release.save(tmp_path / "again")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_release_is_never_written_over_another(release: Release, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        release.save(tmp_path / "release")


def test_the_arrays_are_never_unpickled(release: Release, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    with open(folder / "model.npz", "wb") as file:
        np.savez(file, weights=np.array([{"a": 1}], dtype=object))
    head = json.loads((folder / "release.json").read_text())
    digest = hashlib.sha256((folder / "model.npz").read_bytes()).hexdigest()
    head["sha256"]["model.npz"] = digest
    (folder / "release.json").write_text(json.dumps(head))
    with pytest.raises(ReleaseError, match="plain array"):
        Release.load(folder)


def test_a_release_of_a_newer_format_is_refused_and_says_to_update(
    release: Release, tmp_path: Path
) -> None:
    path = tmp_path / "release" / "release.json"
    head = json.loads(path.read_text())
    path.write_text(json.dumps(head | {"format": FORMAT + 1}))
    with pytest.raises(ReleaseError, match="Update admeasure"):
        Release.load(tmp_path / "release")


def test_a_release_holds_none_of_the_exact_counts_and_no_folder_of_the_run(
    release: Release, tmp_path: Path
) -> None:
    assert sorted(os.listdir(tmp_path / "release")) == [
        "certificate.yaml",
        "log.jsonl",
        "measurements.npz",
        "model.npz",
        "release.json",
        "schema.toml",
        "workload.toml",
    ]
    assert not (tmp_path / "release.partial").exists()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_rows_come_back_in_the_type_of_the_table(make: Any, tmp_path: Path) -> None:
    release = fitted(make(columns()), tmp_path)
    assert type(release.sample(10)) is make


def test_rows_keep_the_schema_and_its_zeros(release: Release) -> None:
    rows = release.sample_columns(3000, seed=2)
    assert set(rows["sex"]) <= {"f", "m", None}
    assert all(0 <= age <= 59 for age in rows["age"])
    assert not any(
        age <= 9 and smoker for age, smoker in zip(rows["age"], rows["smoker"], strict=True)
    )


def test_as_many_rows_as_the_table_is_believed_to_have_unless_told(release: Release) -> None:
    assert len(release.sample_columns()["age"]) == release.rows
    assert len(release.sample_columns(0)["age"]) == 0


def test_a_marginal_has_its_axes_in_the_order_asked(release: Release) -> None:
    straight, turned = release.marginal(["sex", "age"]), release.marginal(["age", "sex"])
    assert straight.shape == (3, 6)
    assert np.array_equal(straight, turned.T)


@pytest.mark.parametrize("asked", [["sx"], ["sex", "sex"]])
def test_a_marginal_that_cannot_be_is_refused(release: Release, asked: list[str]) -> None:
    with pytest.raises(WorkloadError):
        release.marginal(asked)


def test_every_answer_lies_in_its_interval_and_a_surer_interval_is_wider(release: Release) -> None:
    questions = [Question(str(i), Where(("age",), [(i,)])) for i in range(6)]
    narrow, wide = (release.answer(questions, confidence=c) for c in (0.5, 0.99))
    for one, two in zip(narrow, wide, strict=True):
        assert 0 <= two.low <= one.low <= one.value <= one.high <= two.high


def test_a_seeded_release_is_stamped_in_every_file_that_people_read(
    release: Release, tmp_path: Path
) -> None:
    for name in ("release.json", "certificate.yaml"):
        assert "NOT PRIVATE" in (tmp_path / "release" / name).read_text(), name
    report = text_report(release)
    assert report.splitlines()[0].startswith("*** NOT PRIVATE")


def test_a_private_release_is_not_stamped(tmp_path: Path) -> None:
    release = fitted(columns(), tmp_path, out=tmp_path / "release")
    for name in ("release.json", "certificate.yaml"):
        assert "NOT PRIVATE" not in (tmp_path / "release" / name).read_text(), name
    assert "NOT PRIVATE" not in text_report(release)


def test_the_report_is_made_of_the_release_alone(release: Release, tmp_path: Path) -> None:
    assert text_report(Release.load(tmp_path / "release")) == text_report(release)


def test_the_report_names_the_promise_every_charge_and_every_column(release: Release) -> None:
    report = text_report(release)
    assert release.certificate.promise in report
    for line in release.certificate.charges:
        assert line.what in report
    for name in release.schema.names:
        assert f"\n{name}: within" in report


def test_the_report_ranks_the_workload_by_its_bounds(release: Release) -> None:
    lines = text_report(release).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("The workload, worst"))
    shown = [
        float(line.split()[0]) for line in lines[start + 4 : start + 4 + len(release.bounds())]
    ]
    assert shown == sorted(shown, reverse=True)
    worst = max(bound.error for bound in release.bounds().values())
    assert shown[0] == pytest.approx(min(2, worst / release.rows), abs=1e-4)


def test_the_report_of_answers_says_what_it_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text('[[marginal]]\ncolumns = ["age"]\n')
    (tmp_path / "schema.toml").write_text(SCHEMA)
    release = admeasure.fit(
        columns(),
        tmp_path / "schema.toml",
        workload=str(tmp_path / "w.toml"),
        mechanism=admeasure.gaussian(),
        epsilon=1,
        delta=1e-9,
    )
    report = text_report(release)
    assert "does not answer: sex, smoker" in report
    assert "\nage: within" in report
