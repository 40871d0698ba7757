"""Gradients agree with finite differences, projections with the formula, fits with their aim."""

from __future__ import annotations

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.families.answers import to_simplex
from admeasure.families.products import loss, optimise
from admeasure.families.products.optimise import Blocks, FitOptions
from admeasure.families.products.tensor import Layout, ProductAnswers, marginals
from admeasure.measurement import Measurement
from admeasure.queries import Cell, Marginal, Query, Threshold, ThresholdCell

DOMAIN = Domain(("b", "a", "d", "c"), (3, 4, 2, 5))
LAYOUT = Layout.of(DOMAIN)
ROWS = 6


def rows_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = LAYOUT.levels
    return np.concatenate([rng.dirichlet(np.ones(n), size=ROWS).T for n in sizes]).astype("f4")


def measured(query: Query, seed: int = 0) -> Measurement:
    values = np.random.default_rng(seed).integers(0, 60, size=query.shape(DOMAIN))
    return Measurement(query, np.asarray(values), 1.0)


SINGLES = [
    Cell(["a"], [2]),
    Cell(["a", "b", "c"], [1, 2, 4]),
    ThresholdCell(["a", "b", "c", "d"], 2, [0, 1, 3, 1]),
    ThresholdCell(["b", "d"], 1, [0, 0]),
]
WHOLES = [Marginal(["a", "b"]), Marginal(["c"]), Marginal(["a", "c", "d"])]


def test_single_answers_are_those_of_the_tensors() -> None:
    P = rows_of(1)
    log = [measured(q) for q in SINGLES]
    got = np.asarray(loss.cell_answers(P, loss.cells(log, LAYOUT, 100.0), "mixed"))
    for q, value in zip(SINGLES, got, strict=False):
        whole = Threshold(q.columns, q.at_least) if isinstance(q, ThresholdCell) else None
        table = np.concatenate(list(ProductAnswers(P, LAYOUT).blocks(whole or Marginal(q.columns))))
        assert value == pytest.approx(table.reshape(DOMAIN.shape(q.columns))[q.codes], abs=1e-6)


@pytest.mark.parametrize(
    ("singles", "kind"),
    [
        (SINGLES[:2], "all"),
        (
            [ThresholdCell(["a", "c"], 1, [1, 2]), ThresholdCell(["a", "b", "d"], 1, [1, 2, 0])],
            "any",
        ),
    ],
)
def test_the_shorter_formulas_say_what_the_general_one_says(singles, kind) -> None:
    assert loss.kind_of(singles) == kind
    data = loss.cells([measured(q) for q in singles], LAYOUT, 100.0)
    short, general = (loss.cell_answers(rows_of(2), data, k) for k in (kind, "mixed"))
    count = len(singles)
    assert np.allclose(short[:count], general[:count], atol=1e-6)


def test_the_loss_of_tables_is_the_sum_over_their_cells() -> None:
    P, log = rows_of(3), [measured(q, i) for i, q in enumerate(WHOLES)]
    tables = marginals(P.astype(float), LAYOUT, [q.columns for q in WHOLES])
    expected = sum(np.sum((t - m.values / 100) ** 2) for t, m in zip(tables, log, strict=True))
    got = loss.table_loss(P, loss.tables(log, LAYOUT, 100.0))
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_a_table_of_many_tiles_is_summed_whole() -> None:
    domain = Domain.of({"x": 70, "y": 3, "z": 40})
    layout = Layout.of(domain)
    rng = np.random.default_rng(4)
    P = np.concatenate([rng.dirichlet(np.ones(n), size=4).T for n in layout.levels]).astype("f4")
    query = Marginal(["x", "y", "z"])
    m = Measurement(query, rng.integers(0, 9, size=(70, 3, 40)), 1.0)
    data = loss.tables([m], layout, 50.0)
    (table,) = marginals(P.astype(float), layout, [query.columns])
    assert int(data.count) > 1
    expected = np.sum((table - m.values / 50) ** 2)
    assert float(loss.table_loss(P, data)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("which", ["cells", "tables"])
def test_gradients_agree_with_finite_differences(which: str) -> None:
    import jax

    with jax.enable_x64(True):
        P = rows_of(5).astype(np.float64)
        if which == "cells":
            data = loss.cells([measured(q) for q in SINGLES], LAYOUT, 100.0)
            value = lambda p: loss.cell_loss(p, data, "mixed")  # noqa: E731
        else:
            data = loss.tables([measured(q) for q in WHOLES], LAYOUT, 100.0)
            value = lambda p: loss.table_loss(p, data)  # noqa: E731
        value = jax.jit(value)
        slope = np.asarray(jax.grad(value)(P))
        rng = np.random.default_rng(6)
        for _ in range(10):
            direction = rng.standard_normal(P.shape)
            high, low = value(P + 1e-5 * direction), value(P - 1e-5 * direction)
            assert float(high - low) / 2e-5 == pytest.approx(np.sum(slope * direction), rel=1e-5)


def blocks() -> Blocks:
    column = LAYOUT.column_of.astype(np.int32)
    member = (column[None, :] == np.arange(len(LAYOUT.levels) + 1)[:, None]).astype(np.float32)
    return Blocks(member, column)


def test_sparsemax_is_the_nearest_distribution() -> None:
    points = np.random.default_rng(7).normal(0.3, 0.5, (LAYOUT.width, ROWS)).astype("f4")
    got = np.asarray(optimise.sparsemax(points, points > -10, blocks()))
    for column in LAYOUT.columns:
        span = LAYOUT.span(column)
        for i in range(ROWS):
            assert np.allclose(got[span, i], to_simplex(points[span, i], 1.0), atol=1e-5)


@pytest.mark.parametrize("shape", ["sparsemax", "softmax"])
def test_first_rows_are_distributions_and_always_the_same(shape: str) -> None:
    P = optimise.first_rows(LAYOUT, 50, shape)
    assert np.array_equal(P, optimise.first_rows(LAYOUT, 50, shape))
    for column in LAYOUT.columns:
        assert np.allclose(P[LAYOUT.span(column)].sum(axis=0), 1, atol=1e-6)
    assert P.min() >= 0


HOWS = {
    "sparsemax": FitOptions("sparsemax", 0.01, tolerance=1e-4),
    "softmax": FitOptions("softmax", 0.1, tolerance=1e-4),
}


@pytest.mark.parametrize("shape", HOWS)
def test_a_fit_reaches_answers_that_rows_can_give(shape: str) -> None:
    truth = rows_of(8)
    single = [Cell(["a", "b"], [i, j]) for i in range(3) for j in range(2)]
    table = marginals(truth.astype(float), LAYOUT, [("a", "b")])[0]
    log = [Measurement(q, np.asarray(1000 * table[q.codes]), 1.0) for q in single]
    start = optimise.first_rows(LAYOUT, 40, shape)
    P = optimise.minimise(start, LAYOUT, log, 1000.0, HOWS[shape])
    got = marginals(P.astype(float), LAYOUT, [("a", "b")])[0]
    assert max(abs(got[q.codes] - table[q.codes]) for q in single) < 0.005
    for column in LAYOUT.columns:
        assert np.allclose(P[LAYOUT.span(column)].sum(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize("shape", HOWS)
def test_whole_marginals_are_fitted_too(shape: str) -> None:
    truth = rows_of(9)
    columns = [("a", "b"), ("b", "c", "d")]
    tables = marginals(truth.astype(float), LAYOUT, columns)
    log = [Measurement(Marginal(c), 1000 * t, 1.0) for c, t in zip(columns, tables, strict=True)]
    P = optimise.minimise(optimise.first_rows(LAYOUT, 60, shape), LAYOUT, log, 1000.0, HOWS[shape])
    for expected, got in zip(tables, marginals(P.astype(float), LAYOUT, columns), strict=True):
        assert np.abs(expected - got).max() < 0.01


def test_levels_that_nobody_asked_about_keep_their_proportions() -> None:
    start = optimise.first_rows(LAYOUT, 30, "softmax")
    log = [Measurement(Cell(["c"], [1]), np.asarray(700), 1.0)]
    P = optimise.minimise(start, LAYOUT, log, 1000.0, HOWS["softmax"])
    lines = np.arange(LAYOUT.span("c").start, LAYOUT.span("c").stop)
    asked, others = lines[1], np.delete(lines, 1)
    assert P[asked].mean() == pytest.approx(0.7, abs=0.01)
    before, after = (x[others] / x[others].sum(axis=0) for x in (start, P))
    assert np.allclose(before, after, atol=1e-4)
    assert np.allclose(P[LAYOUT.span("a")], start[LAYOUT.span("a")], atol=1e-6)


def test_a_run_of_many_measurements_compiles_a_handful_of_times() -> None:
    how = FitOptions("softmax", 0.1, steps=25)
    P = optimise.first_rows(LAYOUT, 31, "softmax")  # a number of rows that no other test has
    log: list[Measurement] = []
    before = optimise._fit._cache_size()
    cells = [Cell(["a", "b", "c"], [i, j, k]) for i in range(4) for j in range(3) for k in range(5)]
    for q in cells:
        log.append(Measurement(q, np.asarray(10), 1.0))
        P = optimise.minimise(P, LAYOUT, log, 1000.0, how)
    assert optimise._fit._cache_size() - before <= 2
