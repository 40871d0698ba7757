"""Rows drawn from a model: close to its answers, true to its zeros, independent where it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from admeasure.families.graphical.model import MarkovRandomField
from admeasure.families.graphical.structure.junction_tree import JunctionTree
from admeasure.families.graphical.structure.zeros import Zeros


def model_of(levels, cliques, seed=0, total=1000.0, zeros=(), scale=1.0):
    rng = np.random.default_rng(seed)
    potentials = {c: rng.normal(0, scale, [levels[a] for a in c]) for c in cliques}
    tree = JunctionTree.build(levels, [*cliques, *(z.clique for z in zeros)])
    return MarkovRandomField(tuple(levels), tree, potentials, tuple(zeros), total)


def counts(rows, levels, clique):
    table = np.zeros([levels[a] for a in clique])
    np.add.at(table, tuple(rows[:, a] for a in clique), 1)
    return table


def test_rows_have_the_asked_number_and_the_smallest_type():
    model = model_of((300, 2), [(0, 1)])
    rows = model.sample(77, np.random.default_rng(0))
    assert rows.shape == (77, 2)
    assert rows.dtype == np.uint16
    assert model_of((256, 2), [(0, 1)]).sample(3, np.random.default_rng(0)).dtype == np.uint8
    assert model.sample(0, np.random.default_rng(0)).shape == (0, 2)


def test_the_same_generator_gives_the_same_rows():
    model = model_of((3, 4, 5), [(0, 1), (1, 2)])
    one, two = (model.sample(500, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_the_root_are_the_expectation_rounded_up_or_down(seed):
    model = model_of((4, 5, 3), [(0, 1, 2)], seed)
    rows = model.sample(1000, np.random.default_rng(seed))
    gap = np.abs(counts(rows, model.levels, (0, 1, 2)) - model.marginal((0, 1, 2)))
    assert gap.max() < 1 + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_counts_given_a_separator_are_the_expectation_rounded_up_or_down(seed):
    model = model_of((4, 5, 3), [(0, 1), (1, 2)], seed)
    rows = model.sample(2000, np.random.default_rng(seed))
    for clique, axis in [((0, 1), 1), ((1, 2), 0)]:
        seen = counts(rows, model.levels, clique)
        share = model.marginal(clique) / model.marginal((1,)).reshape([1, -1] if axis else [-1, 1])
        expected = share * counts(rows, model.levels, (1,)).reshape([1, -1] if axis else [-1, 1])
        assert np.abs(seen - expected).max() < 1 + 1e-9


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(10))
def test_structural_zeros_are_in_no_row(seed, rows):
    rng = np.random.default_rng(seed)
    levels = (4, 3, 5, 2)
    rules = []
    for clique in [(0, 1), (1, 2), (0, 3)]:
        mask = rng.random([levels[a] for a in clique]) < 0.4
        mask[0] = mask[..., 0] = False
        # The last cells of a table are where rounding would spill over.
        mask[-1, -1] = True
        rules.append(Zeros(clique, mask))
    model = model_of(levels, [(0, 1), (1, 2), (2, 3)], seed, zeros=rules, scale=4.0)
    drawn = model.sample(rows, np.random.default_rng(seed))
    for rule in rules:
        assert not rule.mask[tuple(drawn[:, a] for a in rule.clique)].any()


@pytest.mark.parametrize(
    ("levels", "cliques"),
    [((5,), []), ((1, 1), [(0, 1)]), ((3, 4, 2), []), ((1000, 2), [(0, 1)])],
)
def test_edge_shapes_are_sampled(levels, cliques):
    model = model_of(levels, cliques)
    rows = model.sample(2000, np.random.default_rng(0))
    for a in range(len(levels)):
        gap = np.abs(counts(rows, levels, (a,)) / 2 - model.marginal((a,)))
        assert gap.max() < 1 + 1e-9 if len(levels) == 1 or not cliques else gap.sum() < 1000


@pytest.mark.statistical
def test_columns_with_a_common_parent_are_independent_given_it():
    """Chi-squared of (a, b) inside each level of the separator s, over 200 draws, 3 separators.

    The balanced placing makes the statistic smaller than under full independence, never larger:
    the mean over draws must not pass its expectation by 4 standard errors (false alarms below
    1e-4 in all, the seed is fixed).
    """
    levels = (3, 6, 5)  # s, a, b: a and b only through s
    model = model_of(levels, [(0, 1), (0, 2)], seed=1, scale=0.7)
    rng = np.random.default_rng(11)
    draws = [counts(model.sample(1500, rng), levels, (0, 1, 2)) for _ in range(200)]
    freedom = (levels[1] - 1) * (levels[2] - 1)
    for s in range(levels[0]):
        observed = [stats.chi2_contingency(draw[s] + 1e-12).statistic for draw in draws]
        assert np.mean(observed) < freedom + 4 * np.sqrt(2 * freedom / len(draws))
        assert np.max(observed) < stats.chi2(freedom).ppf(1 - 1e-6)


@pytest.mark.statistical
def test_no_pair_of_columns_is_tied_by_the_order_of_placing():
    """Equal strata invite resonance: a placing with a fixed stride would tie the later columns.

    Uniform independent columns with levels that divide each other; every pair and triple must be
    near its expectation. The largest of 10,000 standardised cells passes 6 with probability below
    2e-5 under independence, and the placing varies less than that.
    """
    levels = (2, 10, 2, 5, 10, 2, 4)
    model = MarkovRandomField.uniform(levels, 4000.0)
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(5):
        rows = model.sample(4000, rng)
        for size in (2, 3):
            for clique in itertools.combinations(range(len(levels)), size):
                expected = 4000 / np.prod([levels[a] for a in clique])
                gap = counts(rows, levels, clique) - expected
                worst = max(worst, float(np.abs(gap).max() / np.sqrt(expected)))
    assert worst < 6


@pytest.mark.statistical
def test_every_cell_is_unbiased():
    """The mean over 400 draws of each cell of a three-node chain, against the model.

    40 cells, each judged at 5 standard errors of a binomial count, which the sampler's spread does
    not pass: false alarms below 3e-5; the seed is fixed.
    """
    levels = (2, 5, 2, 2)
    model = model_of(levels, [(0, 1), (1, 2), (2, 3)], seed=2)
    rng = np.random.default_rng(8)
    n, draws = 60, 400
    total = sum(counts(model.sample(n, rng), levels, (0, 1, 2, 3)) for _ in range(draws))
    p = model.marginal((0, 1, 2, 3)) / model.total
    error = np.sqrt(p * (1 - p) * n * draws)
    assert (np.abs(total - n * draws * p) < 5 * error + 1e-9).all()


@pytest.mark.statistical
def test_rows_are_closer_to_the_model_than_independent_draws():
    """L1 distance of all three-way marginals, against draws from the written-out joint.

    The ratio is about a half; that it should reach one by chance is out of the question.
    """
    levels = (4, 3, 5, 3, 4)
    model = model_of(levels, [(0, 1), (1, 2), (2, 3), (3, 4)], seed=4)
    joint = model.marginal(range(5)) / model.total
    rng = np.random.default_rng(6)
    n = 5000
    ours = model.sample(n, rng)
    index = rng.choice(joint.size, n, p=joint.reshape(-1))
    plain = np.stack(np.unravel_index(index, levels), axis=1)
    distance = {"ours": 0.0, "plain": 0.0}
    for clique in itertools.combinations(range(5), 3):
        expected = model.marginal(clique) * n / model.total
        for name, rows in (("ours", ours), ("plain", plain)):
            distance[name] += float(np.abs(counts(rows, levels, clique) - expected).sum())
    assert distance["ours"] < 0.8 * distance["plain"]
