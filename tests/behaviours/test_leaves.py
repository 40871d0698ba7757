"""The public grid of private bins: leaves ascend, and round numbers are leaves of their own."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.schema import leaves
from admeasure.schema.column import MAX_LEVELS
from admeasure.schema.grid import RealGrid

WHOLE = st.integers(-(10**12), 10**12)
REAL = st.floats(-1e12, 1e12).map(lambda v: round(v, 3))


@settings(max_examples=60, deadline=None)
@given(WHOLE, WHOLE, st.booleans())
def test_leaves_of_whole_numbers_ascend_from_the_first_value(a, b, log):
    low, high = min(a, b), max(a, b)
    starts = leaves.whole_starts(low, high, log=log)
    assert starts[0] == low
    assert all(x < y for x, y in pairwise(starts))
    assert starts[-1] <= high
    # Three quarters are multiples of the width; below it, where that has at most nine digits, 90
    # numbers of two digits for each power of ten, twice for the sign and twice for their heads.
    assert len(starts) <= 0.75 * leaves.LEAVES + 9 * 4 * 90 + 8


@settings(max_examples=20, deadline=None)
@given(REAL, REAL, st.booleans())
def test_leaves_of_doubles_are_bins_that_doubles_can_tell_apart(a, b, log):
    low, high = min(a, b), max(a, b)
    if low == high:
        return
    starts = leaves.real_starts(low, high, log=log)
    assert starts[0] == low
    assert len(starts) <= 1.5 * leaves.LEAVES
    grid = RealGrid.cut([*starts, high], clamp=False)
    assert grid.is_resolved
    rng = np.random.default_rng(0)
    codes = np.arange(grid.size)
    drawn = grid.draw(codes, rng)
    assert np.array_equal(grid.place_all(drawn), codes)


@pytest.mark.parametrize("value", [0.0, 40.0, 100.0, 2000.0, 50_000.0, 0.5, 7.5])
def test_a_round_number_is_a_leaf_that_holds_nothing_else(value):
    for starts in (
        leaves.real_starts(0.0, 1e6, log=False),
        leaves.real_starts(0.0, 1e6, log=True),
        leaves.open_real_starts(-leaves.LARGEST, leaves.LARGEST),
    ):
        place = starts.index(value)
        assert starts[place + 1] == math.nextafter(value, math.inf)


def test_round_numbers_are_the_doubles_that_their_texts_are_read_as():
    starts = set(leaves.real_starts(0.0, 20.0, log=False))
    for text in ("0.3", "0.7", "1.1", "19.9"):
        assert float(text) in starts
        assert float(Fraction(text)) == float(text)


def test_days_of_all_times_have_leaves():
    low, high = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
    starts = leaves.day_starts(low, high)
    assert starts[0] == low
    assert len(starts) < MAX_LEVELS
    levels = leaves.hierarchy(np.array(starts), days=True)
    assert all(set(upper) <= set(lower) for upper, lower in pairwise(levels))
