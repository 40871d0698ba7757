"""Product rows fitted to noisy pairs: pooling, shrinkage and the fit against other computations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from admeasure.domain import Domain
from admeasure.families.explicit import ExplicitModel
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.families.products.family import ProductModel
from admeasure.families.products.pairs import (
    centred,
    handed_over,
    missed_by_products,
    pair_targets,
    single_targets,
)
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement, pooled
from admeasure.queries import Cell, Marginal

DOMAIN = Domain(("d", "b", "a", "c"), (2, 3, 4, 3))  # not in alphabetical order
LAYOUT = Layout.of(DOMAIN)
PAIRS = list(combinations(LAYOUT.columns, 2))
TOTAL = 1000.0


def mixture(classes: int = 3, seed: int = 0) -> ProductModel:
    """A table that is a mixture of products itself."""
    rng = np.random.default_rng(seed)
    P = np.concatenate([rng.dirichlet(np.full(n, 0.5), classes).T for n in LAYOUT.levels])
    return ProductModel(DOMAIN, P.astype(np.float32), TOTAL)


def measured(model, sets, sigma, seed=1):
    rng = np.random.default_rng(seed)
    return [
        Measurement(Marginal(c), t + rng.normal(0, sigma, t.shape), sigma)
        for c, t in zip(sets, model.marginals(sets), strict=True)
    ]


def uniform() -> ExplicitModel:
    return ExplicitModel.uniform(DOMAIN, TOTAL, ())


def test_what_product_rows_miss_is_the_mean_squared_effect_of_what_exact_answers_lead_to():
    """Effects as what a regression on both columns' levels leaves, by numpy."""
    model = mixture(classes=40)
    exact = dict(zip(PAIRS, model.marginals(PAIRS), strict=True))
    rows = handed_over(model, [Measurement(Marginal(c), t, 1e-3) for c, t in exact.items()])
    squares, effects = [], []
    for (one, two), said in zip(PAIRS, rows.marginals(PAIRS), strict=True):
        shape = a, b = exact[one, two].shape
        levels = np.indices(shape).reshape(2, -1)
        design = np.hstack([np.eye(a)[levels[0]], np.eye(b)[levels[1]]])
        for table, kept in ((said - exact[one, two], squares), (exact[one, two], effects)):
            flat = table.reshape(-1) / TOTAL
            left = flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]
            kept.append(left @ left)
    assert missed_by_products(model, PAIRS) == pytest.approx(np.mean(squares), rel=1e-6)
    assert np.mean(squares) < 0.05 * np.mean(effects)  # 512 rows hold what 40 made


def test_what_is_pooled_is_the_least_squares_estimate_of_all_tables_that_hold_a_set():
    """For one pair, measured twice, and a triple: the stacked system, solved by numpy."""
    rng = np.random.default_rng(2)
    log = [
        Measurement(Marginal(c), rng.normal(5, 1, DOMAIN.shape(c)), s)
        for c, s in ((("a", "b"), 2.0), (("a", "b"), 3.0), (("a", "b", "d"), 1.5))
    ]
    log.append(Measurement(Cell(("a", "b"), (0, 0)), np.asarray(7.0), 1.0))  # not a whole table
    seen = np.stack([log[0].values, log[1].values, log[2].values.sum(axis=2)])
    # A cell of the triple summed over d has twice the variance.
    scale = np.array([2.0, 3.0, 1.5 * 2**0.5])
    design, right = (1 / scale)[:, None], (seen / scale[:, None, None]).reshape(3, -1)
    solved = np.linalg.lstsq(design, right, rcond=None)[0].reshape(4, 3)
    found = pooled(log, (1, 2))
    assert found["a", "b"].table == pytest.approx(solved)
    assert found["a", "b"].variance == pytest.approx(1 / (scale**-2).sum())
    assert set(found) == {*((c,) for c in "abd"), ("a", "b"), ("a", "d"), ("b", "d")}


def test_an_effect_is_the_mean_of_its_posterior():
    """Against the normal law of prior times likelihood on a fine grid, cell by cell."""
    truth, sigma = mixture(), 30.0
    known = pooled(measured(truth, PAIRS, sigma), (1, 2))
    targets, read = pair_targets(uniform(), known, LAYOUT)
    singles = single_targets(uniform(), known, LAYOUT)
    effects = {c: centred(known[c].table) for c in PAIRS}
    free = {c: (DOMAIN[c[0]] - 1) * (DOMAIN[c[1]] - 1) for c in PAIRS}
    strength = np.mean([(effects[c] ** 2).sum() - free[c] * sigma**2 for c in PAIRS])
    grid = np.linspace(-1000, 1000, 20_001)
    for c in PAIRS:
        one, two = LAYOUT.span(c[0]), LAYOUT.span(c[1])
        assert read[one, two].all()
        assert targets[one, two].sum(axis=1) == pytest.approx(singles[one], abs=1e-6)
        assert targets[one, two] == pytest.approx(targets[two, one].T)
        noise = sigma * (free[c] / effects[c].size) ** 0.5
        means = np.empty_like(effects[c])
        for cell in np.ndindex(means.shape):
            share = singles[one][cell[0]] * singles[two][cell[1]]
            law = stats.norm.pdf(grid, 0, (strength * share) ** 0.5)
            law *= stats.norm.pdf(effects[c][cell], grid, noise)
            means[cell] = (grid * law).sum() / law.sum()
        assert centred(targets[one, two]) * TOTAL == pytest.approx(centred(means), abs=0.05)
    for column in LAYOUT.columns:
        assert not read[LAYOUT.span(column), LAYOUT.span(column)].any()


def test_pairs_that_are_known_exactly_are_reached_and_noise_is_left_where_it_is():
    truth = mixture()
    exact = handed_over(uniform(), measured(truth, PAIRS, 0.01))
    for one, two in zip(exact.marginals(PAIRS), truth.marginals(PAIRS), strict=True):
        assert np.abs(one - two).sum() < 0.02 * TOTAL
    # With as much noise as there are rows, what was measured says next to nothing of effects.
    noisy = measured(truth, PAIRS, TOTAL)
    apart = handed_over(uniform(), [*measured(truth, [(c,) for c in "abcd"], 0.01), *noisy])
    columns = dict(zip("abcd", truth.marginals([(c,) for c in "abcd"]), strict=True))
    said = [np.abs(m.values - t).sum() for m, t in zip(noisy, truth.marginals(PAIRS), strict=True)]
    for (a, b), table in zip(PAIRS, apart.marginals(PAIRS), strict=True):
        product = np.outer(columns[a], columns[b]) / TOTAL
        assert np.abs(table - product).sum() < 0.1 * min(said)


def test_a_column_that_was_never_measured_stays_as_the_model_had_it():
    log = measured(mixture(), [("a",), ("a", "b")], 1.0)
    found = handed_over(uniform(), log)
    assert found.marginals([("d",)])[0] == pytest.approx([TOTAL / 2] * 2, rel=0.02)
    assert found.total == TOTAL


def test_the_same_measurements_give_the_same_rows():
    log = measured(mixture(), PAIRS, 10.0)
    one, two = (handed_over(uniform(), log, rows=32, steps=20) for _ in range(2))
    assert np.array_equal(one.P, two.P)


def test_a_table_of_more_lines_than_its_codes_can_count_is_handed_over():
    """Codes of few levels come in a byte each, and lines are numbered through all columns."""
    domain = Domain(tuple(f"c{i:03}" for i in range(90)), (3,) * 90)
    start = GraphicalFamily().init(domain)
    last = np.array([0.8, 0.1, 0.1]) * start.total
    found = handed_over(start, [Measurement(Marginal(("c089",)), last, 0.001)], steps=50)
    assert found.marginals([("c089",)])[0] == pytest.approx(last, abs=0.02)
    assert found.marginals([("c000",)])[0] == pytest.approx([1 / 3] * 3, abs=0.02)


def test_columns_of_one_level_and_levels_that_nobody_has_leave_every_answer_a_number():
    domain = Domain(("a", "b", "c"), (1, 3, 2))
    start = ExplicitModel.uniform(domain, TOTAL, ())
    exact = {("a",): [TOTAL], ("b",): [TOTAL, 0, -5], ("a", "b"): [[TOTAL, 0, -5]]}
    log = [Measurement(Marginal(c), np.array(v, float), 1.0) for c, v in exact.items()]
    found = handed_over(start, log, rows=16, steps=10)
    for table in found.marginals([("a", "b"), ("b", "c")]):
        assert np.isfinite(table).all()
        assert table.sum() == pytest.approx(TOTAL)
