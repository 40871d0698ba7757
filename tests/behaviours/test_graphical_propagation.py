"""log Z and marginals against the explicit joint distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from admeasure.errors import ResourceError
from admeasure.families.graphical.inference import (
    branches,
    elimination,
    marginals,
    triangle,
    tuning,
)
from admeasure.families.graphical.inference.arithmetic import Linear, Logarithmic, Underflow
from admeasure.families.graphical.inference.calibration import ContradictionError, calibrate
from admeasure.families.graphical.inference.contraction import Contraction
from admeasure.families.graphical.inference.marginals import Marginals
from admeasure.families.graphical.inference.tables import divide_rows
from admeasure.families.graphical.structure.junction_tree import JunctionTree


@pytest.fixture(params=["two at a time", "all at once", "level by level"], autouse=True)
def products(request, monkeypatch):
    """Small tables are multiplied two at a time; here they are also treated as large ones are."""
    if request.param != "two at a time":
        monkeypatch.setattr(tuning, "FUSED_CELLS", 1)
        monkeypatch.setattr(tuning, "FUSED_COST", 0.0)
        monkeypatch.setattr(tuning, "CACHE_CELLS", 4)
    if request.param == "level by level":
        monkeypatch.setattr(triangle.Triangle, "of", lambda *_: None)
    return request.param


@pytest.fixture(params=["cuts", "branches", "slices of branches"])
def ways(request, monkeypatch):
    """Triples of small models are answered by cuts; here also as those of large ones are. The
    plans that were used."""
    used = []
    if request.param != "cuts":
        monkeypatch.setattr(tuning, "DEAR", 0.0)
        monkeypatch.setattr(tuning, "DEAR_DEEP", 0.0)
        monkeypatch.setattr(tuning, "DEAR_CUT", 0.0)
        monkeypatch.setattr(tuning, "IN_CACHE", np.inf)
        if request.param == "slices of branches":
            monkeypatch.setattr(tuning, "SLICE_CELLS", 2)
            monkeypatch.setattr(tuning, "CONDITIONAL_CELLS", 8)
            monkeypatch.setattr(tuning, "PASS_CELLS", 8)
            monkeypatch.setattr(tuning, "JUDGED_CELLS", 7)
        answer = branches.Branches.answer

        def noted(self, way, tables):
            used.append(way)
            return answer(self, way, tables)

        monkeypatch.setattr(branches.Branches, "answer", noted)
    return request.param, used


def explicit(levels, potentials):
    """log Z and the whole joint table, by writing it out."""
    logs = np.zeros(levels)
    for clique, theta in potentials.items():
        logs = logs + theta.reshape([n if a in clique else 1 for a, n in enumerate(levels)])
    top = logs.max()
    joint = np.exp(logs - top)
    with np.errstate(divide="ignore"):
        return top + np.log(joint.sum()), joint / joint.sum()


def onto(joint, clique):
    return joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in clique))


def random_model(seed, scale=2.0, zeros=0.0):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    levels = tuple(int(n) for n in rng.integers(1, 5, size=d))
    cliques = set()
    for _ in range(rng.integers(0, 8)):
        size = int(rng.integers(1, min(d, 4) + 1))
        cliques.add(tuple(sorted(int(a) for a in rng.choice(d, size, replace=False))))
    potentials = {}
    for clique in sorted(cliques):
        theta = rng.normal(0, scale, [levels[a] for a in clique])
        theta[rng.random(theta.shape) < zeros] = -np.inf
        potentials[clique] = theta
    return levels, potentials


def flat(potentials):
    return np.concatenate([np.zeros(0), *(theta.reshape(-1) for theta in potentials.values())])


ARITHMETICS = {
    "linear": Linear,
    "logarithmic": lambda _: Logarithmic(),
    "term by term": lambda _: Logarithmic(vanishing=np.inf),
}


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("seed", range(60))
def test_log_z_and_marginals_agree_with_the_written_out_joint(seed, arithmetic):
    levels, potentials = random_model(seed)
    contraction = Contraction(JunctionTree.build(levels, potentials), tuple(potentials))
    log_z, mu = contraction.run_in(ARITHMETICS[arithmetic](levels), flat(potentials))
    expected, joint = explicit(levels, potentials)
    assert log_z == pytest.approx(expected, abs=1e-12)
    for clique, table in zip(potentials, contraction.layout.views(mu), strict=True):
        np.testing.assert_allclose(table, onto(joint, clique), atol=1e-13)


def test_three_overlapping_tables_are_multiplied_all_at_once_where_they_are_large(products):
    cliques = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    for levels in ((2, 3, 4, 5), (20, 25, 30, 35)):
        steps = elimination.Elimination(JunctionTree.build(levels, cliques), cliques).steps
        fused = products != "two at a time" or levels[0] == 20
        assert any(step.kind == "bucket" for step in steps) == fused


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.usefixtures("ways")
def test_every_marginal_inside_or_across_nodes_agrees_with_the_joint(seed):
    levels, potentials = random_model(seed)
    _, joint = explicit(levels, potentials)
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 50.0)
    d = len(levels)
    queries = [q for r in range(d + 1) for q in itertools.combinations(range(d), r)]
    for query, table in zip(queries, Marginals(beliefs).answer(queries), strict=True):
        np.testing.assert_allclose(table, 50 * onto(joint, query), atol=1e-11)
        assert table.shape == tuple(levels[a] for a in query)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.usefixtures("ways")
def test_structural_zeros_are_exactly_zero_in_every_answer(seed):
    levels, potentials = random_model(seed, zeros=0.25)
    with np.errstate(invalid="ignore"):
        log_z, joint = explicit(levels, potentials)
    tree = JunctionTree.build(levels, potentials)
    if not np.isfinite(log_z):
        with pytest.raises(ContradictionError, match="no possible record"):
            calibrate(tree, potentials, 1.0)
        return
    d = len(levels)
    queries = [q for r in range(1, d + 1) for q in itertools.combinations(range(d), r)]
    answers = Marginals(calibrate(tree, potentials, 1.0)).answer(queries)
    for query, table in zip(queries, answers, strict=True):
        np.testing.assert_array_equal(table == 0.0, onto(joint, query) == 0.0)
    contraction = Contraction(tree, tuple(potentials))
    for arithmetic in ARITHMETICS.values():
        _, mu = contraction.run_in(arithmetic(levels), flat(potentials))
        for clique, table in zip(potentials, contraction.layout.views(mu), strict=True):
            np.testing.assert_array_equal(table == 0.0, onto(joint, clique) == 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_where_nothing_is_possible_log_z_is_minus_infinity_and_marginals_are_zero(seed):
    levels, potentials = random_model(seed + 100)
    if not potentials:
        potentials = {(0,): np.zeros(levels[0])}
    first = next(iter(potentials))
    potentials[first] = np.full_like(potentials[first], -np.inf)
    contraction = Contraction(JunctionTree.build(levels, potentials), tuple(potentials))
    log_z, mu = contraction.run(flat(potentials))
    assert log_z == -np.inf
    assert not mu.any()


def chain_that_underflows():
    """Two chains that each prefer the other's impossible corner by 600 nats at every link."""
    levels = (2, 2, 2, 2)
    lean = np.array([[0.0, -600.0], [-600.0, -600.0]])
    potentials = {(0, 1): lean, (1, 2): lean[::-1, ::-1], (2, 3): lean}
    return levels, potentials


def test_the_linear_arithmetic_declines_what_it_cannot_represent():
    levels, potentials = chain_that_underflows()
    contraction = Contraction(JunctionTree.build(levels, potentials), tuple(potentials))
    with pytest.raises(Underflow):
        contraction.run_in(Linear(levels), flat(potentials))
    log_z, mu = contraction.run(flat(potentials))
    expected, joint = explicit(levels, potentials)
    assert log_z == pytest.approx(expected, rel=1e-14)
    for clique, table in zip(potentials, contraction.layout.views(mu), strict=True):
        np.testing.assert_allclose(table, onto(joint, clique), atol=1e-13)


@pytest.mark.parametrize("scale", [30.0, 300.0, 1e4, 1e8])
@pytest.mark.parametrize("seed", range(10))
def test_answers_are_right_for_potentials_of_any_size(seed, scale):
    levels, potentials = random_model(seed, scale)
    expected, joint = explicit(levels, potentials)
    tree = JunctionTree.build(levels, potentials)
    contraction = Contraction(tree, tuple(potentials))
    log_z, mu = contraction.run(flat(potentials))
    assert log_z == pytest.approx(expected, rel=1e-13, abs=1e-12)
    for clique, table in zip(potentials, contraction.layout.views(mu), strict=True):
        np.testing.assert_allclose(table, onto(joint, clique), atol=2e-16 * scale * 50 + 1e-12)
    d = len(levels)
    queries = list(itertools.combinations(range(d), min(d, 3)))
    for query, table in zip(
        queries, Marginals(calibrate(tree, potentials, 1.0)).answer(queries), strict=True
    ):
        np.testing.assert_allclose(table, onto(joint, query), atol=2e-16 * scale * 50 + 1e-12)


@pytest.mark.parametrize(
    ("levels", "cliques"),
    [
        ((4,), [(0,)]),
        ((1, 1, 1), [(0, 1), (1, 2)]),
        ((3, 4, 2), [(0, 1, 2)]),
        ((3, 4, 2, 2), [(0,), (3,)]),
        ((1000, 2, 1), [(0, 1), (1, 2)]),
        ((2, 1000, 1000), [(0, 1), (0, 2)]),
    ],
)
def test_edge_shapes_agree_with_the_joint(levels, cliques):
    rng = np.random.default_rng(0)
    potentials = {c: rng.normal(size=[levels[a] for a in c]) for c in cliques}
    _, joint = explicit(levels, potentials)
    tree = JunctionTree.build(levels, cliques)
    d = len(levels)
    queries = [q for r in range(1, d + 1) for q in itertools.combinations(range(d), r)]
    answers = Marginals(calibrate(tree, potentials, 1.0)).answer(queries)
    for query, table in zip(queries, answers, strict=True):
        np.testing.assert_allclose(table, onto(joint, query), atol=1e-13)


def hub(size=1.0):
    """Four attributes that all touch, and beyond each three of them a chain of one or two more."""
    levels = (3, 4, 2, 5, 3, 4, 2, 3)
    cliques = [(0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 3, 5), (0, 2, 3, 6), (0, 6, 7)]
    rng = np.random.default_rng(1)
    return levels, {c: rng.normal(0, size, [levels[a] for a in c]) for c in cliques}


def test_triples_on_the_branches_of_a_hub_agree_with_the_joint(ways):
    way, used = ways
    levels, potentials = hub()
    _, joint = explicit(levels, potentials)
    tree = JunctionTree.build(levels, potentials)
    triples = list(itertools.combinations(range(len(levels)), 3))
    answers = Marginals(calibrate(tree, potentials, 7.0)).answer(triples)
    for query, table in zip(triples, answers, strict=True):
        np.testing.assert_allclose(table, 7 * onto(joint, query), atol=1e-13)
    if way == "cuts":
        assert not used
        return
    # Two or three of a query's attributes outside the hub, each on its own branch.
    side = {4: 4, 5: 5, 6: 6, 7: 6}
    for query in triples:
        outside = [side[a] for a in query if a in side]
        if len(set(outside)) == len(outside) == 3:
            assert query in {plan.query for plan in used}
    assert any(len(way.beyond) == 2 for way in used)
    assert any(way.sliced for way in used) == (ways[0] == "slices of branches")


def test_a_triple_whose_cuts_are_over_the_limit_is_answered_from_branches():
    levels = (8, 8, 8, 8, 12, 12, 12)
    cliques = [(0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 3, 5), (0, 2, 3, 6)]
    rng = np.random.default_rng(2)
    potentials = {c: rng.normal(size=[levels[a] for a in c]) for c in cliques}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    # A cut needs p(x, y, S) of 12 * 12 * 8 ** 3 cells; the factors have at most 12 * 8 ** 3.
    [answer] = Marginals(beliefs, limit_cells=12 * 8**3).answer([(4, 5, 6)])
    factors = [np.exp(table) for table in potentials.values()]
    joint = np.einsum("abcd,abce,abdf,acdg->efg", *factors, optimize=True)
    np.testing.assert_allclose(answer, joint / joint.sum(), rtol=1e-12)
    with pytest.raises(ResourceError, match="fewer columns"):
        Marginals(beliefs, limit_cells=12**3 - 1).answer([(4, 5, 6)])


@pytest.mark.usefixtures("ways")
def test_an_answer_over_the_limit_is_refused_however_it_is_found():
    levels = (2, 2, 2, 40, 40, 40)
    cliques = [(0, 1, 2), (0, 1, 3), (0, 2, 4), (1, 2, 5)]
    potentials = {c: np.zeros([levels[a] for a in c]) for c in cliques}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    with pytest.raises(ResourceError, match="fewer columns"):
        Marginals(beliefs, limit_cells=40**3 - 1).answer([(3, 4, 5)])


def test_conditional_tables_are_kept_up_to_a_limit(monkeypatch):
    levels, potentials = hub()
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    triples = list(itertools.combinations(range(len(levels)), 3))
    free = Marginals(beliefs)
    expected = free.answer(triples)
    most = sum(table.size for table in free._conditionals.values()) // 2
    monkeypatch.setattr(tuning, "CONDITIONAL_CELLS", most)
    held = []

    def noted(table, weight):
        held.append(sum(t.size for t in bounded._conditionals.values()))
        return divide_rows(table, weight)

    monkeypatch.setattr(marginals, "divide_rows", noted)
    bounded = Marginals(beliefs)
    for table, answer in zip(expected, bounded.answer(triples), strict=True):
        np.testing.assert_allclose(answer, table, rtol=1e-12)
    assert len(held) > len(free._conditionals)  # some were dropped and made again
    assert max(held) <= most
    assert len(bounded._conditionals) > 1  # and others were not


def test_of_many_conditional_tables_none_outlasts_the_call(monkeypatch):
    levels, potentials = hub()
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    triples = list(itertools.combinations(range(len(levels)), 3))
    lasting = Marginals(beliefs)
    expected = lasting.answer(triples)
    filled = sum(table.size for table in lasting._conditionals.values())
    monkeypatch.setattr(tuning, "LASTING_CELLS", filled - 1)
    brief = Marginals(beliefs)
    for _ in range(2):
        for table, answer in zip(expected, brief.answer(triples), strict=True):
            np.testing.assert_array_equal(answer, table)
        assert not brief._conditionals


def test_the_same_questions_give_the_same_bits():
    levels, potentials = random_model(5)
    tree = JunctionTree.build(levels, potentials)
    d = len(levels)
    queries = [q for r in range(1, d + 1) for q in itertools.combinations(range(d), r)]
    first = Marginals(calibrate(tree, potentials, 3.0)).answer(queries)
    second = Marginals(calibrate(tree, potentials, 3.0)).answer(queries)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("limit", [12 * 8**3, 16 * 8**3])
def test_intermediate_tables_over_the_limit_are_made_in_parts(limit):
    # Nodes have up to 12 * 8 ** 3 cells, p(x | S) 20 * 8 ** 3, p(x, y | S) 240 * 8 ** 3.
    levels = (8, 8, 8, 8, 12, 12, 20, 1)
    cliques = [(0, 1, 2, 3), (0, 1, 2, 4), (1, 2, 3, 5), (2, 3, 6), (0, 4, 7)]
    rng = np.random.default_rng(3)
    potentials = {c: rng.normal(size=[levels[a] for a in c]) for c in cliques}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 7.0)
    queries = [q for r in (1, 2, 3) for q in itertools.combinations(range(8), r)]
    queries = [q for q in queries if np.prod([levels[a] for a in q]) <= limit]
    for query, answer in zip(queries, Marginals(beliefs, limit).answer(queries), strict=True):
        names = ["".join("abcdefgh"[a] for a in c) for c in cliques]
        wanted = "".join("abcdefgh"[a] for a in query)
        factors = [np.exp(table) for table in potentials.values()]
        joint = np.einsum(f"{','.join(names)}->{wanted}", *factors, optimize=True)
        np.testing.assert_allclose(answer, 7 * joint / joint.sum(), rtol=1e-11)


def test_a_limit_below_a_node_is_refused():
    levels = (8, 8, 8, 8, 12)
    potentials = {(0, 1, 2, 3): np.zeros([8] * 4), (0, 1, 2, 4): np.zeros((8, 8, 8, 12))}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    with pytest.raises(ResourceError, match="A node"):
        Marginals(beliefs, limit_cells=8**3 - 1).answer([(3, 4)])


def test_an_answer_of_all_attributes_over_the_limit_is_refused():
    levels = (50, 50, 50)
    potentials = {(0, 1): np.zeros((50, 50)), (1, 2): np.zeros((50, 50))}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 1.0)
    with pytest.raises(ResourceError, match="fewer columns"):
        Marginals(beliefs, limit_cells=10_000).answer([(0, 1, 2)])


@pytest.mark.parametrize("query", [(5, 7), (6, 7)])
def test_an_attribute_beyond_large_separators_is_reached_without_their_tables(query, monkeypatch):
    """7 hangs on attributes that both large nodes hold: p(7 | 0, 1, 2) is over the limit, and
    p(7 | 0, 1) is all that is needed on either side."""
    levels = (4, 4, 4, 4, 4, 10, 10, 10)
    cliques = [(0, 1, 2, 3), (0, 1, 2, 4), (0, 3, 5), (0, 4, 6), (0, 1, 7)]
    rng = np.random.default_rng(3)
    potentials = {c: rng.normal(size=[levels[a] for a in c]) for c in cliques}
    beliefs = calibrate(JunctionTree.build(levels, potentials), potentials, 7.0)
    monkeypatch.setattr(Marginals, "_answer_in_halves", None)
    answer = Marginals(beliefs, limit_cells=4**4).answer([query])[0]
    names = ["".join("abcdefgh"[a] for a in c) for c in cliques]
    wanted = "".join("abcdefgh"[a] for a in query)
    factors = [np.exp(table) for table in potentials.values()]
    joint = np.einsum(f"{','.join(names)}->{wanted}", *factors, optimize=True)
    np.testing.assert_allclose(answer, 7 * joint / joint.sum(), rtol=1e-11)
