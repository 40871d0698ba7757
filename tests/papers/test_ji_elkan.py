"""Ji and Elkan's importance weights: the regression, its sensitivity, the reweighted table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from admeasure.domain import Domain, canonical
from admeasure.errors import ResourceError, UsageError
from admeasure.mechanisms.ji_elkan import JiElkan
from admeasure.privacy.regression import SLACK, Regression, minimised, one_hot
from admeasure.public import PublicTable
from admeasure.schema import Schema
from admeasure.unit import Neighbours, Unit
from admeasure.verbs.fit import fit

DOMAIN = Domain(("b", "a", "c"), (2, 3, 2))


def rows(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {
        c: rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
        for c, k in zip(DOMAIN.columns, DOMAIN.levels, strict=True)
    }


def joint(table: dict[str, np.ndarray]) -> np.ndarray:
    columns = canonical(DOMAIN.columns)
    counts = np.zeros(DOMAIN.shape(columns), dtype=np.int64)
    np.add.at(counts, tuple(table[c] for c in columns), 1)
    return counts


def test_features_have_norm_one_and_mark_the_levels() -> None:
    table = rows(np.random.default_rng(0), 20)
    phi = one_hot(table, DOMAIN).toarray()
    assert np.allclose(np.square(phi).sum(axis=1), 1)
    assert np.array_equal(phi[:, :2].argmax(axis=1), table["b"])
    assert np.array_equal(phi[:, 2:5].argmax(axis=1), table["a"])


def test_the_regression_is_solved_as_a_general_optimiser_solves_it() -> None:
    rng = np.random.default_rng(1)
    private, public = (one_hot(rows(rng, n), DOMAIN) for n in (80, 50))
    times, weights = np.ones(80), np.full(50, 80 / 50)

    def objective(beta: np.ndarray) -> float:
        return float(
            np.log1p(np.exp(-private @ beta)).sum()
            + weights @ np.log1p(np.exp(public @ beta))
            + 2.0 * beta @ beta
        )

    expected = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-7}).x
    beta = minimised(private, times, public, weights, ridge=4.0)
    assert np.linalg.norm(beta - expected) <= SLACK / 4.0 + 1e-5


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(Neighbours)), st.integers(1, 2))
def test_one_person_moves_the_coefficients_by_no_more_than_is_declared(
    seed: int, neighbours: Neighbours, most: int
) -> None:
    rng = np.random.default_rng(seed)
    unit = Unit(neighbours, most)
    table = rows(rng, 30)
    extra = rows(rng, most if neighbours is Neighbours.REPLACE else 0)
    other = {c: np.concatenate([v[most:], extra[c]]) for c, v in table.items()}
    public = PublicTable.from_codes(rows(rng, 20), DOMAIN).start(30.0)
    regression = Regression(public, 0.05 * 30, unit)
    here, there = (regression.of([joint(t)]) for t in (table, other))
    assert int(np.square(here - there).sum()) <= regression.l2_squared(unit)


def test_weights_move_the_public_table_towards_the_private_one() -> None:
    rng = np.random.default_rng(2)
    n = 20_000
    private = {"a": rng.choice(3, n, p=[0.7, 0.2, 0.1]), "b": rng.integers(0, 2, n)}
    public = {"a": rng.choice(3, n, p=[0.2, 0.3, 0.5]), "b": rng.integers(0, 2, n)}
    release = fit(
        private,
        Schema.coded("toy", {"a": 3, "b": 2}),
        workload="all-2way",
        mechanism=JiElkan(strength=0.005),
        public=public,
        epsilon=5.0,
        delta=1e-8,
        seed=0,
    )
    shares = release.marginal(("a",)) / release.model.total
    assert np.abs(shares - [0.7, 0.2, 0.1]).max() < 0.1
    assert [e["event"] for e in release.log if e["event"] != "intent"] == ["measure", "statistic"]


def test_a_domain_that_is_too_large_is_refused() -> None:
    levels = {f"c{i}": 10 for i in range(9)}
    schema = Schema.coded("wide", levels)
    table = {c: np.arange(10) for c in levels}
    with pytest.raises(ResourceError, match=r"1.00e\+9 of them.*Use pmw-pub"):
        fit(
            table,
            schema,
            workload="all-2way",
            mechanism=JiElkan(),
            public=table,
            epsilon=1,
            delta=1e-8,
        )


def test_a_strength_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="strength must be positive"):
        JiElkan(strength=0.0)
