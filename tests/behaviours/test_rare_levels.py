"""Levels that hardly occur: taken together where noise alone would spread rows over them."""

from __future__ import annotations

import numpy as np
import pytest

import admeasure
from admeasure.measurement import pooled
from admeasure.mechanisms import build
from admeasure.parts.rare_levels import with_rare_levels
from admeasure.schema import Schema

LEVELS = {"a": 60, "b": 6, "c": 4}


def table(rows: int = 40_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    common = rng.choice(5, rows, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    common[:10] = rng.integers(5, 60, 10)
    b = (common + rng.integers(0, 3, rows)) % 6
    return {"a": common, "b": b, "c": (b + rng.integers(0, 2, rows)) % 4}


def fitted(seed: int, **options: str):
    asked = {"workload": "all-2way", "epsilon": 0.5, "delta": 1e-9, "seed": seed}
    return admeasure.fit(
        table(), Schema.coded("t", LEVELS), mechanism=build("mst", options), **asked
    )


def test_rows_seldom_show_levels_without_evidence():
    """55 levels have ten rows together. Both runs see the same noise."""
    true = np.bincount(table()["a"], minlength=60)
    spread, far = [], []
    for seed in range(4):
        plain, merged = (fitted(seed, rare=limit).marginal(["a"]) for limit in ("0", "3"))
        counts = [np.asarray(m, dtype=float) for m in (plain, merged)]
        spread.append([c[5:].sum() for c in counts])
        far.append([np.abs(c - true).sum() for c in counts])
    (plain, merged), (before, after) = np.mean(spread, axis=0), np.mean(far, axis=0)
    assert merged < plain / 2
    assert after < before


def test_what_is_not_rare_stays_as_it_is_given_that_it_is_not():
    plain, merged = (fitted(3, rare=limit).model for limit in ("0", "3"))
    seen = pooled(fitted(3).measurements, (1,))[("a",)]
    common = seen.table >= 3 * seen.variance**0.5
    assert 0 < common.sum() < 60
    first, second = (m.marginals([("a", "b")])[0][common] for m in (plain, merged))
    assert second / second.sum() == pytest.approx(first / first.sum(), rel=1e-6, abs=1e-12)
    assert merged.total == pytest.approx(plain.total)
    totals = [m.marginals([("a",)])[0][~common].sum() for m in (plain, merged)]
    assert totals[1] <= totals[0] * (1 + 1e-9)


def test_the_estimate_is_that_of_least_squares():
    """Of three measurements with the column, summed out and weighed by precision; by numpy."""
    release = fitted(1)
    seen = [m for m in release.measurements if "a" in m.query.columns]
    rows, values = [], []
    for m in seen:
        axis = m.query.columns.index("a")
        summed = np.moveaxis(m.values, axis, 0).reshape(60, -1)
        scale = m.sigma * summed.shape[1] ** 0.5
        rows.append(np.eye(60) / scale)
        values.append(summed.sum(axis=1) / scale)
    expected, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(values), rcond=None)
    found = pooled(release.measurements, (1,))
    assert found["a",].table == pytest.approx(expected)


def test_a_limit_of_zero_and_columns_of_structural_zeros_change_nothing():
    model = fitted(2, rare="0").model
    log = fitted(2, rare="0").measurements
    believed = with_rare_levels(model, log, -1e9).marginals([("a",)])[0]
    assert np.array_equal(believed, model.marginals([("a",)])[0])
    text = Schema.coded("t", LEVELS).dumps()
    text += '[[zero]]\ncolumns = ["a", "b"]\nwhere = {a = 59, b = 0}\n'
    asked = {"workload": "all-2way", "epsilon": 0.5, "delta": 1e-9, "seed": 1}
    with_zero = [
        admeasure.fit(
            table() | {"b": np.maximum(table()["b"], 1)},
            Schema.loads(text),
            mechanism=build("mst", {"rare": limit}),
            **asked,
        )
        for limit in ("0", "3")
    ]
    first, second = (r.model.marginals([("a",)])[0] for r in with_zero)
    assert first == pytest.approx(second)
