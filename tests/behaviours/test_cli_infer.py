"""`admeasure infer`: estimates with intervals on the command line."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path

import numpy as np
import pytest

import admeasure
from admeasure.analyses import LinearRegression, Mean, MeanDifference
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


DAYS = Schema.loads("""
[table]
name = "visits"
[privacy]
unit = "person"
[[column]]
name = "seen"
type = "date"
minimum = 2019-01-01
maximum = 2019-03-31
[[column]]
name = "booked"
type = "date"
minimum = 2019-01-01
maximum = 2019-01-31
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
""")
FIRST = datetime.date(2019, 1, 1)


@pytest.fixture(scope="module")
def visits() -> tuple[admeasure.Release, np.ndarray, np.ndarray, np.ndarray]:
    """A release that is nearly exact, and the table: women are seen nine days later."""
    rng = np.random.default_rng(4)
    women, booked = rng.random(3000) < 0.5, rng.integers(0, 31, 3000)
    seen = booked + rng.integers(0, 20, 3000) + 9 * women
    table = {
        "seen": [FIRST + datetime.timedelta(int(d)) for d in seen],
        "booked": [FIRST + datetime.timedelta(int(d)) for d in booked],
        "sex": np.where(women, "f", "m"),
    }
    made = admeasure.fit(
        table, DAYS, workload="all-3way", mechanism=admeasure.gaussian(), epsilon=1000, delta=1e-9
    )
    return made, seen, booked, women


def test_a_mean_of_days_is_a_day_and_its_intervals_have_whole_days(visits) -> None:
    release, seen, _, women = visits
    (found,) = admeasure.infer(release, Mean("seen", where={"sex": "f"}))
    true = float(seen[women].mean())
    assert found.value == FIRST + datetime.timedelta(round(true))
    for low, high in (found.noise, found.noise_and_sampling):
        assert low <= FIRST + datetime.timedelta(math.floor(true))
        assert high >= FIRST + datetime.timedelta(math.ceil(true))
        assert (high - low).days < 5
    assert found.unit == "days"


def test_differences_and_slopes_of_days_are_counted_in_days(visits) -> None:
    release, seen, booked, women = visits
    (found,) = admeasure.infer(release, MeanDifference("seen", {"sex": "f"}, {"sex": "m"}))
    true = seen[women].mean() - seen[~women].mean()
    assert (found.value, found.unit) == (pytest.approx(true, abs=0.05), "days")
    of = LinearRegression("seen", ["booked", {"sex": "f"}])
    constant, slope, later = admeasure.infer(release, of)
    x = np.stack([np.ones(3000), booked, women], axis=1)
    at, by, more = np.linalg.lstsq(x, seen, rcond=None)[0]
    # Of days since 1970, to which both sides are counted there.
    offset = (FIRST - datetime.date(1970, 1, 1)).days * (1 - by)
    epoch = datetime.date(1970, 1, 1).toordinal() + at + offset
    assert abs(constant.value.toordinal() - epoch) < 60  # as far as the slope's noise takes it
    assert (slope.value, slope.unit) == (pytest.approx(by, abs=0.005), "")
    assert (later.value, later.unit) == (pytest.approx(more, abs=0.1), "days")


def test_days_are_printed_as_days(visits, tmp_path: Path, capsys) -> None:
    release, seen, _, _ = visits
    folder = str(release.save(tmp_path / "release"))
    asked = ["--mean", "seen", "--difference", "seen", "sex = 'f'", "sex = 'm'"]
    assert run(["infer", folder, *asked]) == 0
    printed = capsys.readouterr().out
    assert (FIRST + datetime.timedelta(round(float(seen.mean())))).isoformat() in printed
    assert "seen (days)" in printed
    assert run(["infer", folder, *asked, "--json"]) == 0
    mean, apart = json.loads(capsys.readouterr().out)["estimates"]
    assert datetime.date.fromisoformat(mean["noise"][0]) <= datetime.date.fromisoformat(
        mean["value"]
    )
    assert isinstance(apart["value"], float)


def test_a_number_that_no_calendar_reaches_stays_a_number() -> None:
    column = DAYS.column("seen")
    assert column.written(0.4) == datetime.date(1970, 1, 1)
    assert column.written(-0.5, math.floor) == datetime.date(1969, 12, 31)
    for far in (-1e7, 1e7, math.inf):
        assert column.written(far) == far
