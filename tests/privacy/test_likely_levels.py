"""A plan with columns whose levels are bought counts with about as many as a run finds."""

from __future__ import annotations

import numpy as np
import pytest

import admeasure
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.planning.division import Task
from admeasure.schema import Schema
from admeasure.workload import parse_workload
from bought_domains import HEADER

BINS = """
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 120
bins = "private"
[[column]]
name = "income"
type = "number"
minimum = 0.0
maximum = 1000000.0
bins = "private"
clamp = true
[[column]]
name = "sex"
type = "boolean"
"""
CODES = """
[[column]]
name = "code"
type = "string"
levels_of = {levels}
[[column]]
name = "sex"
type = "boolean"
"""
FOUND = """
[[column]]
name = "town"
type = "string"
enum = "private"
[[column]]
name = "sex"
type = "boolean"
"""
DELTA = 1e-9


def planned(schema: Schema, epsilon: float, rows: int | None) -> float | None:
    return admeasure.plan(
        schema, workload="all-2way", epsilon=epsilon, mechanism="independent", rows=rows
    ).plan.expected_error


def afterwards(schema: Schema, found: Schema, epsilon: float, rows: int) -> float:
    """What the mechanism says, with the same budget, when the levels are known."""
    _, left = bought.divide(schema, bought.budget(schema, epsilon, DELTA))
    task = Task.of(found, parse_workload("all-2way", found.domain))
    error = build("independent").plan(task, left, rows).expected_error
    assert error is not None
    return error


def fitted(table: dict[str, np.ndarray], schema: Schema, epsilon: float) -> Schema:
    return admeasure.fit(
        table,
        schema,
        workload="all-2way",
        epsilon=epsilon,
        delta=DELTA,
        mechanism=build("independent"),
        seed=7,
    ).schema


@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
@pytest.mark.parametrize("rows", [2000, 30_000])
def test_the_error_of_a_plan_with_private_bins_is_within_twice_that_with_the_bins(rows, epsilon):
    """With 64 bins a column, the most that there may be, it was up to nine times as much."""
    schema, rng = Schema.loads(HEADER + BINS), np.random.default_rng(3)
    table = {
        "age": rng.integers(18, 90, rows),
        "income": np.where(rng.random(rows) < 0.3, 0.0, np.round(np.exp(rng.normal(10, 1, rows)))),
        "sex": rng.random(rows) < 0.5,
    }
    after = afterwards(schema, fitted(table, schema, epsilon), epsilon, rows)
    before = planned(schema, epsilon, rows)
    assert before is not None
    assert after / 2 <= before <= 2 * after


def test_no_more_levels_of_a_hierarchy_are_found_than_can_hold_enough():
    codes = {f"c{i:03}": f"g{i // 20}" for i in range(400)}
    levels = "{ " + ", ".join(f'{code} = "{group}"' for code, group in codes.items()) + " }"
    schema, rng = Schema.loads(HEADER + CODES.format(levels=levels)), np.random.default_rng(4)
    rows = 20_000
    table = {
        "code": np.array(list(codes))[(400 * rng.random(rows) ** 3).astype(int)],
        "sex": rng.random(rows) < 0.5,
    }
    budget = bought.budget(schema, 1, DELTA)
    likely = bought.likely_domain(schema, budget, rows)["code"]
    found = fitted(table, schema, 1).column("code").levels
    assert found <= likely < schema.domain["code"]
    assert bought.likely_domain(schema, budget, None) == schema.domain


def test_no_more_categories_are_counted_with_than_can_be_held_by_enough():
    schema = Schema.loads(HEADER + FOUND)
    budget = bought.budget(schema, 1, DELTA)
    few, many = (bought.likely_domain(schema, budget, rows)["town"] for rows in (1000, 10**7))
    assert few < 10  # 210 of each are needed, and `other` is one
    assert many == schema.domain["town"]


def test_a_plan_says_how_many_levels_it_counts_with():
    schema = Schema.loads(HEADER + BINS)
    for rows, said in (None, "the most bins"), (3000, "as many bins as can hold enough rows (age:"):
        made = admeasure.plan(schema, workload="all-2way", epsilon=1, rows=rows)
        assert any(said in note for note in made.plan.notes)
