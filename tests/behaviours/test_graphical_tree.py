"""Junction trees: validity, sizes, growth, and the filter that judges many candidates at once."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import ResourceError
from admeasure.families.graphical.estimation.estimate import estimate
from admeasure.families.graphical.estimation.statistics import Observation
from admeasure.families.graphical.structure import junction_tree
from admeasure.families.graphical.structure.cliques import maximal
from admeasure.families.graphical.structure.junction_tree import JunctionTree
from admeasure.families.graphical.structure.room import Room
from admeasure.families.graphical.structure.triangulation import (
    RULES,
    adjacency,
    cliques_of,
    eliminated,
)


@st.composite
def structures(draw):
    d = draw(st.integers(1, 7))
    levels = tuple(draw(st.lists(st.integers(1, 9), min_size=d, max_size=d)))
    clique = st.lists(st.integers(0, d - 1), min_size=1, max_size=4, unique=True)
    cliques = [tuple(sorted(c)) for c in draw(st.lists(clique, max_size=8))]
    return levels, cliques


def holds_running_intersection(tree: JunctionTree) -> bool:
    """Walk from node to node: those that hold an attribute must be reachable through it."""
    for attribute in range(len(tree.levels)):
        holding = {k for k, node in enumerate(tree.nodes) if attribute in node}
        if not holding:
            return False
        reached, stack = set(), [min(holding)]
        while stack:
            at = stack.pop()
            reached.add(at)
            for edge in tree.edges:
                if attribute in edge.separator and at in (edge.parent, edge.child):
                    stack += [k for k in (edge.parent, edge.child) if k not in reached]
        if reached != holding:
            return False
    return True


@given(structures())
@settings(max_examples=200, deadline=None)
def test_a_built_tree_is_a_junction_tree_that_holds_every_clique(structure):
    levels, cliques = structure
    tree = JunctionTree.build(levels, cliques)
    assert holds_running_intersection(tree)
    assert len(tree.edges) == len(tree.nodes) - 1
    assert all(any(set(c) <= set(node) for node in tree.nodes) for c in cliques)
    assert not any(set(a) <= set(b) for a, b in itertools.permutations(tree.nodes, 2)), (
        "a node inside another is not maximal"
    )


@given(structures())
@settings(max_examples=100, deadline=None)
def test_the_size_is_eight_bytes_for_every_cell_of_every_maximal_clique(structure):
    levels, cliques = structure
    tree = JunctionTree.build(levels, cliques)
    cells = sum(math.prod(levels[a] for a in node) for node in tree.nodes)
    assert tree.cells == cells
    assert tree.megabytes == pytest.approx(8 * cells / 2**20)


@given(structures(), st.integers(1, 2000))
@settings(max_examples=150, deadline=None)
def test_a_candidate_within_the_limit_really_gives_a_tree_within_it(structure, limit):
    levels, cliques = structure
    tree = JunctionTree.build(levels, cliques)
    d = len(levels)
    candidates = [c for r in (1, 2, 3) for c in itertools.combinations(range(d), r)]
    sizes = tree.sizes_with(candidates, limit)
    for candidate, size in zip(candidates, sizes, strict=True):
        grown = tree.extended(candidate)
        assert holds_running_intersection(grown)
        assert grown.contains(candidate)
        assert all(grown.contains(clique) for clique in cliques)
        assert grown.cells <= size * (1 + 1e-9)


@given(structures())
@settings(max_examples=60, deadline=None)
def test_growing_clique_by_clique_is_never_larger_than_rebuilding(structure):
    levels, cliques = structure
    tree = JunctionTree.build(levels, [])
    for t, clique in enumerate(cliques):
        tree = tree.extended(clique)
        assert tree.cells <= JunctionTree.build(levels, cliques[: t + 1]).cells


def test_a_chain_of_pairs_stays_a_chain():
    tree = JunctionTree.build((5,) * 6, [(k, k + 1) for k in range(5)])
    assert tree.nodes == tuple((k, k + 1) for k in range(5))


def test_a_cycle_of_four_takes_two_triangles():
    tree = JunctionTree.build((2, 3, 2, 3), [(0, 1), (1, 2), (2, 3), (0, 3)])
    # Two ways to cut it; the chord between the attributes of 2 levels is the smaller.
    assert tree.cells == 2 * (2 * 2 * 3)


def test_joining_two_components_costs_the_new_clique_and_drags_nothing_along():
    levels = (10,) * 6
    tree = JunctionTree.build(levels, [(0, 1), (1, 2), (3, 4), (4, 5)])
    assert tree.sizes_with([(0, 5)])[0] == pytest.approx(400 + 100)
    assert tree.extended((0, 5)).cells == 500


def test_the_path_extension_is_used_where_triangulation_alone_is_larger():
    rng = np.random.default_rng(7)
    for _ in range(40):
        levels = tuple(int(n) for n in rng.integers(2, 30, size=10))
        pairs = list(itertools.combinations(range(10), 2))
        tree = JunctionTree.build(levels, [])
        for k in rng.permutation(len(pairs))[:14]:
            bound = tree.sizes_with([pairs[k]])[0]
            tree = tree.extended(pairs[k])
            assert tree.cells <= bound * (1 + 1e-9)


def test_one_attribute_and_no_clique_give_one_node():
    assert JunctionTree.build((7,), []).nodes == ((0,),)


def test_nodes_without_the_running_intersection_property_are_refused():
    with pytest.raises(ValueError, match="junction tree"):
        JunctionTree.of_nodes((2, 2, 2), [(0, 1), (1, 2), (0, 2)])


def test_a_tree_over_the_limit_is_refused_before_any_work():
    seen = [Observation((0, 1), np.zeros((1000, 1000)), 1.0)]
    with pytest.raises(ResourceError, match="limit of 1 MB"):
        estimate((1000, 1000), seen, limit_megabytes=1)


@given(structures())
def test_attributes_that_nothing_joins_are_nodes_and_take_no_part(structure):
    """A thousand columns without zeros need no elimination."""
    levels, cliques = structure
    seen = set()

    def watched(neighbours, sizes, rule):
        seen.add(len(neighbours))
        return cliques_of(neighbours, sizes, rule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(junction_tree, "cliques_of", watched)
        tree = JunctionTree.build(levels, cliques)
    joined = {a for clique in cliques for a in clique if len(clique) > 1}
    assert seen == {len(joined)}
    assert holds_running_intersection(tree)
    assert {node for node in tree.nodes if len(node) == 1} == {
        (a,) for a in range(len(levels)) if a not in joined
    }


@pytest.mark.parametrize("rule", RULES)
@given(structures())
def test_neighbours_and_matrices_make_the_same_cliques(rule, structure):
    """The promise of `sizes_with` rests on it: sizes by matrices, trees by neighbours."""
    levels, cliques = structure
    graph = adjacency(len(levels), cliques)
    by_matrix = eliminated(graph[None], levels, rule)[0]
    near = [set(np.flatnonzero(row).tolist()) for row in graph]
    by_neighbours = cliques_of(near, levels, rule)
    assert by_neighbours == [set(np.flatnonzero(row).tolist()) for row in by_matrix]


@given(structures())
def test_maximal_cliques_are_those_that_no_other_one_contains(structure):
    _, cliques = structure
    sets = {frozenset(c) for c in cliques}
    expected = {c for c in sets if not any(c < other for other in sets)}
    assert maximal(cliques) == tuple(sorted(tuple(sorted(c)) for c in expected))


@given(structures())
def test_edges_are_a_spanning_tree_of_the_most_shared_attributes(structure):
    """Against Kruskal's: any spanning tree of greatest weight has the same weight."""
    tree = JunctionTree.build(*structure)
    sets = [set(node) for node in tree.nodes]
    group = list(range(len(sets)))
    most = 0
    pairs = itertools.combinations(range(len(sets)), 2)
    for one, two in sorted(pairs, key=lambda p: -len(sets[p[0]] & sets[p[1]])):
        if group[one] != group[two]:
            most += len(sets[one] & sets[two])
            group = [group[one] if g == group[two] else g for g in group]
    assert sum(len(edge.separator) for edge in tree.edges) == most
    seen = {0}
    for edge in tree.edges:
        assert edge.parent in seen
        assert edge.child not in seen
        assert set(edge.separator) == sets[edge.parent] & sets[edge.child]
        seen.add(edge.child)
    assert seen == set(range(len(sets)))


@given(structures(), structures())
def test_a_tree_grown_by_many_cliques_at_once_holds_them_and_is_no_larger_than_carried(one, two):
    levels, cliques = one
    new = [tuple(sorted({a % len(levels) for a in c})) for c in two[1]]
    tree = JunctionTree.build(levels, cliques)
    grown, carried = tree.grown(new), tree
    for clique in new:
        carried = carried.carrying(clique)
    assert holds_running_intersection(grown)
    assert holds_running_intersection(carried)
    for clique in [*cliques, *new]:
        assert any(set(clique) <= set(held) for held in grown.cliques)
        assert grown.contains(clique)
        assert carried.contains(clique)
    assert grown.cells <= carried.cells


@given(structures(), st.integers(1, 2000), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_taken_while_there_is_room_fits_all_together(structure, limit, data):
    levels, cliques = structure
    tree = JunctionTree.build(levels, cliques)
    candidates = [c for r in (1, 2, 3) for c in itertools.combinations(range(len(levels)), r)]
    room, taken = Room(tree, candidates, limit), []
    for _ in range(4):
        left = np.flatnonzero(room.left()).tolist()
        held = [i for i, c in enumerate(candidates) if tree.grown(taken).contains(c)]
        assert set(held) <= set(left) or tree.grown(taken).nodes != tree.nodes
        if not left:
            break
        place = data.draw(st.sampled_from(left))
        taken.append(candidates[place])
        room.take(place)
        grown = tree.grown(taken)
        assert all(grown.contains(c) for c in [*cliques, *taken])
        assert grown.cells <= max(limit, tree.cells)


def test_what_a_full_tree_holds_still_fits_and_no_bound_is_sought_for_it(monkeypatch):
    """Columns and pairs inside nodes, where the limit is passed already."""
    tree = JunctionTree.build((3,) * 6, [(0, 1), (1, 2), (3, 4)])
    candidates = [(0,), (5,), (0, 1), (1, 2), (0, 2), (2, 3), (4, 5)]
    monkeypatch.setattr(JunctionTree, "sizes_with", None)
    assert Room(tree, candidates, 1.0).left().tolist() == [True] * 4 + [False] * 3
