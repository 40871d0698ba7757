"""No neighbour moves an answer further than stated, and some neighbour moves it that far.

Neighbours are built from the definition of the relation, not from the formulas: under add/remove
a person with up to m rows comes or goes; under replace a person's rows give way to another's. With
m = 1 a replaced person has one row before and after, since the row count is public; with m > 1 the
two may have different numbers of rows, none included.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.domain import Domain
from admeasure.queries import AtLeast, Cell, Marginal, Residual, Threshold, ThresholdCell, Where
from admeasure.queries.sensitivity import Sensitivity
from admeasure.queries.threshold import targets_satisfied, targets_shared
from admeasure.unit import Neighbours, Unit

NAMES = ("a", "b", "c", "d")


def count(levels, rows) -> np.ndarray:
    counts = np.zeros(levels, dtype=np.int64)
    for row in rows:
        counts[row] += 1
    return counts


def moved(query, levels, before, after) -> Sensitivity:
    change = query.answer(count(levels, after)) - query.answer(count(levels, before))
    change = np.abs(np.ravel(change))
    return Sensitivity(int(change.sum()), int((change**2).sum()), int(change.max(initial=0)))


@st.composite
def neighbours(draw):
    """A small domain, a query on all its columns, a unit and two neighbouring tables."""
    levels = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    row = st.tuples(*(st.integers(0, n - 1) for n in levels))
    unit = Unit(draw(st.sampled_from(Neighbours)), draw(st.integers(1, 3)))
    query = draw(queries(levels))
    others = draw(st.lists(row, max_size=5))
    # People whose rows are all alike move answers furthest, so they are drawn often.
    alike = row.flatmap(lambda x: st.integers(0, unit.max_rows).map(lambda times: [x] * times))
    person = st.lists(row, max_size=unit.max_rows) | alike
    if unit.neighbours is Neighbours.ADD_REMOVE:
        old, new = [], draw(person)
    elif unit.max_rows == 1:
        old, new = [draw(row)], [draw(row)]
    else:
        old, new = draw(person), draw(person)
    return levels, query, unit, others + old, others + new


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("max_rows", [1, 2, 5])
def test_what_a_unit_says_of_marginals_is_what_each_of_them_says(neighbours, max_rows):
    unit, domain = Unit(neighbours, max_rows), Domain(NAMES[:3], (2, 3, 4))
    for columns in (("a",), ("b", "c"), ("a", "b", "c")):
        asked = Marginal(columns).sensitivity(domain, unit)
        assert unit.marginal_l2_squared == asked.l2_squared


@st.composite
def queries(draw, levels):
    columns = NAMES[: len(levels)]
    r = draw(st.integers(1, len(levels)))
    codes = draw(st.tuples(*(st.integers(0, n - 1) for n in levels)))
    sets = [draw(st.sets(st.integers(0, n - 1), min_size=1)) for n in levels]
    return draw(
        st.sampled_from(
            [
                Marginal(columns),
                Residual(columns),
                Cell(columns, codes),
                Where(columns, sets),
                Threshold(columns, r),
                ThresholdCell(columns, r, codes),
                AtLeast(columns, sets, r),
            ]
        )
    )


@settings(max_examples=500, deadline=None)
@given(neighbours())
def test_no_neighbour_moves_an_answer_further_than_stated(case):
    levels, query, unit, before, after = case
    stated = query.sensitivity(Domain(NAMES[: len(levels)], levels), unit)
    found = moved(query, levels, before, after)
    assert found.l1 <= stated.l1
    assert found.l2_squared <= stated.l2_squared
    assert found.linf <= stated.linf


def people(levels, fewest, most):
    """Every multiset of `fewest` to `most` rows."""
    rows = list(product(*map(range, levels)))
    for size in range(fewest, most + 1):
        yield from combinations_with_replacement(rows, size)


def worst_change(query, levels, unit) -> Sensitivity:
    """The largest change over every pair of neighbours. The other people's rows cancel because
    answers are linear, so tables that hold the one person alone are enough."""
    m = unit.max_rows
    if unit.neighbours is Neighbours.ADD_REMOVE:
        pairs = (((), new) for new in people(levels, 0, m))
    else:
        fewest = 1 if m == 1 else 0
        pairs = product(people(levels, fewest, m), people(levels, fewest, m))
    found = [moved(query, levels, before, after) for before, after in pairs]
    return Sensitivity(
        max(f.l1 for f in found), max(f.l2_squared for f in found), max(f.linf for f in found)
    )


TINY = [(2,), (3,), (2, 2), (3, 2), (1, 2), (2, 2, 2), (1, 3, 2)]
UNITS = [Unit(relation, m) for relation, m in product(Neighbours, (1, 2))]


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: f"{u.neighbours.value}-{u.max_rows}")
@pytest.mark.parametrize("levels", TINY, ids=str)
def test_the_worst_neighbour_attains_what_is_stated_exactly(levels, unit):
    columns = NAMES[: len(levels)]
    domain = Domain(columns, levels)
    codes = (0,) * len(levels)
    asked = [Marginal(columns), Cell(columns, codes), Where(columns, [{0}] * len(levels))]
    # With r no larger than the number of one-level columns every row satisfies every target, and
    # a replaced single row moves nothing; such a query is the subject of the last test.
    for r in range(1 + levels.count(1), len(levels) + 1):
        asked += [Threshold(columns, r), ThresholdCell(columns, r, codes)]
    for query in asked:
        assert worst_change(query, levels, unit) == query.sensitivity(domain, unit), query


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: f"{u.neighbours.value}-{u.max_rows}")
@pytest.mark.parametrize("levels", [(2,), (3,), (2, 2), (3, 2), (3, 3), (2, 2, 2)], ids=str)
def test_the_worst_neighbour_moves_a_residual_as_far_as_stated(levels, unit):
    """In L1, of which nothing is made, the bound for replace is not the least one."""
    query = Residual(NAMES[: len(levels)])
    stated = query.sensitivity(Domain(NAMES[: len(levels)], levels), unit)
    worst = worst_change(query, levels, unit)
    assert (worst.l2_squared, worst.linf) == (stated.l2_squared, stated.linf)
    assert worst.l1 <= stated.l1
    assert worst.l1 == stated.l1 or unit.neighbours is Neighbours.REPLACE


@pytest.mark.parametrize("m", [1, 2, 3])
def test_marginals_and_single_counts_have_the_textbook_sensitivities(m):
    domain = Domain.of({"a": 3, "b": 2})
    add, replace = Unit(Neighbours.ADD_REMOVE, m), Unit(Neighbours.REPLACE, m)
    whole, one = Marginal(["a", "b"]), Cell(["a", "b"], [0, 1])
    assert whole.sensitivity(domain, add) == Sensitivity(m, m * m, m)
    assert whole.sensitivity(domain, replace) == Sensitivity(2 * m, 2 * m * m, m)
    for unit in (add, replace):
        assert one.sensitivity(domain, unit) == Sensitivity(m, m * m, m)
        assert Marginal(()).sensitivity(domain, unit) == Sensitivity(m, m * m, m)


@pytest.mark.parametrize("levels", [(2,), (3, 4), (2, 3, 4), (1, 2, 5), (2, 2, 3, 2)], ids=str)
def test_targets_that_rows_satisfy_and_share_agree_with_enumeration(levels):
    targets = np.array(list(product(*map(range, levels))))
    for r in range(1, len(levels) + 1):
        satisfied = [set(np.flatnonzero((targets == row).sum(axis=1) >= r)) for row in targets]
        assert {len(s) for s in satisfied} == {targets_satisfied(levels, r)}
        fewest = min(len(s & t) for s in satisfied for t in satisfied)
        assert targets_shared(levels, r) == fewest


def test_no_sensitivity_is_ever_zero_since_noise_is_scaled_by_it():
    domain = Domain.of({"a": 1, "b": 1})
    unit = Unit(Neighbours.REPLACE, 1)
    asked = (Marginal(["a", "b"]), Threshold(["a", "b"], 1), Where(["a"], [{0}]), Residual(["a"]))
    for query in asked:
        assert query.sensitivity(domain, unit) == Sensitivity(1, 1, 1)
