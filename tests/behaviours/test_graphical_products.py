"""Sums and products of tables with a row for each cell of a separator, against `einsum`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.row_products import summed_products
from admeasure.families.graphical.inference.tables import sum_axis

ROWS = "abcde"


@pytest.mark.parametrize("cache", [0, tuning.CACHE_CELLS], ids=["halves", "one by one"])
@pytest.mark.parametrize("columns", [(1, 1), (2, 3), (9, 1), (40, 30)])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (4, 1, 3), (2, 3, 4, 2), (3, 2, 1, 4, 2)])
def test_products_are_summed_over_whatever_is_not_kept(shape, columns, cache, monkeypatch):
    monkeypatch.setattr(tuning, "CACHE_CELLS", cache)
    rng = np.random.default_rng(0)
    left, right = (rng.random((*shape, n)) for n in columns)
    axes = range(len(shape))
    keeps = [kept for n in range(len(shape) + 1) for kept in itertools.combinations(axes, n)]
    keeps.append(keeps[0])  # one that is asked for twice is answered twice
    answers = summed_products(
        left.reshape(-1, columns[0]), right.reshape(-1, columns[1]), shape, keeps
    )
    rows = ROWS[: len(shape)]
    for kept, answer in zip(keeps, answers, strict=True):
        out = "".join(ROWS[i] for i in kept)
        expected = np.einsum(f"{rows}x,{rows}y->{out}xy", left, right)
        np.testing.assert_allclose(answer.reshape(expected.shape), expected, rtol=1e-13)
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(answers, 2))


@pytest.mark.parametrize("length", [1, 2, 7, 8, 30])
@pytest.mark.parametrize(("before", "after"), [((), ()), ((3,), ()), ((), (2,)), ((2, 3), (4, 5))])
def test_the_sum_over_an_axis_is_that_of_numpy(length, before, after):
    table = np.random.default_rng(0).random((*before, length, *after))
    expected = table.sum(axis=len(before))
    for given in (table, np.asfortranarray(table)):
        np.testing.assert_allclose(sum_axis(given, len(before)), expected, rtol=1e-14)
