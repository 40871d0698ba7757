"""The tree of private bins: what it releases, its estimate against brute force, and its cut."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from admeasure.domain import Domain
from admeasure.planning.tree import EVEN, EVIDENCE, Tree, estimate, projected, subtrees
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.tree_counts import TreeCounts
from admeasure.schema import Schema
from admeasure.schema.leaves import hierarchy
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit


@st.composite
def trees(draw, most: int = 24):
    """Levels of nested partitions of some leaves, with any numbers of children."""
    leaves = draw(st.integers(1, most))
    levels = [np.arange(leaves)]
    for _ in range(draw(st.integers(0, 3))):
        inner = levels[0][1:].tolist()
        kept = draw(st.lists(st.sampled_from(inner), unique=True)) if inner else []
        levels.insert(0, np.array([0, *sorted(kept)]))
    return tuple(levels)


def rows_of(levels) -> np.ndarray:
    """The sum of leaves that each node of each level is, as a matrix."""
    leaves = len(levels[-1])
    rows = []
    for first in levels:
        for low, high in pairwise([*first.tolist(), leaves]):
            rows.append([low <= leaf < high for leaf in range(leaves)])
    return np.array(rows, dtype=float)


# What is released.


@pytest.mark.parametrize("relation", list(Neighbours))
@settings(max_examples=60, deadline=None)
@given(trees(most=6), st.integers(1, 3))
def test_no_neighbour_moves_a_tree_by_more_than_its_sensitivity_and_some_by_just_that(
    relation, levels, most
):
    """All ways in which one unit's rows lie among the leaves and `missing`, by brute force."""
    leaves = len(levels[-1])
    counts = TreeCounts("x", Domain.of({"x": leaves + 1}), levels)
    bound = counts.l2_squared(Unit(relation, most, "person"))
    placed = [p for p in product(range(most + 1), repeat=leaves + 1) if sum(p) <= most]
    if relation is Neighbours.REPLACE:
        placed = [p for p in placed if sum(p) == most]
        moves = {tuple(np.subtract(a, b)) for a, b in combinations([*placed, placed[0]], 2)} or {
            (0,) * (leaves + 1)
        }
    else:
        moves = set(placed)
    moved = [int(np.square(counts.of([np.array(m)])).sum()) for m in moves]
    assert max(moved) <= bound
    if relation is Neighbours.ADD_REMOVE:
        assert max(moved) == bound


def test_a_tree_is_noised_by_the_exact_law_of_its_sigma():
    """Leaves of an empty column are noise alone. 400 draws of 64 nodes; false alarm below 1e-6."""
    schema = Schema.loads(
        '[table]\nname = "t"\n[privacy]\nunit = "person"\n[[column]]\nname = "x"\n'
        'type = "integer"\nminimum = 0\nmaximum = 47\nbins = "private"\n'
    )
    source = MemorySource({"x": np.array([], dtype=int)}, schema.as_read)
    levels = hierarchy(np.arange(48), days=False)
    statistic = TreeCounts("x", schema.as_read.domain, levels)
    cost, noise, seen = Fraction(1, 3), SeededNoise(11), Counter()
    for _ in range(400):
        made = Curator(source, Ledger(cost), noise).statistic(statistic, cost)
        seen.update(made.values.tolist())
    # three levels, so that sigma² is 3 / (2/3)
    values = np.arange(-40, 41)
    law = np.exp(-np.square(values) / (2 * 4.5))
    law *= sum(seen.values()) / law.sum()
    common = law >= 10
    observed = np.array([seen[int(v)] for v in values[common]])
    rest = sum(seen.values()) - observed.sum()
    found = chisquare([*observed, rest], [*law[common], law[~common].sum()], sum_check=False)
    assert found.pvalue > 1e-6


# The estimate, against brute force.


@settings(max_examples=80, deadline=None)
@given(trees(), st.integers(0, 10**6))
def test_without_signs_the_estimate_is_least_squares_of_the_whole_tree(levels, seed):
    """Counts so large that none would fall below zero; numpy's dense least squares decides. The
    total is that of the roots, whose children are moved to it."""
    rng = np.random.default_rng(seed)
    noisy = [rng.normal(0, 9, len(first)) for first in levels]
    leaves = rng.uniform(900, 1000, len(levels[-1]))
    noisy = [z + np.add.reduceat(leaves, first) for z, first in zip(noisy, levels, strict=True)]
    expected, *_ = np.linalg.lstsq(rows_of(levels), np.concatenate(noisy), rcond=None)
    found = estimate(levels, noisy, 3.0)
    assert found.leaves == pytest.approx(expected, rel=1e-8)
    for counts, first in zip(found.counts, levels, strict=True):
        assert counts == pytest.approx(np.add.reduceat(expected, first), rel=1e-8)


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(0, 10**6))
def test_the_variance_of_a_subtree_is_that_of_its_own_least_squares(levels, seed):
    """Of the first root: the inverse of the information of the rows below it."""
    noisy = [np.zeros(len(first)) for first in levels]
    _, variances = subtrees(levels, noisy, 2.0)
    last = levels[0][1] if len(levels[0]) > 1 else len(levels[-1])
    rows = rows_of(levels)
    below = rows[:, :last][rows[:, last:].sum(axis=1) == 0]
    below = below[below.sum(axis=1) > 0]
    covariance = 4.0 * np.linalg.inv(below.T @ below)
    assert variances[0][0] == pytest.approx(covariance.sum())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=6),
    st.data(),
)
def test_a_projection_is_the_best_of_all_sets_that_may_stay_above_zero(z, data):
    """Brute force: for each set of numbers that stay the minimum has a closed form; the best of
    those without a negative number is the projection."""
    z = np.array(z)
    v = np.array(data.draw(st.lists(st.floats(0.1, 9), min_size=len(z), max_size=len(z))))
    mass = data.draw(st.floats(0.1, 100))
    best, least = None, np.inf
    for kept in chain.from_iterable(combinations(range(len(z)), k + 1) for k in range(len(z))):
        at = list(kept)
        x = np.zeros(len(z))
        x[at] = z[at] - (z[at].sum() - mass) / v[at].sum() * v[at]
        far = float((np.square(x - z) / v).sum())
        if (x >= -1e-12).all() and far < least:
            best, least = x, far
    within = np.ones(len(z), bool)
    found = projected(z, v, np.array([0]), np.array([mass]), within)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(mass)
    assert float((np.square(found - z) / v).sum()) == pytest.approx(least, rel=1e-6, abs=1e-9)
    assert found == pytest.approx(best, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(0, 10**6), st.floats(0.1, 50))
def test_every_estimate_adds_up_and_none_is_negative(levels, seed, sigma):
    rng = np.random.default_rng(seed)
    noisy = [np.rint(rng.normal(0, 2 * sigma, len(first))) for first in levels]
    found = estimate(levels, noisy, sigma)
    assert all((counts >= 0).all() for counts in found.counts)
    for counts, first in zip(found.counts, levels, strict=True):
        assert counts == pytest.approx(np.add.reduceat(found.leaves, first), abs=1e-6 * sigma)


# The ends of a grid without bounds.


def measured(levels, counts, sigma, seed=1):
    rng = np.random.default_rng(seed)
    return [np.add.reduceat(counts, f) + np.rint(rng.normal(0, sigma, len(f))) for f in levels]


def test_a_node_that_holds_no_more_than_noise_would_has_its_rows_spread_evenly():
    """And one that holds more, by what was measured of its children; sums stay what they were."""
    levels = (np.array([0]), np.array([0, 4, 6]), np.arange(8))
    noisy = (np.array([1030.0]), np.array([15.0, 15.0, 1000.0]), np.array([4.0] * 6 + [900, 100.0]))
    found = estimate(levels, noisy, 10.0)
    few, alike, many = found.counts[1]
    assert max(few, alike) < EVEN * 10 < many
    np.testing.assert_allclose(found.leaves[:4], few / 4)
    np.testing.assert_allclose(found.leaves[4:6], alike / 2)
    assert found.leaves[6] > 5 * found.leaves[7]


def test_without_bounds_nothing_is_believed_beyond_the_evidence():
    levels = hierarchy(np.arange(4096), days=False)
    counts = np.zeros(4096, int)
    counts[2000:2050] = 100
    noisy = measured(levels, counts, 20.0)
    bounded = estimate(levels, noisy, 20.0)
    found = estimate(levels, noisy, 20.0, unbounded=(True, True))
    assert bounded.leaves[:1900].sum() > 0
    assert found.leaves[:1900].sum() == found.leaves[2150:].sum() == 0
    assert found.leaves[2000:2050].sum() == pytest.approx(5000, rel=0.1)
    one = estimate(levels, noisy, 20.0, unbounded=(False, True))
    assert one.leaves[2150:].sum() == 0


def test_without_bounds_or_evidence_all_is_at_the_centre():
    levels = hierarchy(np.arange(4096), days=False)
    noisy = measured(levels, np.zeros(4096, int), 20.0)
    found = estimate(levels, noisy, 20.0, unbounded=(True, True), centre=2048)
    assert np.flatnonzero(found.leaves).tolist() == [2048]


# The cut.


def tree_of(counts: np.ndarray, sigma: float) -> Tree:
    levels = hierarchy(np.arange(len(counts)), days=False)
    return Tree(levels, [np.add.reduceat(counts, first) for first in levels], sigma)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=300),
    st.floats(0.1, 50),
    st.integers(1, 31),
)
def test_bins_are_few_ascend_and_none_but_a_single_leaf_is_over_full(counts, sigma, bins):
    tree = tree_of(np.array(counts, dtype=float), sigma)
    begins = tree.cut(bins)
    assert begins[0] == 0
    assert all(a < b for a, b in pairwise(begins))
    assert begins[-1] < len(counts)
    assert len(begins) <= 2 * bins + 1
    most = max(sum(counts) / bins, EVIDENCE * sigma)
    for low, high in pairwise([*begins, len(counts)]):
        inside = np.array(counts[low:high])
        assert np.count_nonzero(inside) == 1 or inside.sum() <= most + 1e-6
        assert inside.any() or not any(counts)


def test_a_heap_has_a_bin_of_its_own():
    counts = np.full(100, 10.0)
    counts[40] = 5000
    assert {40, 41} <= set(tree_of(counts, 1.0).cut(16))


def test_days_are_grouped_by_months_and_years():
    days = np.arange(18262, 18262 + 731)  # 2020 and 2021
    levels = hierarchy(days, days=True)
    assert [len(first) for first in levels] == [2, 24, 731]
    assert np.diff(levels[1])[:3].tolist() == [31, 29, 31]
