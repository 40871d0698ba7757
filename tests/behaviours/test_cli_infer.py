"""`admeasure infer`: estimates with intervals on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.schema import Schema

SCHEMA = Schema.loads("""
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
""")
ALL = [
    *("--mean", "age", "--mean", "smoker = true", "--where", "sex = 'f'"),
    *("--difference", "age", "sex = 'f'", "sex = 'm'"),
    *("--correlation", "age", "smoker = true"),
    *("--linear", "age ~ smoker = true + sex = 'f'", "--logistic", "smoker = true ~ age"),
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(0, 100, 2000),
        "sex": rng.choice(["f", "m"], 2000),
        "smoker": rng.random(2000) < 0.3,
    }
    made = admeasure.fit(
        table, SCHEMA, workload="all-3way", mechanism=admeasure.gaussian(), epsilon=20, delta=1e-9
    )
    return str(made.save(tmp_path_factory.mktemp("infer") / "release"))


def test_infer_gives_each_estimate_with_two_intervals(
    release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["infer", release, *ALL, "--json", "--confidence", "0.9"]) == 0
    found = json.loads(capsys.readouterr().out)["estimates"]
    kinds = ["mean", "mean", "difference", "correlation", *["linear"] * 3, *["logistic"] * 2]
    assert [one["statistic"] for one in found] == kinds
    names = ["constant", "smoker = True", "sex = 'f'", "constant", "age"]
    assert [one["name"] for one in found[-5:]] == names
    for one in found:
        (a, b), (c, d) = one["noise"], one["noise_and_sampling"]
        assert c <= a < one["value"] < b <= d
        assert (c < a and b < d) or one["statistic"] == "correlation"  # which may reach -1 and 1
        assert one["confidence"] == 0.9


def test_infer_prints_a_line_for_each(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["infer", release, *ALL]) == 0
    said = capsys.readouterr().out
    assert "population from" in said
    assert said.count("\nlinear ") == 3
    assert "Wider, since columns" not in said
    # A bin has 20 ages, from 9.5 below its middle to 9.5 above it.
    assert "where in their bins values lie" in said
    assert "mean age by 9.5" in said
    assert "mean smoker" not in said[said.index("where in their bins") :]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "--mean COLUMN"),
        (["--where", "sex = 'f'"], "Name one"),
        (["--linear", "age"], "needs what is explained"),
        (["--linear", "age ~ sex = 'f' +"], "missing beside"),
        (["--logistic", "age ~ sex = 'f'"], "Write age = "),
        (["--mean", "sex"], "Name conditions"),
        (["--mean", "sex = f"], "--mean"),
        (["--mean", "height"], "height"),
    ],
)
def test_infer_refuses_what_it_cannot_read(
    release: str, capsys: pytest.CaptureFixture[str], asked: list[str], words: str
) -> None:
    assert run(["infer", release, *asked]) in (2, 3)
    assert words in capsys.readouterr().err


def test_infer_says_which_intervals_are_wider_for_what_was_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"a": np.arange(2000) % 2, "b": np.arange(2000) // 2 % 2}
    made = admeasure.fit(
        table,
        Schema.coded("toy", {"a": 2, "b": 2}),
        workload="all-2way",
        mechanism=admeasure.independent(),
        epsilon=20,
        delta=1e-9,
        certify=0.2,
    )
    made.save(tmp_path / "release")
    assert run(["infer", str(tmp_path / "release"), "--correlation", "a = 1", "b = 1"]) == 0
    assert "Wider, since columns were not measured together: correlation" in capsys.readouterr().out
