"""Many pairs in one pass: the same answers as pair by pair, and as the written-out joint."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.all_pairs import AllPairs
from admeasure.families.graphical.inference.calibration import ContradictionError, calibrate
from admeasure.families.graphical.inference.cuts import Cuts
from admeasure.families.graphical.inference.marginals import Marginals
from admeasure.families.graphical.structure.junction_tree import JunctionTree


def random_model(seed, d, cliques, size=3, most_levels=4, zeros=0.0, reach=None):
    """Potentials on random cliques; with `reach`, of attributes near each other in number."""
    rng = np.random.default_rng(seed)
    levels = tuple(int(n) for n in rng.integers(1, most_levels + 1, size=d))
    potentials = {}
    for _ in range(cliques):
        first = int(rng.integers(d))
        low, high = (0, d) if reach is None else (max(0, first - reach), min(d, first + reach + 1))
        among = rng.choice(high - low, min(high - low, int(rng.integers(1, size + 1))), False) + low
        clique = tuple(sorted(map(int, among)))
        theta = rng.normal(0, 2, [levels[a] for a in clique])
        theta[rng.random(theta.shape) < zeros] = -np.inf
        potentials[clique] = theta
    return levels, potentials


def one_by_one(beliefs, queries, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(tuning, "MANY_PAIRS", 1 << 60)
        return Marginals(beliefs).answer(queries)


def in_one_pass(beliefs, queries, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(tuning, "MANY_PAIRS", 1)
        patched.setattr(AllPairs, "worth", lambda *_: True)
        # Whatever the pass leaves over would need this, and is a fault.
        patched.setattr(Cuts, "best", None)
        return Marginals(beliefs).answer(queries)


@pytest.mark.parametrize("seed", range(60))
def test_every_pair_agrees_with_the_written_out_joint(seed, monkeypatch):
    d = 2 + seed % 6
    levels, potentials = random_model(seed, d, cliques=seed % 8, most_levels=3)
    logs = np.zeros(levels)
    for clique, theta in potentials.items():
        logs = logs + theta.reshape([n if a in clique else 1 for a, n in enumerate(levels)])
    joint = np.exp(logs - logs.max())
    joint *= 50 / joint.sum()
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 50.0)
    queries = list(itertools.combinations(range(d), 2))
    for (a, b), table in zip(queries, in_one_pass(beliefs, queries, monkeypatch), strict=True):
        expected = joint.sum(axis=tuple(c for c in range(d) if c not in (a, b)))
        np.testing.assert_allclose(table, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("cliques", "size", "reach"), [(0, 1, None), (30, 2, 3), (60, 2, None), (60, 3, 4), (90, 4, 3)]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_tree_gives_what_it_gives_pair_by_pair(seed, cliques, size, reach, monkeypatch):
    levels, potentials = random_model(seed, 40, cliques, size, reach=reach)
    tree = JunctionTree.build(levels, potentials)
    if tree.megabytes > 8:
        pytest.skip("a tree that nobody would answer pair by pair")
    beliefs = calibrate(tree, potentials, 5000.0)
    queries = list(itertools.combinations(range(40), 2))
    slow = one_by_one(beliefs, queries, monkeypatch)
    fast = in_one_pass(beliefs, queries, monkeypatch)
    for query, one, other in zip(queries, slow, fast, strict=True):
        assert other.shape == tuple(levels[a] for a in query)
        assert other.flags.c_contiguous
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_what_cannot_occur_is_exactly_zero_in_both(seed, monkeypatch):
    levels, potentials = random_model(seed, 12, 14, size=2, zeros=0.2)
    try:
        beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 100.0)
    except ContradictionError:
        pytest.skip("the zeros leave no record")
    queries = list(itertools.combinations(range(12), 2))
    slow = one_by_one(beliefs, queries, monkeypatch)
    fast = in_one_pass(beliefs, queries, monkeypatch)
    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(one == 0, other == 0)


def test_pairs_among_other_queries_and_asked_twice_come_back_in_their_places(monkeypatch):
    levels, potentials = random_model(3, 20, 25, size=2, reach=3)
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 70.0)
    rng = np.random.default_rng(0)
    queries = [
        tuple(sorted(map(int, rng.choice(20, int(rng.integers(0, 4)), replace=False))))
        for _ in range(400)
    ]
    slow = one_by_one(beliefs, queries, monkeypatch)
    fast = Marginals(beliefs).answer(queries)
    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    fast[queries.index(queries[-1])][...] = -1.0
    again = [i for i, query in enumerate(queries) if query == queries[-1]][1:]
    assert all((fast[i] >= 0).all() for i in again), "answers must not share memory"


def test_a_pair_that_was_answered_before_is_answered_the_same_without_a_cut(monkeypatch):
    levels, potentials = random_model(5, 20, 25, size=2, reach=3)
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 70.0)
    queries = list(itertools.combinations(range(20), 2))
    answering = Marginals(beliefs)
    first = answering.answer(queries)
    monkeypatch.setattr(Cuts, "best", None)
    for query, table in zip(queries, first, strict=True):
        [again] = answering.answer([query])
        np.testing.assert_array_equal(again, table)
        assert not np.shares_memory(again, table)


def test_pairs_that_are_too_many_to_keep_are_answered_alike(monkeypatch):
    levels, potentials = random_model(3, 40, 60, 3, reach=4)
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 5000.0)
    queries = list(itertools.combinations(range(40), 2))
    kept = in_one_pass(beliefs, queries, monkeypatch)
    monkeypatch.setattr(tuning, "KEPT_CELLS", 100)
    for one, two in zip(kept, in_one_pass(beliefs, queries, monkeypatch), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_other_pairs_of_the_same_model_take_no_other_pass(monkeypatch):
    levels, potentials = random_model(3, 40, 60, 3, reach=4)
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 5000.0)
    queries = list(itertools.combinations(range(40), 2))
    slow = one_by_one(beliefs, queries, monkeypatch)
    answering = Marginals(beliefs)
    answering.answer(queries[:200])
    monkeypatch.setattr(AllPairs, "tables", None)
    monkeypatch.setattr(Cuts, "best", None)
    for one, two in zip(slow, answering.answer(queries), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_a_tree_with_large_cliques_is_left_to_the_cuts():
    levels = (8,) * 24
    cliques = [tuple(range(k, k + 6)) for k in range(19)]
    assert not AllPairs(JunctionTree.build(levels, cliques)).worth(200, 1 << 27)
    assert AllPairs(JunctionTree.build(levels, [(k, k + 1) for k in range(23)])).worth(200, 1 << 27)


def test_branches_whose_separators_overlap_are_never_written_out_against_each_other(monkeypatch):
    """Two separators of six attributes, four of them in common: 4^8 cells together, 4^12 apart."""
    node, rng = tuple(range(8)), np.random.default_rng(0)
    cliques = [node, (*node[:6], 8), (*node[2:], 9), (8, 10), (9, 11)]
    levels = (4,) * 12
    tree = JunctionTree.build(levels, cliques)
    assert AllPairs(tree).held < 4**10
    potentials = {c: rng.normal(size=(4,) * len(c)) for c in cliques}
    beliefs = calibrate(tree, potentials, 1000.0)
    queries = list(itertools.combinations(range(12), 2))
    slow = one_by_one(beliefs, queries, monkeypatch)
    fast = in_one_pass(beliefs, queries, monkeypatch)
    for one, other in zip(slow, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
