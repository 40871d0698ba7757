"""DualQuery (Gaboardi et al. 2014): the oracle, the sampling law's budget, the records."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.mechanisms.dualquery import DualQuery
from admeasure.parts.oracle import Found, Oracle, conditions
from admeasure.privacy.convert import rho_of
from admeasure.privacy.scores.score import GRID
from admeasure.privacy.scores.signed import SignedError, negation
from admeasure.queries import AtLeast, Cell, Marginal, Query, Threshold, ThresholdCell
from admeasure.schema import Schema, Zero
from admeasure.unit import Unit
from admeasure.verbs.fit import fit

LEVELS = {"a": 3, "b": 2, "c": 3, "e": 1}
DOMAIN = Domain.of(LEVELS)
LARGE = Domain.of({"a": 2000, "b": 2000})
RECORDS = [dict(zip(LEVELS, r, strict=True)) for r in product(*map(range, LEVELS.values()))]
SOLVERS = ["enumeration", "cp-sat", "highs"]

mask = np.zeros((3, 2), bool)
mask[:2, 1] = True
PRODUCT = Zero(("a", "b"), mask)
scattered = np.zeros((2, 3), bool)
scattered[0, 1] = scattered[1, 2] = True
SCATTERED = Zero(("b", "c"), scattered)


def counted(query: Query, record: dict[str, int]) -> bool:
    table = np.zeros(DOMAIN.shape(query.columns), dtype=np.int64)
    table[tuple(record[c] for c in query.columns)] = 1
    return bool(query.answer(table))


def random_query(rng: np.random.Generator) -> Query:
    columns = sorted(rng.choice(["a", "b", "c"], size=rng.integers(1, 4), replace=False))
    codes = [int(rng.integers(LEVELS[c])) for c in columns]
    shape = DOMAIN.shape(columns)
    match int(rng.integers(4)):
        case 0:
            return Cell(columns, codes)
        case 1:
            return ThresholdCell(columns, int(rng.integers(1, len(columns) + 1)), codes)
        case 2:
            return negation(Marginal(columns), codes, shape)
    return negation(Threshold(columns, int(rng.integers(1, len(columns) + 1))), codes, shape)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("zeros", [(), (PRODUCT,), (PRODUCT, SCATTERED)])
def test_the_oracle_finds_the_best_record_of_all(solver, zeros) -> None:
    if solver == "cp-sat":
        pytest.importorskip("ortools")
    rng = np.random.default_rng(0)
    oracle = Oracle(DOMAIN, zeros, seconds=20, solver=solver)
    allowed = [r for r in RECORDS if not any(z.mask[tuple(r[c] for c in z.columns)] for z in zeros)]
    for _ in range(15):
        queries = {random_query(rng): float(rng.integers(1, 5)) for _ in range(8)}
        costs = (
            {c: rng.exponential(2.0, n) for c, n in LEVELS.items()} if rng.random() < 0.5 else {}
        )

        def cost(record, queries=queries, costs=costs) -> float:
            return sum(w * counted(q, record) for q, w in queries.items()) + sum(
                float(v[record[c]]) for c, v in costs.items()
            )

        found = oracle.best(queries, costs)
        assert found is not None
        assert found.proved
        whole = {c: found.codes.get(c, 0) for c in LEVELS}
        assert not any(z.mask[tuple(whole[c] for c in z.columns)] for z in zeros)
        assert cost(whole) == pytest.approx(min(map(cost, allowed)), abs=0.01)


def test_conditions_say_the_same_as_the_query() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        query = random_query(rng)
        assert len(conditions(query)[0]) == len(query.columns)
        for record in RECORDS:
            parts, r = conditions(query)
            holds = sum(record[c] in allowed for c, allowed in parts) >= r
            assert holds == counted(query, record)


@pytest.mark.parametrize("query", [Marginal(["a", "b"]), Threshold(["a", "b", "c"], 2)])
def test_a_query_and_its_negation_count_every_record_between_them(query) -> None:
    shape = DOMAIN.shape(query.columns)
    for codes in product(*map(range, shape)):
        target, other = query.cell(codes), negation(query, codes, shape)
        assert all(counted(target, r) != counted(other, r) for r in RECORDS)


def test_a_column_of_one_level_plays_no_part_in_a_negation() -> None:
    assert negation(Marginal(["a", "e"]), [1, 0], (3, 1)) == AtLeast(["a"], [(0, 2)], 1)
    score = SignedError({Marginal(["e"]): np.array([3.0])})
    assert score.of(Marginal(["e"]), np.array([5])).tolist() == [-2 * GRID]


def test_scores_are_signed_errors_of_all_answers_so_far() -> None:
    query = Marginal(["b"])
    score = SignedError({query: np.array([30.0, 10.0])}, times=4)
    assert score.of(query, np.array([5, 3])).tolist() == [
        x * GRID for x in (30 - 20, 10 - 12, -(30 - 20), -(10 - 12))
    ]
    assert score.sensitivity(Unit(max_rows=3)) == 12 * GRID
    assert score.chosen(query, 1) == Cell(["b"], [1])
    assert score.chosen(query, 2) == AtLeast(["b"], [(1,)], 1)


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    a = rng.choice(3, 5000, p=[0.6, 0.3, 0.1])
    b = (a > rng.integers(0, 2, 5000)).astype(int)
    return {"a": a, "b": b, "c": (a + b) % 3, "e": np.zeros(5000, int)}


def fitted(table, **options):
    return fit(
        table,
        Schema.coded("toy", LEVELS),
        workload="all-2way",
        mechanism=DualQuery(**options),
        epsilon=1.0,
        delta=1e-8,
        seed=0,
    )


def test_the_records_answer_better_than_uniform_ones(table) -> None:
    release = fitted(table, rounds=40, samples=20)
    true = np.zeros((3, 2))
    np.add.at(true, (table["a"], table["b"]), 1)
    error = np.abs(release.marginal(("a", "b")) / release.model.total - true / 5000).max()
    assert error < np.abs(1 / 6 - true / 5000).max() / 2


def test_each_round_costs_what_the_multiplicative_weights_cost_and_all_the_budget_is_used(
    table,
) -> None:
    """ρ = s η² m² (T-1) T (2T-1) / (12 n²) for one η in all rounds, up to the rounding of ε."""
    s, T = 5, 6
    release = fitted(table, rounds=T, samples=s)
    choices = [e for e in release.log if e["event"] == "choose"]
    assert len(choices) == s * (T - 1)  # the first round's samples are uniform and free
    n = release.model.total
    etas = [
        e["epsilon"] * n / (2 * e["sensitivity"] / GRID) for e in choices
    ]  # ε = 2 η Δ / n with Δ = t - 1
    assert np.ptp(etas) < 1e-9 * etas[0]
    spent = sum(Fraction(e["rho"]) for e in choices)
    assert float(spent) == pytest.approx(
        s * etas[0] ** 2 * (T - 1) * T * (2 * T - 1) / (12 * n**2), rel=1e-9
    )
    assert release.certificate.rho_spent == pytest.approx(rho_of(1.0, 1e-8))
    assert [e["sensitivity"] // GRID for e in choices] == [t for t in range(1, T) for _ in range(s)]


def test_the_number_of_rounds_follows_from_eta(table) -> None:
    release = fitted(table, samples=10, eta=20.0)
    choices = [e for e in release.log if e["event"] == "choose"]
    n = release.model.total
    eta = choices[-1]["epsilon"] * n / (2 * choices[-1]["sensitivity"] / GRID)
    assert math.isclose(eta, 20.0, rel_tol=0.5)


class Late(Oracle):
    """A solver that finds nothing from its third call on."""

    calls: list[int]

    def best(self, queries, costs=None, rng=None) -> Found | None:
        object.__setattr__(self, "count", getattr(self, "count", 0) + 1)
        return super().best(queries, costs, rng) if self.count < 3 else None  # type: ignore[attr-defined]


def test_a_solver_that_finds_nothing_in_time_ends_the_run_and_saves_the_rest_of_the_budget(
    table, monkeypatch
) -> None:
    monkeypatch.setattr("admeasure.parts.records.Oracle", Late)
    release = fitted(table, rounds=10, samples=3)
    assert release.facts["rounds"] == 2
    assert release.certificate.rho_spent < 0.3 * release.certificate.rho
    assert any("ended in round 3" in note for note in release.certificate.notes)


def test_a_solver_that_never_finds_anything_is_an_error_before_any_choice_is_charged(
    table, monkeypatch
) -> None:
    monkeypatch.setattr(Oracle, "best", lambda *_, **__: None)
    with pytest.raises(ResourceError, match=r"no record in 5 seconds\. Nothing but the number"):
        fitted(table, rounds=10, samples=3)


def test_calls_that_hit_their_limit_are_told(table, monkeypatch) -> None:
    plain = Oracle.best

    def hurried(self, queries, costs=None, rng=None):
        found = plain(self, queries, costs, rng)
        return found and Found(found.codes, proved=False)

    monkeypatch.setattr(Oracle, "best", hurried)
    release = fitted(table, rounds=3, samples=2)
    assert any("3 of 3 calls" in note for note in release.certificate.notes)


def test_a_solver_that_is_not_installed_is_a_clear_error(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(UsageError, match="needs OR-tools"):
        _ = Oracle(DOMAIN, (), solver="cp-sat").engine
    assert Oracle(LARGE, ()).engine == "highs"


def test_all_records_are_compared_where_the_domain_is_small_enough() -> None:
    assert Oracle(DOMAIN, ()).engine == "enumeration"
    assert Oracle(LARGE, ()).engine != "enumeration"
    with pytest.raises(UsageError, match="looks at every record"):
        _ = Oracle(LARGE, (), solver="enumeration").engine


def test_equally_good_records_are_drawn_evenly_where_all_are_compared() -> None:
    """12 of 18 records satisfy nothing; χ² with 11 degrees of freedom passes 40 once in 28,000."""
    oracle = Oracle(DOMAIN, (), solver="enumeration")
    rng = np.random.default_rng(0)
    drawn = [oracle.best({Cell(["a"], [1]): 1.0}, rng=rng) for _ in range(1200)]
    places = [tuple(found.codes.values()) for found in drawn if found is not None]
    times = np.unique(np.array(places), axis=0, return_counts=True)[1]
    assert times.size == 12
    assert ((times - 100) ** 2 / 100).sum() < 40


def test_where_no_record_can_occur_none_is_found() -> None:
    nothing = Zero(("b",), np.ones(2, bool))
    assert Oracle(DOMAIN, (nothing,), solver="enumeration").best({}) is None


@pytest.mark.parametrize("options", [{"samples": 0}, {"eta": 0.0}, {"seconds": 0.0}])
def test_an_option_that_makes_no_sense_is_refused(options) -> None:
    with pytest.raises(UsageError):
        DualQuery(**options)
