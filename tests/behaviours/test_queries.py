"""Queries are values, and their answers are what a walk over the rows would count."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.domain import Domain
from admeasure.errors import WorkloadError
from admeasure.queries import (
    AnyCell,
    AtLeast,
    Cell,
    Marginal,
    Query,
    Threshold,
    ThresholdCell,
    Where,
    from_record,
    to_record,
)
from admeasure.unit import Unit

NAMES = ("a", "b", "c", "d", "e", "f")


@st.composite
def tables(draw, most_columns=4, most_levels=4, most_rows=12):
    """Level counts and rows of codes of a small table."""
    levels = draw(st.lists(st.integers(1, most_levels), min_size=1, max_size=most_columns))
    row = st.tuples(*(st.integers(0, n - 1) for n in levels))
    return tuple(levels), draw(st.lists(row, max_size=most_rows))


def count(levels, rows) -> np.ndarray:
    counts = np.zeros(levels, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return counts


def agreements(row, target) -> int:
    return sum(x == t for x, t in zip(row, target, strict=True))


@given(tables(), st.data())
def test_threshold_answers_what_a_walk_over_the_rows_counts_for_every_target(table, data):
    levels, rows = table
    r = data.draw(st.integers(1, len(levels)))
    answer = Threshold(NAMES[: len(levels)], r).answer(count(levels, rows))
    assert answer.dtype == np.int64
    for target in product(*map(range, levels)):
        assert answer[target] == sum(agreements(row, target) >= r for row in rows)


@pytest.mark.parametrize("r", range(1, 7))
def test_threshold_of_six_columns_agrees_with_brute_force(r):
    rng = np.random.default_rng(r)
    levels = (2, 3, 2, 1, 2, 3)
    rows = rng.integers(0, levels, size=(40, 6))
    answer = Threshold(NAMES, r).answer(count(levels, map(tuple, rows)))
    for target in product(*map(range, levels)):
        assert answer[target] == ((rows == target).sum(axis=1) >= r).sum()


def test_threshold_of_all_columns_is_the_marginal():
    counts = np.random.default_rng(0).integers(0, 9, (3, 2, 4))
    assert np.array_equal(Threshold(["a", "b", "c"], 3).answer(counts), counts)


def test_threshold_is_exact_for_counts_that_a_float_cannot_hold():
    counts = np.full((2, 2, 2), 2**53 + 1, dtype=np.int64)
    # One of three: every row but those that differ from the target in all three columns.
    assert (Threshold(["a", "b", "c"], 1).answer(counts) == 7 * (2**53 + 1)).all()


@given(tables(), st.data())
def test_threshold_cell_is_that_cell_of_the_threshold(table, data):
    levels, rows = table
    columns = NAMES[: len(levels)]
    r = data.draw(st.integers(1, len(levels)))
    target = data.draw(st.tuples(*(st.integers(0, n - 1) for n in levels)))
    counts = count(levels, rows)
    one = ThresholdCell(columns, r, target).answer(counts)
    assert one.shape == ()
    assert one == Threshold(columns, r).answer(counts)[target]


@given(tables(), st.data())
def test_where_and_at_least_count_the_rows_that_meet_their_conditions(table, data):
    levels, rows = table
    columns = NAMES[: len(levels)]
    sets = [data.draw(st.sets(st.integers(0, n - 1), min_size=1)) for n in levels]
    r = data.draw(st.integers(1, len(levels)))
    counts = count(levels, rows)
    met = [sum(x in s for x, s in zip(row, sets, strict=True)) for row in rows]
    assert Where(columns, sets).answer(counts) == sum(m == len(levels) for m in met)
    assert AtLeast(columns, sets, r).answer(counts) == sum(m >= r for m in met)


def test_a_model_s_estimates_are_answered_in_floating_point():
    estimates = np.random.default_rng(1).random((3, 4))
    whole = Threshold(["a", "b"], 1).answer(estimates)
    assert whole.dtype == np.float64
    expected = estimates.sum(1, keepdims=True) + estimates.sum(0, keepdims=True) - estimates
    assert np.allclose(whole, expected)
    assert np.isclose(AtLeast(["a", "b"], [{2}, {0}], 1).answer(estimates), expected[2, 0])


def test_columns_are_put_in_alphabetical_order_and_take_their_codes_along():
    assert Marginal(["sex", "age"]) == Marginal(("age", "sex"))
    assert Cell(["sex", "age"], [1, 30]) == Cell(["age", "sex"], [30, 1])
    assert Where(["sex", "age"], [{1}, {4, 3}]) == Where(["age", "sex"], [[3, 4], [1]])
    assert AtLeast(["b", "a"], [[1], [0]], 1) == AtLeast(["a", "b"], [[0], [1]], 1)
    assert ThresholdCell(["b", "a"], 1, [1, 0]) == ThresholdCell(["a", "b"], 1, [0, 1])
    assert len({Threshold(["a", "b"], 1), Threshold(["b", "a"], 1), Threshold(["a", "b"], 2)}) == 2


QUERIES = [
    Marginal(()),
    Marginal(["a", "b"]),
    Cell(["b", "a"], [1, 0]),
    Where(["a", "c"], [[0, 1], [2]]),
    Threshold(["a", "b", "c"], 2),
    ThresholdCell(["a", "b"], 1, np.array([1, 0])),
    AtLeast(["c", "a"], [[1, 2], [0]], 1),
    AnyCell(["a", "c"], (4, 3), [1, 5, 11]),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_query_comes_back_from_its_json_record_and_the_record_is_unchanged_by_json(query):
    record = to_record(query)
    assert json.loads(json.dumps(record)) == record
    assert from_record(record) == query
    assert hash(from_record(record)) == hash(query)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_kind_keeps_the_query_contract(query):
    domain = Domain.of({"c": 3, "b": 2, "a": 4})
    assert isinstance(query, Query)
    query.validate(domain)
    counts = np.random.default_rng(0).integers(0, 5, domain.shape(query.columns))
    other = np.random.default_rng(1).integers(0, 5, domain.shape(query.columns))
    assert query.answer(counts).shape == query.shape(domain)
    linear = query.answer(2 * counts + 3 * other)
    assert np.array_equal(linear, 2 * query.answer(counts) + 3 * query.answer(other))
    assert query.sensitivity(domain, Unit()).linf == 1


@pytest.mark.parametrize("record", [{}, {"query": "median"}, {"query": "cell", "columns": ["a"]}])
def test_a_record_that_is_no_query_is_refused(record):
    with pytest.raises(WorkloadError, match="not the record of a query"):
        from_record(record)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Marginal("age"), "list of columns"),
        (lambda: Marginal(["age", "age"]), "'age' is named twice"),
        (lambda: Cell(["age", "sex"], [1]), "needs 2 targets, not 1"),
        (lambda: Threshold(["age", "sex"], 3), "at_least = 3 with 2 columns"),
        (lambda: Threshold(["age", "sex"], 0), "at_least = 0 with 2 columns"),
        (lambda: AtLeast(["age"], [[1]], 2), "at_least = 2 with 1 columns"),
        (lambda: Where(["age"], [[]]), "at least one value"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_where_it_is_made(make, message):
    with pytest.raises(WorkloadError, match=message):
        make()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Marginal(["agee"]), "no column 'agee' in the schema. Did you mean 'age'"),
        (Marginal(["SEX"]), "Did you mean 'sex'"),
        (Marginal(["height"]), "It has 'age', 'sex'"),
        (Cell(["age", "sex"], [4, 2]), "Code 2 is not a level of column 'sex'.*0 to 1"),
        (Where(["age"], [[-1]]), "Code -1"),
        (ThresholdCell(["age", "sex"], 1, [10, 0]), "Code 10"),
    ],
)
def test_a_query_outside_the_domain_is_refused_with_column_and_rule(query, message):
    with pytest.raises(WorkloadError, match=message):
        query.validate(Domain.of({"age": 10, "sex": 2}))


@settings(deadline=None)
@given(tables(most_columns=3))
def test_the_row_count_is_the_marginal_of_no_columns(table):
    _, rows = table
    assert Marginal(()).answer(np.asarray(len(rows))) == len(rows)


def test_spread_is_the_transpose_of_answer() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 4))
    rng = np.random.default_rng(0)
    columns, sets = ("a", "b", "c"), [[0], [0, 2], [1, 3]]
    for query in (
        Marginal(columns),
        Cell(columns, (1, 2, 3)),
        Where(columns, sets),
        Threshold(columns, 2),
        ThresholdCell(columns, 2, (1, 1, 1)),
        AtLeast(columns, sets, 2),
        AnyCell(columns, (2, 3, 4), [0, 7, 23]),
    ):
        counts = rng.normal(size=(2, 3, 4))
        answer = query.answer(counts)
        values = rng.normal(size=answer.shape)
        assert np.isclose((answer * values).sum(), (counts * query.spread(values, domain)).sum())


@pytest.mark.parametrize("columns", [[1e308], ["a", None], [["a"]]])
def test_a_column_that_is_no_text_is_refused(columns):
    with pytest.raises(WorkloadError, match="named by a text"):
        from_record({"query": "marginal", "columns": columns})
