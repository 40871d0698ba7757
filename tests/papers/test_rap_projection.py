"""The fit of `rap` against Algorithm 3 of Avent and Korolova (2023) written down as printed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from admeasure.domain import Domain
from admeasure.families.products import loss
from admeasure.families.products.family import ProductFamily, ProductModel
from admeasure.families.products.optimise import FitOptions, first_rows, minimise
from admeasure.families.products.tensor import Layout
from admeasure.loop import adaptive_measurements
from admeasure.measurement import Measurement
from admeasure.mechanisms.rap import Rap
from admeasure.privacy.convert import rho_of
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Threshold, ThresholdCell
from admeasure.schedules.even import Even
from admeasure.schema import Schema
from admeasure.selectors.top import TopCells
from admeasure.sources.memory import MemorySource
from admeasure.workload import Workload

LEVELS = {"a": 12, "b": 9, "c": 4, "d": 20, "e": 7, "f": 3}
ROWS = 5000


def make_source() -> MemorySource:
    """Skewed columns that follow a hidden one."""
    rng = np.random.default_rng(0)
    hidden, codes = rng.integers(0, 3, ROWS), {}
    for name, n in LEVELS.items():
        shares = np.stack([rng.permutation(0.5 ** np.arange(n)) for _ in range(3)])
        ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
        codes[name] = np.minimum((rng.random(ROWS)[:, None] > ends[hidden]).sum(axis=1), n - 1)
    schema = Schema.coded("toy", LEVELS)
    privacy = schema.privacy.model_copy(update={"neighbours": "replace"})
    return MemorySource(codes, schema.model_copy(update={"privacy": privacy}))


SOURCE = make_source()
DOMAIN = SOURCE.schema.domain
WORKLOAD = Workload(
    Threshold(c, 1)
    for c in (("a", "b", "c"), ("a", "d", "f"), ("b", "d", "e"), ("c", "e", "f"), ("a", "c", "e"))
)


class AsPrinted:
    """Adam on every level of every row, sparsemax by sorting after each step, a fixed number of
    steps: nothing coarse, nothing shared, nothing stopped early."""

    def __init__(self, learning_rate: float, steps: int) -> None:
        adam, layout = optax.adam(learning_rate), Layout.of(DOMAIN)
        spans = [layout.span(c) for c in layout.columns]

        @jax.jit
        def fit(P, data):
            def step(_, state):
                P, memory = state
                change, memory = adam.update(jax.grad(loss.cell_loss)(P, data, "any"), memory)
                P = optax.apply_updates(P, change)
                return jnp.concatenate([sparsemax_by_sorting(P[s]) for s in spans]), memory

            return jax.lax.fori_loop(0, steps, step, (P, adam.init(P)))[0]

        self._fit = fit

    def update(self, model: ProductModel, log: Sequence[Measurement]) -> ProductModel:
        data = loss.cells(log, model.layout, model.total)
        return ProductModel(model.domain, np.asarray(self._fit(model.P, data)), model.total)


def sparsemax_by_sorting(points):
    ranked = -jnp.sort(-points, axis=0)
    excess = (jnp.cumsum(ranked, axis=0) - 1) / jnp.arange(1, len(points) + 1)[:, None]
    held = (ranked > excess).sum(axis=0)
    return jnp.maximum(points - jnp.take_along_axis(excess, held[None] - 1, axis=0), 0)


def present_error(family, seed: int) -> float:
    """Of ten rounds of four, with the same noise for every family."""
    budget = Fraction(rho_of(1.0, 1 / ROWS**2))
    curator = Curator(SOURCE, Ledger(budget), SeededNoise(seed))
    model = ProductModel(DOMAIN, first_rows(Layout.of(DOMAIN), 60, "sparsemax"), float(ROWS))
    schedule, selector = Even(Zcdp(budget / 20), Zcdp(budget / 20)), TopCells(4)
    for done in adaptive_measurements(curator, WORKLOAD, family, selector, schedule, model):
        model = done.after
    worst = 0.0
    for query in WORKLOAD:
        true = np.ravel(query.answer(SOURCE.counts([query.columns])[0]))
        worst = max(worst, float(np.abs(np.concatenate(list(model.blocks(query))) - true).max()))
    return worst / ROWS


@pytest.mark.statistical
def test_rap_is_at_least_as_close_as_the_algorithm_as_printed() -> None:
    """Mean of two runs, fixed seeds; two learning rates as printed, the better one counts."""
    ours = np.mean([present_error(ProductFamily(Rap().family().how), s) for s in range(2)])
    printed = []
    for rate, steps in ((0.001, 1000), (0.01, 300)):
        family = AsPrinted(rate, steps)
        printed.append(np.mean([present_error(family, s) for s in range(2)]))
    assert ours <= 1.05 * min(printed)


def test_slopes_of_one_sign_do_not_hold_a_fit_up() -> None:
    """Every level of a column profits from growing, one of them far more: it must win. Adam on
    single levels moves all of them alike, and the projection takes that away."""
    domain = Domain.of({"x": 6, "y": 3})
    layout = Layout.of(domain)
    rows = 20
    P = np.concatenate([np.full((6, rows), 1 / 6), np.full((3, rows), 1 / 3)]).astype("f4")
    wanted = [ThresholdCell(["x"], 1, [0])] * 20 + [
        ThresholdCell(["x"], 1, [i]) for i in range(1, 6)
    ]
    answers = [900] * 20 + [170, 171, 172, 173, 174]
    log = [Measurement(q, np.asarray(a), 1.0) for q, a in zip(wanted, answers, strict=True)]

    def left(moment) -> float:
        how = FitOptions("sparsemax", 0.03, tolerance=1e-4, moment=moment)
        fitted = minimise(P, layout, log, 1000.0, how)
        return float(loss.cell_loss(fitted, loss.cells(log, layout, 1000.0), "all"))

    # min over the simplex of 20 (x - 0.9)² + Σ (y_i - a_i)²: the y_i lose what x gains, evenly.
    low = min(
        20 * (x - 0.9) ** 2 + sum((max(a / 1000 - (0.86 - 1 + x) / 5, 0) - a / 1000) ** 2
        for a in answers[20:])
        for x in np.linspace(0, 1, 10_001)
    )  # fmt: skip
    assert left("block") < low + 0.005
    assert left("level") > low + 1.0
