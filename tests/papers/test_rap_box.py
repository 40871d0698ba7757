"""RAP in a box, as Liu, Vietri and Wu (2021) ran it: appendix D.3."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.evaluation import compare
from admeasure.families.products.family import BoxModel, ProductFamily
from admeasure.families.products.optimise import FitOptions
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.mechanisms.rap_box import RapBox
from admeasure.queries import Cell, Marginal, Threshold
from admeasure.workload import Workload

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
ROWS = 1000.0


def box(seed: int, rows: int = 5) -> BoxModel:
    P = np.random.default_rng(seed).uniform(-1, 1, (7, rows)).astype(np.float32)
    return BoxModel(DOMAIN, P, ROWS)


@pytest.mark.parametrize("columns", [("a",), ("a", "b"), ("a", "b", "c")])
def test_answers_are_means_of_products_clipped_to_what_can_be(columns) -> None:
    model = box(1)
    (found,) = model.marginals([columns])
    blocks = np.concatenate(list(model.blocks(Marginal(columns))))
    starts = {"a": 0, "b": 2, "c": 5}
    below = 0
    for at in product(*(range(DOMAIN[c]) for c in columns)):
        lines = [model.P[starts[c] + v].astype(float) for c, v in zip(columns, at, strict=True)]
        mean = np.mean(np.prod(lines, axis=0))
        below += mean < 0
        assert found[at] == pytest.approx(ROWS * min(1.0, max(0.0, mean)), abs=1e-6)
    assert below  # so that the clipping is seen
    np.testing.assert_allclose(blocks, found.ravel(), atol=1e-3)


def test_targets_of_thresholds_follow_the_polynomial_of_the_relaxation() -> None:
    """4.4 of Avent and Korolova: S1 - S2 for one of two, on the rows as they are."""
    model = box(2)
    blocks = np.concatenate(list(model.blocks(Threshold(["a", "c"], 1)))).reshape(2, 2)
    for a, c in product(range(2), range(2)):
        p, q = model.P[a].astype(float), model.P[5 + c].astype(float)
        wanted = np.mean(p + q - p * q)
        assert blocks[a, c] == pytest.approx(ROWS * min(1.0, max(0.0, wanted)), abs=1e-2)


def test_what_is_learned_of_one_level_says_nothing_of_another() -> None:
    """The paper's example: P(A=1) = 0.8 is measured. In a box P(A=0) stays where it was, under
    softmax it becomes 0.2."""
    log = [Measurement(Cell(["a"], [1]), np.asarray(800), 1.0)]
    boxed = ProductFamily(FitOptions("box", 0.01, steps=2000))
    first = boxed.init(DOMAIN, ROWS, 20)
    after = boxed.update(first, log)
    (before,), (now,) = first.marginals([("a",)]), after.marginals([("a",)])
    assert now[1] == pytest.approx(800, abs=5)
    assert now[0] == before[0]
    untouched = np.delete(np.arange(7), 1)
    np.testing.assert_array_equal(after.P[untouched], first.P[untouched])
    soft = ProductFamily(FitOptions("softmax", 0.1))
    (rest,) = soft.update(soft.init(DOMAIN, ROWS, 20), log).marginals([("a",)])
    assert rest == pytest.approx([200, 800], abs=5)


def test_rows_stay_in_the_box_and_impossible_answers_are_not_chased() -> None:
    log = [
        Measurement(Cell(["a", "b"], [1, 2]), np.asarray(-900), 1.0),
        Measurement(Cell(["a"], [0]), np.asarray(3000), 1.0),
    ]
    family = ProductFamily(FitOptions("box", 0.05, steps=2000, tolerance=1e-6, floor=0.0))
    P = family.update(family.init(DOMAIN, ROWS, 20), log).P
    assert np.abs(P).max() <= 1
    assert np.mean(P[1].astype(float) * P[4]) == pytest.approx(0.0, abs=0.01)  # not -0.9
    assert P[0].mean() == pytest.approx(1.0, abs=0.02)


def test_its_settings_are_those_of_the_paper() -> None:
    """Table 6 there: learning rate 0.001; at most 5000 steps, as in the authors' code."""
    how = RapBox().family().how
    assert (how.shape, how.learning_rate, how.steps) == ("box", 0.001, 5000)
    assert np.abs(RapBox().family().init(DOMAIN, ROWS, 4).P).max() <= 1


def test_it_has_no_rows() -> None:
    with pytest.raises(UsageError, match="no rows to sample"):
        box(0).sample(3, np.random.default_rng(0))
    assert Layout.of(DOMAIN).width == 7


def test_its_errors_are_judged_as_they_are_though_answers_do_not_sum_to_all_rows() -> None:
    true = {(): np.asarray(10), ("a",): np.array([2, 8])}
    boxed = BoxModel(DOMAIN, np.full((7, 4), 0.8, np.float32), 10.0)
    found = compare(
        lambda columns: [true[c] for c in columns],
        boxed.marginals,
        Workload([Marginal(["a"])]),
        DOMAIN,
    )
    assert found.max_error == pytest.approx(0.6)  # 0.8 where 0.2 is true, not 0.5
    assert found.workload_error == pytest.approx(0.6)
