"""Private bins of columns that nobody would wish for: sound releases, or errors before a charge.
And values inside bins, which keep their heaps."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import admeasure
from admeasure.errors import DataError
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.release import Release
from admeasure.request import ChargeTo
from admeasure.schema import Schema
from admeasure.schema.leaves import LARGEST

HEAD = """
[table]
name = "t"
[privacy]
unit = "person"
neighbours = "{relation}"
[[column]]
name = "x"
"""
REST = '\n[[column]]\nname = "b"\ntype = "boolean"\n'


def schema(fields: str, relation: str = "add-remove") -> Schema:
    return Schema.loads(HEAD.format(relation=relation) + fields + REST)


def released(values: Any, fields: str, relation: str = "add-remove", **more: Any) -> Release:
    table = {"x": values, "b": np.arange(len(values)) % 2 == 0}
    asked = {"workload": "all-2way", "mechanism": build("mst", {}), "epsilon": 1, "delta": 1e-6}
    return admeasure.fit(table, schema(fields, relation), **asked, **({"seed": 1} | more))


DATE = 'type = "date"'
NUMBER = 'type = "number"'
INTEGER = 'type = "integer"'
BOUNDED = 'type = "integer"\nminimum = 0\nmaximum = 1000\nbins = "private"'
SOUND: dict[str, tuple[Any, str]] = {
    "a constant": (np.full(800, 3.5), NUMBER),
    "a constant integer": (np.full(800, 12), INTEGER),
    "a constant at the maximum": (np.full(800, 1000), BOUNDED),
    "no rows": (np.array([], float), NUMBER),
    "few rows": (np.array([1.0, 2.0, 1e300]), NUMBER),
    "all missing": (np.full(800, np.nan), NUMBER + "\nmissing_values = []"),
    "infinite, clamped": (np.array([np.inf, -np.inf, 1.0] * 300), NUMBER + "\nclamp = true"),
    "infinite, other": (np.array([np.inf, 1.0, 1.0] * 300), NUMBER + "\nother = true"),
    "bounds that no value meets": (np.full(800, 5000), BOUNDED + "\nclamp = true"),
    "the ends of all doubles": (np.array([LARGEST, -LARGEST] * 400), NUMBER),
    "the least doubles": (np.array([5e-324, -5e-324] * 400), NUMBER),
    "days of all times": (np.array([datetime.date.min, datetime.date.max] * 400), DATE),
    "a missing value that is a leaf": (
        np.array([0, -9] * 400),
        INTEGER + '\nmissing_values = ["-9"]',
    ),
    "a logarithm of zero": (
        np.array([0.0, 1.0] * 400),
        NUMBER + '\nscale = "log"\nminimum = 0\nmaximum = 9',
    ),
}


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("case", SOUND)
def test_a_column_of_any_shape_gives_a_sound_release(case, relation, tmp_path):
    values, fields = SOUND[case]
    out = tmp_path / "out"
    release = released(values, fields, relation, out=out)
    column = release.schema.column("x")
    assert not column.is_open
    rows = Release.load(out).sample_columns(300, seed=3)["x"]
    codes = [column.code_of(v) for v in rows if v is not None]
    assert all(code >= 0 for code in codes)
    # what was paid for is paid in full, under either relation
    assert release.certificate.rho_spent == pytest.approx(release.certificate.rho)


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (np.array([1.0, np.inf] * 100), NUMBER),
        (np.full(100, 5000), BOUNDED),
        (np.full(100, datetime.date(2030, 1, 1)), DATE + "\nmaximum = 2025-12-31"),
        (np.array(["1e400"] * 100), INTEGER),
    ],
)
def test_what_is_outside_is_refused_before_anything_is_charged(values, fields, tmp_path):
    book = Book.create(tmp_path / "book.db", "t", epsilon=1, delta=1e-6)
    charged = {"charge_to": ChargeTo(tmp_path / "book.db", "t"), "seed": None}
    with pytest.raises(DataError, match="Column 'x'"):
        released(values, fields, out=tmp_path / "out", **charged)
    assert not book.account("t").spent
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize(("values", "fields"), [SOUND["a constant"], SOUND["a constant integer"]])
def test_a_constant_without_bounds_comes_back(values, fields):
    rows = released(values, fields).sample_columns(400, seed=1)["x"]
    assert np.mean(np.asarray(rows) == values[0]) > 0.9


def test_few_rows_without_bounds_never_become_huge_numbers():
    rows = np.asarray(released(*SOUND["few rows"]).sample_columns(50, seed=1)["x"], float)
    assert np.abs(rows).max(initial=0.0) <= 1


# Values inside bins.


def test_a_spike_inside_a_wide_bin_stays_a_spike():
    """3.2% of 50,000 rows at one round sum; a bin of that column is a twentieth of it or wider."""
    rng = np.random.default_rng(5)
    incomes = np.round(np.exp(rng.normal(10.5, 0.8, 50_000)), 2)
    spike = rng.random(50_000) < 0.032
    incomes = np.where(spike, 30_000.0, np.where(incomes == 30_000, 30_001, incomes))
    for fields in (NUMBER, NUMBER + "\nminimum = 0\nmaximum = 1000000"):
        release = released(np.clip(incomes, 0, 1e6), fields)
        rows = np.asarray(release.sample_columns(50_000, seed=2)["x"], float)
        assert np.mean(rows == 30_000) == pytest.approx(0.032, abs=0.004)
        bins = release.schema.column("x").regular
        assert 8 <= bins <= 64


def test_zeros_and_heaps_of_whole_numbers_survive():
    rng = np.random.default_rng(6)
    hours = np.where(rng.random(20_000) < 0.47, 40, np.clip(rng.normal(38, 13, 20_000), 0, 99))
    hours = np.rint(hours).astype(int)
    rows = np.asarray(
        released(hours, INTEGER + '\nminimum = 0\nmaximum = 99\nbins = "private"').sample_columns(
            20_000, seed=2
        )["x"]
    )
    true = np.bincount(hours, minlength=100) / 20_000
    found = np.bincount(rows, minlength=100) / 20_000
    assert np.abs(np.cumsum(true - found)).max() < 0.02


def test_leaves_are_stored_read_back_and_checked(tmp_path):
    release = released(np.arange(2000) % 700, BOUNDED, out=tmp_path / "out")
    again = Release.load(tmp_path / "out")
    assert np.array_equal(again.inside["x"].shares, release.inside["x"].shares)
    first, second = (r.sample_columns(100, seed=4)["x"].tolist() for r in (release, again))
    assert first == second
    inside = release.inside["x"]
    grid = release.schema.column("x").grid
    assert grid is not None
    assert inside.fits(grid)
    for starts, shares in (
        (inside.starts[1:], inside.shares[1:]),
        (inside.starts, -inside.shares),
        (inside.starts, inside.shares * np.nan),
        (inside.starts.astype(float), inside.shares),
        (inside.starts[::-1].copy(), inside.shares),
        (inside.starts, inside.shares[:-1]),
        (inside.starts[:0], inside.shares[:0]),
    ):
        assert not type(inside)(starts, shares).fits(grid)
