"""ResidualPlanner (Xiao, He, Zhang and Kifer 2023): optimal noise, answers without bias, and the
numbers of the paper."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2, norm

from admeasure.domain import Columns, Domain
from admeasure.errors import ResourceError, WorkloadError
from admeasure.families.answers import AnswersModel
from admeasure.families.residuals import Residuals, query_of
from admeasure.measurement import Measurement
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Marginal, Residual
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.workload import Workload, parse_workload

ADULT = Domain.of(
    {
        f"c{i:02}": levels
        for i, levels in enumerate((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2))
    }
)
"""The 14 columns of the paper's experiments."""
UNIT_COST = Zcdp(Fraction(1, 2))
"""Noise of variance 1 on a number that one row changes by 1."""
ADD, REPLACE = Unit(), Unit(Neighbours.REPLACE)


def subsets(columns: Columns) -> list[Columns]:
    return list(chain.from_iterable(combinations(columns, k) for k in range(len(columns) + 1)))


def residual_noise(domain, workload, objective, unit=ADD) -> dict[Columns, float]:
    """σ_B² of each residual in rows, by what the mechanism says it will spend."""
    mechanism = build("residual", {"objective": objective})
    found = {}
    for item in mechanism.divide(Task(domain, workload, (), unit), UNIT_COST, 1000.0).items:
        part = item.what.removeprefix("residual of ")
        columns = () if part == "number of rows" else tuple(part.split(", "))
        assert item.sigma is not None
        found[columns] = (item.sigma / domain.cells(columns)) ** 2
    return found


def cell_variance(domain, noise, columns) -> float:
    """The paper's formula, which `test_…_dense_…` below compares with matrices."""
    return sum(
        noise[part]
        * math.prod(1 - 1 / domain[c] if c in part else 1 / domain[c] ** 2 for c in columns)
        for part in subsets(columns)
    )


def gaussian_variances(domain, workload, unit=ADD) -> dict[Columns, float]:
    items = build("gaussian").divide(Task(domain, workload, (), unit), UNIT_COST, 1000.0).items
    found = {tuple(i.what.removeprefix("marginal of ").split(", ")): i.sigma for i in items}
    return {r: sigma**2 for r, sigma in found.items() if sigma is not None}


@pytest.mark.parametrize(("ways", "printed"), [(1, 3.05), (2, 6.36), (3, 10.52)])
def test_root_mean_squared_errors_on_adult_are_those_of_the_paper(ways, printed):
    workload = parse_workload(f"all-{ways}way", ADULT)
    noise = residual_noise(ADULT, workload, "sum")
    cells = {r: ADULT.cells(r) for r in workload.marginals()}
    total = sum(n * cell_variance(ADULT, noise, r) for r, n in cells.items())
    assert math.sqrt(total / sum(cells.values())) == pytest.approx(printed, rel=0.01)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=["add-remove", "replace"])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_on_adult_noise_is_below_that_of_plain_marginals(ways, unit):
    """The sum of squares, the expected L1 error, for which `gaussian` divides its budget, and for
    "max" the largest variance."""
    workload = parse_workload(f"all-{ways}way", ADULT)
    marginals = workload.marginals()
    plain = gaussian_variances(ADULT, workload, unit)
    ours = {
        objective: {
            r: cell_variance(ADULT, noise, r)
            for noise in [residual_noise(ADULT, workload, objective, unit)]
            for r in marginals
        }
        for objective in ("sum", "max")
    }

    def squares(variances):
        return sum(ADULT.cells(r) * variances[r] for r in marginals)

    assert squares(ours["sum"]) < squares(plain)
    assert squares(ours["sum"]) < squares(ours["max"])
    assert max(ours["max"].values()) < max(ours["sum"].values())
    assert max(ours["max"].values()) < max(plain.values())

    def expected(mechanism):
        found = (
            build(mechanism).plan(Task(ADULT, workload, (), unit), UNIT_COST, 10**9).expected_error
        )
        assert found is not None
        return found

    assert expected("residual") < expected("gaussian")


def dense(domain: Domain, columns: Columns, kept, dropped) -> np.ndarray:
    """A Kronecker product over all columns of the domain."""
    return reduce(
        np.kron, [(kept if c in columns else dropped)(domain[c]) for c in domain.columns], np.eye(1)
    )


def ones_row(n: int) -> np.ndarray:
    return np.ones((1, n))


@st.composite
def small_cases(draw):
    levels = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    domain = Domain.of({"abc"[i]: n for i, n in enumerate(levels)})
    sets = st.sampled_from(subsets(domain.columns)[1:])
    workload = Workload(
        {Marginal(r): draw(st.floats(0.1, 10)) for r in draw(st.sets(sets, min_size=1))}
    )
    return domain, workload, draw(st.integers(0, 2**32))


@settings(max_examples=30, deadline=None)
@given(small_cases())
def test_answers_and_variances_are_those_of_dense_least_squares(case):
    """Weighted least squares on all that was measured, over the whole domain, has the same answers;
    its covariance has the same diagonal and largest eigenvalue."""
    domain, workload, seed = case
    rng = np.random.default_rng(seed)
    closure = {p for r in workload.marginals() for p in subsets(r)}
    log, rows, noisy = [], [], []
    for part in sorted(closure):
        if any(domain[c] == 1 for c in part):
            continue
        sigma = float(rng.uniform(0.5, 20))
        values = rng.integers(-1000, 1000, domain.shape(part))
        log.append(Measurement(query_of(part), values, sigma))
        rows.append(dense(domain, part, lambda n: n * np.eye(n) - 1, ones_row) / sigma)
        noisy.append(values.ravel() / sigma)
    residuals = Residuals.of(domain, log)
    whole = np.vstack(rows)
    inverse = np.linalg.pinv(whole.T @ whole)
    x = inverse @ whole.T @ np.concatenate(noisy)
    for r in closure:
        marginal = dense(domain, r, np.eye, ones_row)
        assert residuals.hold(r)
        assert np.allclose(residuals.table(r).ravel(), marginal @ x, atol=1e-6)
        covariance = marginal @ inverse @ marginal.T
        assert np.allclose(np.diag(covariance), residuals.variance(r), rtol=1e-6)
        largest = float(np.linalg.eigvalsh(covariance).max())
        assert residuals.largest_variance(r, lambda s: s * s) == pytest.approx(largest)


@settings(max_examples=15, deadline=None)
@given(small_cases(), st.sampled_from([ADD, REPLACE]))
def test_no_other_division_of_the_budget_is_better(case, unit):
    """A general solver, on the logarithms of the variances, for both objectives."""
    domain, workload, _ = case
    parts = list(residual_noise(domain, workload, "sum", unit))
    prices = np.array(
        [query_of(p).sensitivity(domain, unit).l2_squared / domain.cells(p) ** 2 for p in parts]
    )
    marginals = workload.marginals()
    weight = np.array([workload.weight(Marginal(r)) for r in marginals])
    cells = np.array([domain.cells(r) for r in marginals])
    zero = dict.fromkeys({p for r in marginals for p in subsets(r)}, 0.0)
    unit_noise = [{**zero, p: 1.0} for p in parts]
    table = np.array([[cell_variance(domain, one, r) for one in unit_noise] for r in marginals])

    def spent(u):
        return float(np.sum(prices / u))

    for objective in ("sum", "max"):
        ours = np.array(list(residual_noise(domain, workload, objective, unit).values()))
        assert spent(ours) <= 1 + 1e-9

        def loss(u, objective=objective):
            variances = weight * (table @ u)
            return float(variances @ cells if objective == "sum" else variances.max())

        if objective == "sum":
            # Scaled to the budget, so that nothing is left to constrain.
            found = minimize(
                lambda v: math.log(loss(np.exp(v)) * spent(np.exp(v))), np.log(ours) * 0
            )
            best = math.exp(found.fun)
        else:
            start = np.full(len(parts), len(parts) * prices.max())
            found = minimize(
                lambda v: v[-1],
                [*np.log(start), math.log(loss(start))],
                method="SLSQP",
                constraints=[
                    {
                        "type": "ineq",
                        "fun": lambda v: v[-1] - np.log(weight * (table @ np.exp(v[:-1]))),
                    },
                    {"type": "ineq", "fun": lambda v: -math.log(spent(np.exp(v[:-1])))},
                ],
                options={"maxiter": 1000, "ftol": 1e-12},
            )
            best = math.exp(found.fun)
        assert loss(ours) <= best * (1 + 1e-4)
        assert loss(ours) >= best * (1 - 1e-3) or not found.success


@pytest.mark.parametrize("levels", [(2,), (5,), (3, 4), (2, 3, 4), (7, 2, 2, 3)], ids=str)
def test_whole_numbers_cost_what_the_paper_charges_for_real_ones(levels):
    """Π (1 - 1/n) for noise of variance 1 on the residual, exactly."""
    domain = Domain.of({"abcd"[i]: n for i, n in enumerate(levels)})
    found = Fraction(Residual(domain.columns).sensitivity(domain, ADD).l2_squared)
    assert found / domain.cells() ** 2 == math.prod(1 - Fraction(1, n) for n in levels)


def test_a_residual_is_the_matrix_of_its_definition_in_whole_numbers():
    domain = Domain.of({"a": 3, "b": 2, "c": 4})
    counts = np.random.default_rng(0).integers(0, 50, domain.shape("abc"))
    query = Residual(domain.columns)
    matrix = dense(domain, query.columns, lambda n: n * np.eye(n) - 1, ones_row).astype(int)
    answer = query.answer(counts)
    assert answer.dtype == np.int64
    assert np.array_equal(answer.ravel(), matrix @ counts.ravel())
    assert np.array_equal(query.spread(answer, domain).ravel(), matrix.T @ answer.ravel())
    with pytest.raises(WorkloadError, match="at least one column"):
        Residual(())


LEVELS = {"a": 3, "b": 2, "c": 4}
CODES = {
    c: np.random.default_rng(i).integers(0, n, 40) ** 2 // n
    for i, (c, n) in enumerate(LEVELS.items())
}


@pytest.mark.statistical
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_answers_have_no_bias_and_the_variance_that_is_stated(objective):
    """Each cell over 300 runs: the mean by a normal test, the variance by a chi-squared one, each
    at 1e-9 to either side. With 35 cells false alarms are below 2e-7."""
    schema = Schema.coded("toy", LEVELS)
    source = MemorySource.from_codes(CODES, schema)
    workload = parse_workload("all-2way", schema.domain)
    truth = dict(zip(workload.closure(), source.counts(workload.closure()), strict=True))
    runs, off, stated = 300, {r: [] for r in truth}, {}
    for seed in range(runs):
        curator = Curator(source, Ledger(Fraction(1, 10)), SeededNoise(seed))
        mechanism = build("residual", {"objective": objective})
        model = mechanism.run(Task.of(schema, workload), curator).model
        assert isinstance(model, AnswersModel)
        stated = model.variances
        for r, answer in zip(truth, model.marginals(list(truth)), strict=True):
            off[r].append(answer - truth[r])
    noise = {p: v * 5 for p, v in residual_noise(schema.domain, workload, objective).items()}
    for r, errors in off.items():
        variance = cell_variance(schema.domain, noise, r)
        drawn = np.array(errors)
        assert (np.abs(drawn.mean(0)) <= norm.isf(1e-9) * math.sqrt(variance / runs)).all(), r
        squares = (drawn**2).sum(0) / variance
        assert (chi2.ppf(1e-9, runs) <= squares).all(), r
        assert (squares <= chi2.isf(1e-9, runs)).all(), r
        if r in stated:
            assert stated[r] == pytest.approx(variance)
    assert set(stated) == set(workload.marginals())


def test_answers_that_are_not_negative_are_the_nearest_to_those_without_bias():
    """In least squares, of all tables with the noisy number of rows; a general solver's are as
    near."""
    schema = Schema.coded("toy", LEVELS)
    source = MemorySource.from_codes(CODES, schema)
    workload = parse_workload("all-2way", schema.domain)
    made = {}
    for answers in ("unbiased", "nonnegative"):
        curator = Curator(source, Ledger(Fraction(1, 1000)), SeededNoise(1))
        mechanism = build("residual", {"answers": answers})
        made[answers] = mechanism.run(Task.of(schema, workload), curator).model
    total = made["unbiased"].total
    assert min(t.min() for t in made["unbiased"].tables.values()) < 0
    for r, table in made["nonnegative"].tables.items():
        free = made["unbiased"].tables[r].ravel()
        assert table.min() >= 0
        assert table.sum() == pytest.approx(total)
        found = minimize(
            lambda v, free=free: float(((v - free) ** 2).sum()),
            np.full(free.size, total / free.size),
            bounds=[(0, None)] * free.size,
            constraints={"type": "eq", "fun": lambda v: v.sum() - total},
            method="SLSQP",
        )
        assert np.allclose(found.x, table.ravel(), atol=1e-2 * total)


def test_too_much_is_refused_by_what_can_be_had():
    domain = Domain.of({"a": 5000, "b": 5000})
    with pytest.raises(ResourceError, match="residuals are measured of at most"):
        build("residual").check(Task(domain, Workload([Marginal(domain.columns)]), (), ADD))
    binary = Domain.of({f"c{i:02}": 2 for i in range(20)})
    with pytest.raises(ResourceError, match="131,072 residuals"):
        build("residual").check(Task(binary, Workload([Marginal(binary.columns)]), (), ADD))
