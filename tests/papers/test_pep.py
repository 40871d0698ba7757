"""PEP against Algorithm 4 spelled out (Liu, Vietri and Wu 2021, C.2) and a convex solver."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families.entropy_projection import EntropyProjection, ExactProjection
from admeasure.families.explicit import ExplicitModel
from admeasure.families.support import Records, SupportModel
from admeasure.measurement import Measurement
from admeasure.mechanisms.pep import Pep
from admeasure.queries import Cell, Marginal, ThresholdCell
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

DOMAIN = Domain(("b", "a", "c"), (2, 3, 2))
RECORDS = list(product(range(2), range(3), range(2)))
TOTAL = 200.0
QUERIES = [
    Cell(["a", "b"], [1, 0]),
    Cell(["c"], [1]),
    ThresholdCell(["a", "b", "c"], 2, [2, 1, 1]),
    Cell(["a"], [2]),
]


def counted(query: Cell | ThresholdCell, record: tuple[int, ...]) -> bool:
    value = dict(zip(DOMAIN.columns, record, strict=True))
    agree = sum(value[c] == code for c, code in zip(query.columns, query.codes, strict=True))
    return agree >= getattr(query, "at_least", len(query.columns))


MATRIX = np.array([[counted(q, r) for r in RECORDS] for q in QUERIES], dtype=float)


def start_on(family: str, rng: np.random.Generator):
    weights = rng.dirichlet(np.ones(len(RECORDS)))
    if family == "explicit":
        return ExplicitModel(DOMAIN, weights.reshape(DOMAIN.levels), TOTAL)
    codes = dict(zip(DOMAIN.columns, np.array(RECORDS, np.uint8).T, strict=True))
    return SupportModel(Records(codes, DOMAIN), weights, TOTAL)


def log_of(shares: np.ndarray) -> list[Measurement]:
    return [
        Measurement(q, np.asarray(round(a * TOTAL)), 1.0)
        for q, a in zip(QUERIES, shares, strict=True)
    ]


def algorithm_4(d: np.ndarray, a: np.ndarray, steps: int, gamma: float) -> np.ndarray:
    """The pseudo-code, with a matrix of all queries on all records."""
    for _ in range(steps):
        q = MATRIX @ d
        i = int(np.argmax(np.abs(a - q)))
        if abs(a[i] - q[i]) <= gamma:
            break
        minus_lambda = math.log(a[i] * (1 - q[i]) / ((1 - a[i]) * q[i]))
        d = d * np.exp(minus_lambda * MATRIX[i])
        d = d / d.sum()
    return d


@pytest.mark.parametrize("family", ["explicit", "support"])
@pytest.mark.parametrize(("steps", "gamma"), [(1, 0.0), (7, 0.0), (25, 0.0), (25, 0.03)])
def test_the_update_is_algorithm_4(family: str, steps: int, gamma: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = start_on(family, rng)
        log = log_of(rng.uniform(0.05, 0.95, len(QUERIES)))
        a = np.array([float(m.values) / TOTAL for m in log])
        updated = EntropyProjection(start, steps, gamma).update(start, log)
        expected = algorithm_4(start.weights.ravel(), a, steps, gamma)
        assert np.allclose(updated.weights.ravel(), expected, rtol=0, atol=1e-10)


def test_answers_outside_of_0_and_1_are_cut_half_a_row_inside() -> None:
    start = start_on("explicit", np.random.default_rng(1))
    for value, expected in ((-40, 0.5 / TOTAL), (300, 1 - 0.5 / TOTAL)):
        log = [Measurement(QUERIES[0], np.asarray(value), 1.0)]
        updated = EntropyProjection(start, 1).update(start, log)
        (table,) = updated.marginals([QUERIES[0].columns])
        assert float(QUERIES[0].answer(table)) / TOTAL == pytest.approx(expected)


def test_projecting_on_a_whole_marginal_makes_it_agree() -> None:
    rng = np.random.default_rng(2)
    start = start_on("support", rng)
    wanted = rng.multinomial(int(TOTAL), rng.dirichlet(np.ones(6))).reshape(3, 2)
    log = [Measurement(Marginal(["a", "c"]), wanted, 1.0)]
    updated = EntropyProjection(start, 1).update(start, log)
    (table,) = updated.marginals([("a", "c")])
    assert np.allclose(table, wanted, atol=0.1)  # a hundredth of a row is left in every cell


def test_a_query_that_no_record_satisfies_is_left_alone() -> None:
    codes = {c: np.array([0, 1]) for c in DOMAIN.columns}
    start = SupportModel(Records(codes, DOMAIN), np.array([0.3, 0.7]), TOTAL)
    log = [
        Measurement(Cell(["a"], [2]), np.asarray(90), 1.0),
        Measurement(Cell(["a"], [0]), np.asarray(100), 1.0),
    ]
    updated = EntropyProjection(start, 25).update(start, log)
    assert np.allclose(updated.weights, [0.5, 0.5])


def entropy_projection(start: np.ndarray, a: np.ndarray, gamma: float) -> np.ndarray:
    """Minimise RE(D || U) under the constraints, by a general solver for constrained problems."""
    constraints = [{"type": "eq", "fun": lambda d: d.sum() - 1}]
    if gamma:
        constraints += [
            {"type": "ineq", "fun": lambda d, s=s: gamma - s * (MATRIX @ d - a)} for s in (1, -1)
        ]
    else:
        constraints.append({"type": "eq", "fun": lambda d: MATRIX @ d - a})
    found = minimize(
        lambda d: float(np.sum(d * np.log(np.maximum(d, 1e-300) / start))),
        start,
        jac=lambda d: np.log(np.maximum(d, 1e-300) / start) + 1,
        method="SLSQP",
        bounds=[(1e-12, 1)] * start.size,
        constraints=constraints,
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    # 8: no step improves it any more, which is where it stands at the optimum of so fine an ftol
    assert found.status in (0, 8)
    assert np.abs(MATRIX @ found.x - a).max() <= gamma + 1e-8
    return found.x


@pytest.mark.parametrize("family", ["explicit", "support"])
@pytest.mark.parametrize("gamma", [0.0, 0.02])
def test_the_dual_finds_the_point_that_a_convex_solver_finds(family: str, gamma: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(3):
        start = start_on(family, rng)
        target = MATRIX @ rng.dirichlet(np.ones(len(RECORDS)))  # some distribution reaches it
        log = log_of(target)
        a = np.array([float(m.values) / TOTAL for m in log])
        exact = ExactProjection(start, gamma).update(start, log)
        expected = entropy_projection(start.weights.ravel(), a, gamma)
        assert np.allclose(exact.weights.ravel(), expected, rtol=0, atol=1e-5)


def test_many_projections_reach_the_same_point_as_the_dual_wherever_a_round_begins() -> None:
    rng = np.random.default_rng(4)
    start = start_on("explicit", rng)
    log = log_of(MATRIX @ rng.dirichlet(np.ones(len(RECORDS))))
    exact = ExactProjection(start).update(start, log)
    model = start
    for t in range(1, len(log) + 1):
        model = EntropyProjection(start, 2000, begin="last").update(model, log[:t])
    anew = EntropyProjection(start, 2000, begin="start").update(model, log)
    assert np.allclose(model.weights, exact.weights, atol=1e-6)
    assert np.allclose(anew.weights, exact.weights, atol=1e-6)


def test_answers_that_contradict_each_other_leave_a_distribution() -> None:
    start = start_on("explicit", np.random.default_rng(5))
    log = [
        Measurement(Cell(["a"], [0]), np.asarray(150), 1.0),
        Measurement(Cell(["a"], [1]), np.asarray(150), 1.0),
    ]
    for family in (EntropyProjection(start, 25), ExactProjection(start)):
        weights = family.update(start, log).weights
        assert np.isfinite(weights).all()
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("options", [{"steps": 0}, {"rounds": 0}, {"gamma": -0.1}, {"gamma": 1.0}])
def test_an_option_that_makes_no_sense_is_refused(options) -> None:
    with pytest.raises(UsageError):
        Pep(**options)


@pytest.mark.parametrize("solver", ["projection", "dual"])
@pytest.mark.parametrize("measure", ["cells", "marginals"])
def test_a_large_budget_gives_the_table_back(solver, measure) -> None:
    rng = np.random.default_rng(6)
    a = rng.choice(3, 3000, p=[0.7, 0.2, 0.1])
    table = {"a": a, "b": (a + rng.integers(0, 2, 3000)) % 3, "c": rng.integers(0, 2, 3000)}
    schema = Schema.coded("toy", {"a": 3, "b": 3, "c": 2})
    release = fit(
        table,
        schema,
        workload="all-2way",
        mechanism=Pep(rounds=20 if measure == "cells" else 6, measure=measure, solver=solver),
        epsilon=100.0,
        delta=1e-6,
        seed=0,
    )
    true = np.zeros((3, 3))
    np.add.at(true, (table["a"], table["b"]), 1)
    assert np.abs(true - release.marginal(("a", "b"))).max() < 0.01 * 3000
