"""Rows that meet conditions: they do, relations hold in them, and their number is the model's."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.domain import Domain
from admeasure.errors import (
    AdmeasureError,
    ResourceError,
    SchemaError,
    UsageError,
    WorkloadError,
)
from admeasure.families.products.family import ProductModel
from admeasure.release import Release, conditional
from admeasure.schema import Schema, Zero

SCHEMA = """
[table]
name = "visits"
[privacy]
unit = "person"
[[column]]
name = "sex"
type = "string"
enum = ["F", "M", "X"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 10
[[column]]
name = "booked"
type = "date"
minimum = 2023-01-01
maximum = 2023-12-31
bins = 12
[[column]]
name = "wait"
type = "integer"
edges = [0, 1, 8, 100]
[[column]]
name = "first"
type = "integer"
minimum = 0
maximum = 99
bins = 10
[[difference]]
column = "wait"
of = "seen"
minus = "booked"
[[determines]]
from = ["sex", "age"]
to = "kind"
otherwise = "other"
table = [["F", {from = 0, to = 19}, "girl"], ["M", {from = 0, to = 19}, "boy"]]
[[order]]
columns = ["first", "age"]
[[zero]]
columns = ["sex"]
where = {sex = "X"}
"""


def table(rows: int = 2000) -> dict[str, list]:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    first = rng.integers(0, age + 1)
    start = datetime.date(2023, 1, 1)
    booked = [start + datetime.timedelta(int(d)) for d in rng.integers(0, 365, rows)]
    wait = rng.choice([0, 3, 50], rows)
    return {
        "sex": np.where(rng.random(rows) < age / 100, "F", "M").tolist(),
        "age": age.tolist(),
        "first": first.tolist(),
        "booked": booked,
        "seen": [b + datetime.timedelta(int(w)) for b, w in zip(booked, wait, strict=True)],
    }


@pytest.fixture(scope="module")
def release() -> Release:
    return admeasure.fit(
        table(),
        Schema.loads(SCHEMA),
        workload="all-2way",
        mechanism=admeasure.aim(),
        epsilon=10,
        delta=1e-9,
        seed=1,
    )


@pytest.fixture(scope="module")
def folder(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.save(tmp_path_factory.mktemp("releases") / "release")


def keeps_relations(rows: dict[str, np.ndarray]) -> bool:
    lines = list(zip(*(rows[c] for c in ("sex", "age", "first", "kind")), strict=True))
    young = {"F": "girl", "M": "boy"}
    named = all(k == (young[s] if a < 20 else "other") for s, a, _, k in lines)
    days = [s - b for b, s in zip(rows["booked"], rows["seen"], strict=True)]
    waited = all(datetime.timedelta(0) <= d <= datetime.timedelta(100) for d in days)
    return named and waited and all(f <= a for _, a, f, _ in lines)


def test_rows_meet_their_conditions_and_keep_the_relations(release: Release) -> None:
    rows = release.sample(500, where={"sex": "F", "age": (30, 49)}, seed=3)
    assert set(rows["sex"]) == {"F"}
    assert 30 <= min(rows["age"]) <= max(rows["age"]) <= 49
    assert len(rows["age"]) == 500
    assert keeps_relations(rows)


def test_a_condition_on_a_determined_column_is_one_on_those_that_decide_it(
    release: Release,
) -> None:
    rows = release.sample(300, where={"kind": ["girl", "boy"], "sex": "M"}, seed=3)
    assert set(rows["kind"]) == {"boy"}
    assert max(rows["age"]) < 20
    assert keeps_relations(rows)


def test_without_a_number_there_are_as_many_rows_as_the_model_answers(release: Release) -> None:
    where = {"sex": "M", "age": (0, 39), "first": (0, 19)}
    assert len(release.sample(where=where)["sex"]) == round(release.answer(where).value)


def test_the_same_seed_gives_the_same_rows(release: Release) -> None:
    one, two = (release.sample(50, where={"sex": "F"}, seed=5) for _ in range(2))
    for name in one:
        assert list(one[name]) == list(two[name])


def test_chosen_columns_come_alone_and_in_order(release: Release) -> None:
    rows = release.sample(20, columns=["seen", "age"], seed=1)
    assert list(rows) == ["seen", "age"]
    whole = release.sample(20, seed=1)
    assert list(rows["seen"]) == list(whole["seen"])  # nothing else about the rows changes


def test_a_table_of_conditions_gives_each_its_rows_in_order(
    release: Release, tmp_path: Path
) -> None:
    file = tmp_path / "like.csv"
    file.write_text("age,sex,rows\n35,F,3\n,M,2\n71,,1\n35,F,2\n")
    rows = release.sample(like=file, seed=1)
    assert list(rows["sex"][:5]) == ["F", "F", "F", "M", "M"]
    assert list(rows["sex"][6:]) == ["F", "F"]
    decades = [age // 10 for age in rows["age"]]
    assert decades[:3] + decades[5:] == [3, 3, 3, 7, 3, 3]
    assert keeps_relations(rows)
    same = release.sample(
        like=[({"age": (30, 39), "sex": "F"}, 3), ({"sex": "M"}, 2), ({"age": (70, 79)}, 1)], seed=1
    )
    assert list(same["sex"][:5]) == ["F", "F", "F", "M", "M"]
    no_numbers = tmp_path / "plain.csv"
    no_numbers.write_text("sex\nF\nM\nF\n")
    assert list(release.sample(like=no_numbers)["sex"]) == ["F", "M", "F"]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"where": {"sex": "X"}}, UsageError, "impossible"),
        ({"where": {"age": (0, 9), "first": (50, 59)}}, UsageError, "impossible"),
        ({"where": {"age": (30, 34)}}, SchemaError, "part of the bin"),
        ({"where": {"agee": 1}}, SchemaError, "age"),
        ({"where": {"seen": 1}}, SchemaError, "computed in rows"),
        ({"where": {"sex": "F"}, "search": True}, UsageError, "not searched"),
        ({"like": [({"sex": "F"}, 1)], "rows": 3}, UsageError, "own numbers"),
        ({"like": [({"sex": "F"}, -1)]}, UsageError, "negative"),
        ({"like": [({"sex": "F"}, 1), ({"sex": "X"}, 1)]}, UsageError, "Condition 2 of"),
        ({"like": [({"sex": "F"}, 10**9)]}, ResourceError, "fewer at once"),
        ({"like": "nowhere.csv"}, UsageError, "nowhere.csv"),
        ({"columns": ["aeg"]}, UsageError, "age"),
        ({"columns": []}, UsageError, "at least one"),
        ({"columns": ["age", "age"]}, UsageError, "each once"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    release: Release, asked: dict, error: type[AdmeasureError], words: str
) -> None:
    with pytest.raises(error, match=words):
        release.sample(**asked)


@pytest.mark.parametrize(
    "text",
    [
        *("", "sex\n", "sex,sex\nF,F\n", "sex,rows\nF,-1\n", "sex,rows\nF,x\n", "sex\nF,M\n"),
        *("sex\nZ\n", "age\n200\n", "nothing\n1\n", '"sex\nF'),
    ],
)
def test_a_bad_table_of_conditions_is_refused(release: Release, tmp_path: Path, text: str) -> None:
    file = tmp_path / "like.csv"
    file.write_text(text)
    with pytest.raises((SchemaError, WorkloadError)):
        release.sample(like=file)


def test_a_table_of_too_many_different_conditions_is_refused(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "MOST_CONDITIONS", 1)
    with pytest.raises(ResourceError, match="different ones"):
        release.sample(like=[({"sex": "F"}, 1), ({"sex": "M"}, 1)])


def test_the_number_of_product_rows_that_meet_conditions_is_that_of_the_answers() -> None:
    domain, rng = Domain(("a", "b", "c"), (2, 3, 4)), np.random.default_rng(0)
    P = np.concatenate([rng.dirichlet(np.ones(n), size=5).T for n in (2, 3, 4)])
    model = ProductModel(domain, P.astype(np.float32), 100.0)
    (joint,) = model.marginals([("a", "b", "c")])
    together = rng.random((2, 4)) < 0.5
    cells = [Zero(("a", "c"), together), Zero(("b",), np.array([True, False, False]))]
    expected = joint[:, 1:, :].sum(axis=1)[~together].sum()
    assert model.without(cells).total == pytest.approx(expected, rel=1e-5)


def test_the_command_line_samples_with_conditions(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.csv"
    where = "sex = 'F', age = {from = 30, to = 39}"
    asked = ["sample", str(folder), "-o", str(out), "-n", "40", "--where", where]
    assert run([*asked, "--columns", "age,sex"]) == 0
    with out.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["age", "sex"]
    assert len(lines) == 40
    assert all(30 <= int(age) <= 39 and sex == "F" for age, sex in lines)
    assert "40 synthetic rows with 2 columns" in capsys.readouterr().out
    like = tmp_path / "like.csv"
    like.write_text("sex,rows\nM,7\n")
    assert run(["sample", str(folder), "-o", str(out), "--force", "--like", str(like)]) == 0
    assert "7 synthetic rows" in capsys.readouterr().out
    before = out.read_bytes()
    assert run(["sample", str(folder), "-o", str(out), "--force", "--where", "sex = 'X'"]) == 2
    assert "impossible" in capsys.readouterr().err
    assert out.read_bytes() == before
