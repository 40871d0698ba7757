"""Rows drawn from product rows by randomised rounding."""

from __future__ import annotations

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ReleaseError, ResourceError
from admeasure.families.products.family import ProductModel
from admeasure.families.products.tensor import Layout
from admeasure.schema import Zero

DOMAIN = Domain(("b", "a"), (3, 2))
LAYOUT = Layout.of(DOMAIN)


def model(zeros: tuple[Zero, ...] = (), rows: int = 4) -> ProductModel:
    rng = np.random.default_rng(0)
    P = np.concatenate([rng.dirichlet(np.ones(n), size=rows).T for n in (2, 3)])
    return ProductModel(DOMAIN, P.astype(np.float32), 100.0, zeros)


def counted(codes: dict[str, np.ndarray]) -> np.ndarray:
    table = np.zeros((2, 3))
    np.add.at(table, (codes["a"], codes["b"]), 1)
    return table


def test_one_way_counts_are_within_one_for_each_product_row() -> None:
    made = model()
    codes = made.sample(1001, np.random.default_rng(1))
    for column in "ab":
        (expected,) = made.marginals([(column,)])
        got = np.bincount(codes[column], minlength=len(expected))
        assert got.sum() == 1001
        # Each of the 4 product rows has one copy more or less, and rounds each level by one.
        assert np.abs(got - expected * 10.01).max() <= 2 * 4


@pytest.mark.statistical
def test_pairs_are_independent_within_a_product_row() -> None:
    """The mean of 200 samples of 400 rows; 5 standard errors: false alarm below 1e-5."""
    made = model()
    rng = np.random.default_rng(2)
    tables = np.array([counted(made.sample(400, rng)) for _ in range(200)])
    (expected,) = made.marginals([("a", "b")])
    error = tables.std(axis=0) / np.sqrt(len(tables))
    assert np.all(np.abs(tables.mean(axis=0) - 4 * expected) <= 5 * error + 1e-9)


def test_structural_zeros_are_kept() -> None:
    mask = np.zeros((2, 3), bool)
    mask[0, 1] = mask[1, 2] = True
    codes = model((Zero(("a", "b"), mask),)).sample(3000, np.random.default_rng(3))
    table = counted(codes)
    assert table.sum() == 3000
    assert table[mask].sum() == 0


def test_zeros_that_leave_nothing_likely_are_an_error_and_no_endless_loop() -> None:
    with pytest.raises(ResourceError, match="structural zeros"):
        model((Zero(("a", "b"), np.ones((2, 3), bool)),)).sample(10, np.random.default_rng(4))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_any_number_of_rows_can_be_drawn(rows: int) -> None:
    codes = model().sample(rows, np.random.default_rng(5))
    assert {len(v) for v in codes.values()} == {rows}


def test_stored_rows_come_back_and_damaged_ones_are_refused() -> None:
    made = model((Zero(("a", "b"), np.eye(2, 3, dtype=bool)),))
    again = ProductModel.load(DOMAIN, made.arrays())
    assert np.array_equal(again.P, made.P)
    assert again.zeros[0].columns == ("a", "b")
    assert np.array_equal(again.zeros[0].mask, made.zeros[0].mask)
    for damage in ({"P": made.P[:-1]}, {"P": made.P * 2}, {"P": -made.P}):
        with pytest.raises(ReleaseError):
            ProductModel.load(DOMAIN, {**made.arrays(), **damage})
