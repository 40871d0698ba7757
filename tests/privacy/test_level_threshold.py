"""The threshold by which levels are found, and what may pass it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.auditing.thresholds import chance
from admeasure.errors import BudgetError
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.found_levels import FoundLevels, tail, threshold
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.schema.found_levels import LONGEST_LEVEL, may_be_level
from admeasure.sparse import TextCounts
from admeasure.unit import Neighbours, Unit

ONE = Schema.loads("""
[table]
name = "stays"
[privacy]
unit = "person"
[[column]]
name = "drug"
type = "string"
enum = "private"
missing_values = ["?"]
""")


@given(st.floats(0.3, 60), st.integers(1, 200))
def test_the_tail_is_that_of_the_discrete_gaussian_and_never_less(sigma, least):
    """Against the weights themselves, added up in decimal digits."""
    exact, found = chance(sigma, least), tail(sigma, least)
    assert Decimal(found) >= exact
    if exact > Decimal("1e-200"):
        assert found == pytest.approx(float(exact), rel=1e-8)


def test_beyond_what_is_summed_the_tail_is_bounded_as_closely():
    for sigma in (70_000.0, 1e6, 1e9):
        least = int(6 * sigma)
        normal = math.erfc(6 / math.sqrt(2)) / 2
        assert normal <= tail(sigma, least) <= normal * (1 + 20 / sigma + 1e-6)


@settings(max_examples=60)
@given(
    st.floats(0.5, 40),
    st.sampled_from([0.3, 0.05, 1e-3, 1e-6, 1e-10, 1e-15]),
    st.integers(1, 8),
)
def test_the_threshold_is_the_least_that_is_worth_its_share(sigma, share, texts):
    found = threshold(sigma, Fraction(share), texts)

    def any_of_them(least: int) -> Decimal:
        return 1 - (1 - chance(sigma, least - 1)) ** texts

    assert any_of_them(found) <= Decimal(share)
    assert found == 2 or any_of_them(found - 1) > Decimal(share) * (1 - Decimal("1e-7"))


@pytest.mark.parametrize("share", [0, Fraction(-1, 10), 1, Fraction(1, 10**300)])
def test_what_is_no_share_of_delta_buys_no_threshold(share):
    with pytest.raises(BudgetError, match="delta"):
        threshold(10.0, Fraction(share), 1)


def test_a_level_that_as_many_hold_as_are_needed_is_found_as_often_as_promised():
    """19 of 20; by the exact law of the noise."""
    cost = Zcdp(Fraction(1, 1000), Fraction(1, 10**10))
    for unit in (Unit(), Unit(Neighbours.REPLACE, 3)):
        levels = FoundLevels("x")
        sigma, least = levels.sigma(unit, cost), levels.threshold(unit, cost)
        count = levels.needed(unit, cost)
        assert 1 - chance(sigma, count - least + 1) >= Decimal("0.95")
        assert 1 - chance(sigma, count - least + 1 - math.ceil(sigma / 16)) < Decimal("0.95")


@pytest.mark.parametrize(
    ("relation", "rows", "changed"),
    [("add-remove", 1, 1), ("add-remove", 3, 3), ("replace", 1, 2), ("replace", 3, 6)],
)
def test_what_one_unit_can_move_is_a_text_for_each_of_its_rows_or_twice_as_many(
    relation, rows, changed
):
    unit = Unit(Neighbours(relation), rows)
    assert FoundLevels("x").l2_squared(unit) == changed
    cost = Zcdp(Fraction(1, 100), Fraction(1, 10**6))
    sigma = FoundLevels("x").sigma(unit, cost)
    assert sigma == pytest.approx(math.sqrt(changed * 50))
    assert FoundLevels("x").threshold(unit, cost) == threshold(sigma, cost.delta_share, changed)


# What passes.


def test_blocks_of_texts_are_never_held_together_and_the_largest_are_kept():
    def blocks():
        for start in range(0, 3000, 100):
            texts = [f"{i:05}" for i in range(start, start + 100)]
            yield TextCounts(texts, np.arange(start, start + 100))

    found = SeededNoise(1).passing(blocks(), 0.001, 2000, 50)
    assert found == [f"{i:05}" for i in range(2950, 3000)]
    assert SeededNoise(1).passing(iter(()), 1.0, 2, 50) == []


@given(st.text(max_size=200))
def test_what_can_be_found_can_be_written_into_a_schema(text):
    if may_be_level(text):
        column = ONE.column("drug")
        found = ONE.with_columns({"drug": column.model_copy(update={"enum": (text,)})})
        assert Schema.loads(found.dumps()).column("drug").listed == (text,)
    else:
        assert (
            len(text) > LONGEST_LEVEL
            or text == "other"
            or any(ord(c) < 32 for c in text)
            or ("\x7f" in text or any("\ud800" <= c <= "\udfff" for c in text))
        )
