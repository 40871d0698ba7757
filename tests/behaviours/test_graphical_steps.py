"""The parts of a step of the estimation, against written-out tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from admeasure.domain import closure
from admeasure.families.graphical.estimation.facets import Facets
from admeasure.families.graphical.estimation.regions import (
    USUAL,
    Local,
    Regions,
    StepRules,
    counting_numbers,
    lone_step,
)
from admeasure.families.graphical.estimation.residuals import Effects
from admeasure.families.graphical.inference import bucket, tuning
from admeasure.families.graphical.inference.tables import CliqueLayout
from admeasure.families.graphical.inference.triangle import Triangle

LOOPS = [
    ((3, 4, 2), [(0, 1), (0, 2), (1, 2)]),
    ((2, 3, 4, 2), [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
    ((3, 2, 2, 3, 2), [(0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 4)]),
    ((2, 2, 3, 2), [(0, 1, 2, 3)]),
    ((4, 3, 2), [(0,), (1, 2)]),
]
TREES = [
    ((3, 4, 2, 3), [(0, 1), (1, 2), (2, 3)]),
    ((2, 3, 2, 4, 2), [(0, 1, 2), (1, 2, 3), (2, 4)]),
    ((3, 2, 4, 2), [(0, 1), (0, 2), (0, 3)]),
    ((3, 4), [(0,), (1,)]),
    ((3, 2, 2), [(0, 1, 2)]),
]


@pytest.fixture(params=["each table by itself", "all tables at once"], autouse=True)
def sizes(request, monkeypatch):
    if request.param == "each table by itself":
        monkeypatch.setattr(tuning, "SMALL_CELLS", 0)


def joint_of(levels, layout, flat):
    """The sum of tables on cliques, written out over the whole domain."""
    joint = np.zeros(levels)
    for clique, table in zip(layout.cliques, layout.views(flat), strict=True):
        joint = joint + table.reshape([n if a in clique else 1 for a, n in enumerate(levels)])
    return joint


def onto(joint, clique):
    return joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in clique))


def flat_marginals(joint, cliques):
    return np.concatenate([onto(joint, clique).reshape(-1) for clique in cliques])


@pytest.mark.parametrize(("levels", "cliques"), [*LOOPS, *TREES])
def test_facets_are_the_sums_over_one_attribute_and_spread_is_their_transpose(levels, cliques):
    layout = CliqueLayout(levels, cliques)
    parts = Facets(layout)
    rng = np.random.default_rng(0)
    tables, other = rng.normal(size=layout.cells), rng.normal(size=parts.layout.cells)
    sums = parts.sums(tables)
    expected = [
        table.sum(axis=axis).reshape(-1)
        for table in layout.views(tables)
        for axis in range(table.ndim)
    ]
    np.testing.assert_allclose(sums, np.concatenate(expected), atol=1e-12)
    into = tables.copy()
    parts.spread(other, into)
    assert (into - tables) @ tables == pytest.approx(other @ sums)


@pytest.mark.parametrize(("levels", "cliques"), [*LOOPS, *TREES])
def test_the_slack_is_the_weighted_sum_of_squared_effects_of_the_whole_table(levels, cliques):
    layout = CliqueLayout(levels, cliques)
    rng = np.random.default_rng(1)
    weights = {subset: float(rng.uniform(0.1, 3)) for subset in closure(cliques)}
    effects = Effects(layout, Facets(layout), weights)

    def half_sum(flat):
        joint, value = joint_of(levels, layout, flat), 0.0
        for subset, weight in weights.items():
            away = tuple(a for a in range(len(levels)) if a not in subset)
            effect = joint.mean(axis=away)
            for axis in range(effect.ndim):
                effect = effect - effect.mean(axis=axis, keepdims=True)
            value += 0.5 * weight * float((effect**2).sum())
        return value

    one, two = rng.normal(size=(2, layout.cells))
    assert 0.5 * one @ effects.bend(one) == pytest.approx(half_sum(one))
    mixed = half_sum(one + two) - half_sum(one) - half_sum(two)
    assert one @ effects.bend(two) == pytest.approx(mixed)
    assert two @ effects.bend(one) == pytest.approx(mixed)


@pytest.mark.parametrize(("levels", "cliques"), [*LOOPS, *TREES])
def test_every_set_of_attributes_is_counted_once(levels, cliques):
    numbers = counting_numbers(tuple(cliques))
    for subset in closure(cliques):
        assert sum(n for region, n in numbers.items() if set(subset) <= set(region)) == 1


EXACT = StepRules(downhill=0.0, large=0.0, newton=60)


def local(levels, cliques, joint, slack, rules=USUAL):
    layout = CliqueLayout(levels, cliques)
    known = Regions(layout, Facets(layout), dict.fromkeys(cliques, slack), rules)
    return layout, Local(known, flat_marginals(joint, cliques))


@pytest.mark.parametrize(("levels", "cliques"), TREES)
def test_in_a_junction_tree_one_leap_reaches_any_marginals(levels, cliques):
    rng = np.random.default_rng(2)
    start = np.exp(
        joint_of(levels, CliqueLayout(levels, cliques), rng.normal(size=_cells(levels, cliques)))
    )
    start *= 100 / start.sum()
    wanted = rng.dirichlet(np.ones(start.size)).reshape(levels) * 100
    layout, here = local(levels, cliques, start, 1e-200, EXACT)
    step = here.leap(flat_marginals(wanted, cliques) - here.counts)
    reached = start * np.exp(joint_of(levels, layout, step))
    reached *= 100 / reached.sum()
    np.testing.assert_allclose(
        flat_marginals(reached, cliques), flat_marginals(wanted, cliques), atol=1e-8
    )


def _cells(levels, cliques):
    return CliqueLayout(levels, cliques).cells


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("levels", "cliques"), LOOPS)
def test_near_the_uniform_distribution_loops_do_no_harm(levels, cliques, seed):
    uniform = np.full(levels, 1000.0 / np.prod(levels))
    layout, here = local(levels, cliques, uniform, 1e-200, StepRules(careful=1.0))
    rng = np.random.default_rng(seed)
    other = uniform * np.exp(1e-4 * rng.normal(size=levels))
    other *= 1000 / other.sum()
    change = flat_marginals(other, cliques) - here.counts
    reached = uniform * np.exp(joint_of(levels, layout, here.solve(change)))
    reached *= 1000 / reached.sum()
    left = flat_marginals(reached, cliques) - flat_marginals(other, cliques)
    assert np.abs(left).max() < 1e-3 * np.abs(change).max()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("levels", "cliques"), LOOPS)
def test_no_step_points_uphill_however_strong_the_dependence(levels, cliques, seed):
    rng = np.random.default_rng(seed)
    joint = np.exp(rng.normal(0, 5, size=levels))
    _, here = local(levels, cliques, joint * (1e5 / joint.sum()), 0.5)
    other = rng.dirichlet(np.full(joint.size, 0.1)).reshape(levels) * 1e5
    change = flat_marginals(other, cliques) - here.counts
    assert change @ here.leap(change) > 0
    assert change @ here.solve(change) > 0
    assert here.squared(change) == pytest.approx(change @ here.solve(change))


def test_a_lone_step_solves_its_equation_for_large_and_small_changes():
    counts = np.array([1e-9, 3.0, 500.0, 20.0, 0.0, 7.0])
    change = np.array([40.0, 1e6, -480.0, -90.0, 5.0, 0.01])
    slack = np.full(6, 0.7)
    step = lone_step(counts, change, slack, StepRules(newton=60))
    np.testing.assert_allclose(counts * np.expm1(step) + slack * step, change, rtol=1e-2)
    exact = np.abs(change / (counts + slack)) > 0.3
    np.testing.assert_allclose(
        (counts * np.expm1(step) + slack * step)[exact], change[exact], rtol=1e-9
    )


TRIANGLES = [
    ([(3, 4, 1, 5), (3, 1, 6, 5), (3, 4, 6, 1)], (4, 6, 5)),
    ([(2, 1, 1, 4, 5), (2, 2, 3, 4, 1), (2, 2, 3, 1, 5)], (2, 3, 4, 5)),
    ([(3, 2, 4, 1, 1, 3), (3, 2, 1, 5, 1, 3), (3, 2, 4, 5, 1, 1)], (2, 4, 5, 1, 3)),
    ([(2, 3, 2, 1, 4, 2), (2, 3, 1, 2, 4, 2), (2, 3, 2, 2, 4, 1)], (3, 2, 2, 4, 2)),
]


@pytest.mark.parametrize("cells", [1, 40, 1 << 16])
@pytest.mark.parametrize(("shapes", "shape"), TRIANGLES)
def test_triangles_agree_with_the_written_out_product(shapes, shape, cells):
    rng = np.random.default_rng(3)
    factors = [rng.random(one) for one in shapes]
    weight = rng.random(shape)
    found = Triangle.of(factors, shape, cells)
    assert found is not None
    whole = factors[0] * factors[1] * factors[2]
    np.testing.assert_allclose(found.summed(factors), whole.sum(axis=0), rtol=1e-13)
    for f, by_factor in enumerate(found.adjoints(factors, weight)):
        others = [factor for g, factor in enumerate(factors) if g != f]
        product = np.broadcast_to(weight * others[0] * others[1], (len(factors[f]), *shape))
        lacking = tuple(
            i for i, n in enumerate(factors[f].shape) if n == 1 and product.shape[i] > 1
        )
        np.testing.assert_allclose(by_factor, product.sum(axis=lacking, keepdims=True), rtol=1e-13)


def test_what_is_no_triangle_is_left_to_products_level_by_level():
    rng = np.random.default_rng(4)
    for shapes in (
        [(3, 4, 1), (3, 1, 5)],
        [(3, 4, 1, 1), (3, 1, 6, 5), (3, 4, 6, 5)],
        [(3, 4, 1, 5), (3, 4, 6, 5), (3, 4, 6, 5)],
        [(3, 4, 5, 1), (3, 1, 5, 6), (3, 4, 1, 6), (3, 4, 5, 6)],
    ):
        factors = [rng.random(one) for one in shapes]
        shape = tuple(int(n) for n in np.broadcast_shapes(*shapes)[1:])
        assert Triangle.of(factors, shape, 1 << 16) is None
        whole = np.ones(1)
        for factor in factors:
            whole = whole * factor
        np.testing.assert_allclose(bucket.summed(factors, shape), whole.sum(axis=0), rtol=1e-13)
        weight = rng.random(shape)
        for factor, by_factor in zip(factors, bucket.adjoints(factors, shape, weight), strict=True):
            share = weight * whole
            lacking = tuple(i for i, n in enumerate(factor.shape) if n == 1)
            expected = share.sum(axis=lacking, keepdims=True) / factor
            np.testing.assert_allclose(by_factor, expected, rtol=1e-12)


def test_facets_of_many_cliques_name_each_smaller_set_once():
    levels, cliques = LOOPS[1]
    parts = Facets(CliqueLayout(levels, cliques))
    for t, clique in enumerate(cliques):
        named = [
            s for p, held in zip(parts.parents, parts.subsets, strict=True) if p == t for s in held
        ]
        smaller = [s for size in range(len(clique)) for s in itertools.combinations(clique, size)]
        assert sorted(named) == sorted(smaller)
