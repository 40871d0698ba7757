"""Levels are bought for columns that somebody asks about: schema, workload and mechanism decide,
and a column that nobody asks about has as few as public facts give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import admeasure
from admeasure.errors import SchemaError
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.queries import Marginal
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.workload import Workload
from bought_domains import HEADER

COLUMNS = """
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = "private"
[[column]]
name = "cost"
type = "number"
minimum = 0.0
maximum = 50.0
bins = "private"
missing_values = ["?"]
[[column]]
name = "code"
type = "string"
levels_of = { A1 = "A", A2 = "A", B1 = "B", B2 = "B" }
[[column]]
name = "town"
type = "string"
enum = "private"
[[column]]
name = "sex"
type = "boolean"
"""
OPEN = Schema.loads(HEADER + COLUMNS)
MARGINAL = '[[marginal]]\ncolumns = ["age", "sex"]\n'
ROWS = 400


def table() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "age": rng.integers(0, 100, ROWS),
        "cost": rng.integers(0, 50, ROWS) / 2,
        "code": rng.choice(["A1", "A2", "B1", "B2"], ROWS),
        "town": rng.choice(["Ulm", "Bonn"], ROWS),
        "sex": rng.random(ROWS) < 0.5,
    }


def fitted(path: Any, schema: Schema = OPEN, mechanism: str = "aim", **more: Any) -> Release:
    (path / "w.toml").write_text(MARGINAL)
    asked = {"epsilon": 1, "delta": 1e-6, "mechanism": build(mechanism), **more}
    return admeasure.fit(table(), schema, workload=path / "w.toml", seed=3, **asked)


def test_levels_are_bought_for_columns_that_are_asked_about_and_no_others(tmp_path):
    release = fitted(tmp_path)
    charged = [line.what for line in release.certificate.charges]
    assert [what for what in charged if "tree" in what or "levels of" in what] == [
        "counts of a tree over age, for its bins"
    ]
    assert release.certificate.delta_spent == 0
    schema = release.schema
    assert schema.column("age").levels > 1
    assert schema.column("cost").labels == ("[0, 50]", "missing")
    assert schema.column("code").labels == ("A", "B")
    assert schema.column("town").labels == ("other",)
    assert "Columns that no question is about (cost, code, town)" in " ".join(
        release.certificate.notes
    )


def test_rows_have_values_of_unasked_columns_that_the_schema_allows(tmp_path):
    rows = fitted(tmp_path).sample(500, seed=1)
    known = {"A1", "A2", "B1", "B2"}
    assert set(rows["code"]) == known
    assert set(rows["town"]) == {"other"}
    costs = [cost for cost in rows["cost"] if cost is not None]
    assert 0 < len(costs) < 500
    assert all(0 <= cost <= 50 for cost in costs)


def test_a_plan_names_what_the_run_pays(tmp_path):
    (tmp_path / "w.toml").write_text(MARGINAL)
    planned = admeasure.plan(
        OPEN, workload=tmp_path / "w.toml", epsilon=1, delta=1e-6, mechanism="aim", rows=ROWS
    )
    first = planned.plan.items[0]
    assert (first.what, float(first.total.ratio(planned.budget))) == (
        "counts of a tree over age, for its bins",
        pytest.approx(0.1),
    )
    assert any("(cost, code, town)" in note for note in planned.plan.notes)
    release = fitted(tmp_path)
    assert release.certificate.rho == float(planned.budget)


@pytest.mark.parametrize("name", ["independent", "mst"])
def test_a_mechanism_that_measures_every_column_has_bins_for_all(name, tmp_path):
    release = fitted(tmp_path, mechanism=name)
    charged = " ".join(line.what for line in release.certificate.charges)
    assert "a tree over age" in charged
    assert "a tree over cost" in charged
    assert "levels of town" in charged


@pytest.mark.parametrize("bound", ["", "minimum = 0\n", "maximum = 9\n"])
def test_an_unasked_column_without_bounds_is_refused_before_anything_is_read(bound, tmp_path):
    text = f'[[column]]\nname = "debt"\ntype = "integer"\n{bound}'
    endless = Schema.loads(HEADER + COLUMNS + text)
    with pytest.raises(SchemaError, match=r"'debt'.*no bounds.*minimum = …") as refused:
        fitted(tmp_path, endless)
    assert "ask about it, or leave it out" in str(refused.value)
    with pytest.raises(SchemaError, match="'debt'"):
        admeasure.plan(endless, workload=tmp_path / "w.toml", epsilon=1, mechanism="aim")


def test_a_public_table_may_hold_a_column_that_nobody_asks_about(tmp_path):
    """Its levels are known: there is one."""
    closed = COLUMNS.replace('bins = "private"', "bins = 4", 1)
    schema = Schema.loads(HEADER + closed)
    release = fitted(tmp_path, schema, "pmw-pub", public=table())
    assert release.schema.column("cost").regular == 1


def test_everything_is_bought_where_everything_is_asked_about():
    workload = Workload([Marginal([name]) for name in OPEN.names])
    assert bought.asked(OPEN, workload, build("aim")) is OPEN
    assert bought.left_out(OPEN, OPEN) == ()
