"""No neighbour moves a score further than stated, and the scores are what the papers define.

Neighbours are built from the definition of the relation: under add/remove a person with up to m
rows comes or goes; under replace a person's rows give way to another's (with m = 1 one row for
one row, since the row count is public then).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import ResourceError
from admeasure.privacy.scores.dependence import Dependence
from admeasure.privacy.scores.score import GRID, to_grid
from admeasure.privacy.scores.whole import WEIGHT_GRID, CellError, MarginalError
from admeasure.queries import Marginal, Threshold
from admeasure.unit import Neighbours, Unit

NAMES = ("a", "b", "c")
UNITS = [Unit(relation, rows) for relation in Neighbours for rows in (1, 2, 3)]


def count(levels, rows) -> np.ndarray:
    counts = np.zeros(levels, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return counts


@st.composite
def neighbouring_counts(draw, fewest_columns=1):
    """A unit and the counts of two neighbouring tables."""
    levels = tuple(draw(st.lists(st.integers(1, 4), min_size=fewest_columns, max_size=3)))
    row = st.tuples(*(st.integers(0, n - 1) for n in levels))
    unit = draw(st.sampled_from(UNITS))
    others = draw(st.lists(row, max_size=8))
    alike = row.flatmap(lambda x: st.integers(0, unit.max_rows).map(lambda times: [x] * times))
    person = st.lists(row, max_size=unit.max_rows) | alike
    if unit.neighbours is Neighbours.ADD_REMOVE:
        old, new = [], draw(person)
    elif unit.max_rows == 1:
        old, new = [draw(row)], [draw(row)]
    else:
        old, new = draw(person), draw(person)
    return unit, count(levels, others + old), count(levels, others + new)


@st.composite
def believed(draw, shape):
    """Model answers: any finite numbers, not only plausible ones."""
    size = int(np.prod(shape))
    answers = st.floats(-50, 50, allow_nan=False, width=32)
    return np.array(draw(st.lists(answers, min_size=size, max_size=size))).reshape(shape)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_neighbour_moves_a_weighted_marginal_error_further_than_stated(data):
    unit, before, after = data.draw(neighbouring_counts())
    query = Marginal(NAMES[: before.ndim])
    other = ("other",)
    weights = {query.columns: data.draw(st.floats(0.01, 9)), other: data.draw(st.floats(0.01, 9))}
    answers = {query.columns: data.draw(believed(before.shape))}
    penalty = {query.columns: data.draw(st.floats(0, 1e6))}
    for given_weights in (weights, None):
        score = MarginalError(answers, penalty, given_weights)
        (low,), (high,) = score.of(query, before), score.of(query, after)
        assert abs(int(high) - int(low)) <= score.sensitivity(unit)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_neighbour_moves_the_error_of_any_cell_further_than_stated(data):
    unit, before, after = data.draw(neighbouring_counts())
    names = NAMES[: before.ndim]
    query = data.draw(
        st.just(Marginal(names)) | st.integers(1, len(names)).map(lambda r: Threshold(names, r))
    )
    score = CellError({query: data.draw(believed(before.shape))})
    moved = np.abs(score.of(query, after) - score.of(query, before))
    assert moved.max() <= score.sensitivity(unit)


@settings(max_examples=400, deadline=None)
@given(neighbouring_counts(fewest_columns=2), st.integers(0, 2))
def test_no_neighbour_moves_the_dependence_score_further_than_stated(pair, which):
    unit, before, after = pair
    query = Marginal(NAMES[: before.ndim])
    child = query.columns[which % before.ndim]
    score = Dependence(frozenset(query.columns) - {child})
    (low,), (high,) = score.of(query, before), score.of(query, after)
    assert abs(int(high) - int(low)) <= score.sensitivity(unit)


@settings(max_examples=100, deadline=None)
@given(neighbouring_counts(fewest_columns=2), st.integers(0, 2))
def test_the_dependence_score_is_the_distance_from_independence(pair, which):
    """||M_XΠ - M_X M_Π / n||_1, in exact fractions cell by cell."""
    _, counts, _ = pair
    query = Marginal(NAMES[: counts.ndim])
    child = which % counts.ndim
    n = int(counts.sum())
    expected = Fraction(0)
    for cell, joint in np.ndenumerate(counts) if n else []:
        own = sum(int(v) for at, v in np.ndenumerate(counts) if at[child] == cell[child])
        parents = sum(
            int(v)
            for at, v in np.ndenumerate(counts)
            if all(at[i] == cell[i] for i in range(counts.ndim) if i != child)
        )
        expected += abs(int(joint) - Fraction(own * parents, n))
    placed = frozenset(query.columns) - {query.columns[child]}
    (score,) = Dependence(placed).of(query, counts)
    assert int(score) == expected * GRID // 1


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_some_neighbour_moves_a_marginal_error_as_far_as_stated(unit):
    """All m rows of a person in one cell, against none, or against m rows in another cell."""
    m = unit.max_rows
    before = np.array([0, 5]) if unit.neighbours is Neighbours.ADD_REMOVE else np.array([0, 5 + m])
    after = np.array([m, 5])
    query = Marginal(("a",))
    # The model is below the first cell and above the second, so that both changes add up.
    score = MarginalError({("a",): np.array([-1.0, 100.0])}, {("a",): 0.0})
    moved = int(score.of(query, after)[0]) - int(score.of(query, before)[0])
    assert moved == score.sensitivity(unit)


def test_the_largest_weight_of_a_round_is_the_sensitivity_and_the_others_are_relative_to_it():
    weights = {("a",): 2.0, ("b",): 6.0}
    score = MarginalError({}, {}, weights)
    assert score.weight(("b",)) == WEIGHT_GRID
    assert score.weight(("a",)) == round(WEIGHT_GRID / 3)
    assert score.sensitivity(Unit()) == WEIGHT_GRID * GRID


def test_a_marginal_error_is_weight_times_distance_less_penalty():
    """w (||M - e||_1 - b) by hand: |3 - 1.5| + |1 - 2.25| - 0.5 = 2.25."""
    weights = {("a",): 1.0, ("b",): 4.0}
    score = MarginalError({("a",): np.array([1.5, 2.25])}, {("a",): 0.5}, weights)
    (value,) = score.of(Marginal(("a",)), np.array([3, 1]))
    assert value == WEIGHT_GRID // 4 * int(2.25 * GRID)


@pytest.mark.parametrize("answer", [np.nan, np.inf, -np.inf, 2.0**38])
def test_a_model_answer_that_is_not_a_plausible_count_is_refused(answer):
    with pytest.raises(ResourceError):
        to_grid(np.array([1.0, answer]))
