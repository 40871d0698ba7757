"""MWEM against a literal transcription of Hardt, Ligett and McSherry (2012), Figure 1, on every
cell of a domain and on a list of records, with the reuse of past queries of PMW-Pub."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.families.explicit import ExplicitModel
from admeasure.families.reweighting import MultiplicativeWeights, Reweighted, average
from admeasure.families.support import Records, SupportModel
from admeasure.measurement import Measurement
from admeasure.mechanisms.mwem import Mwem
from admeasure.queries import Cell, Marginal, Query, Threshold, ThresholdCell
from admeasure.schema import Schema
from admeasure.verbs.fit import fit

DOMAIN = Domain(("b", "a", "c"), (2, 3, 2))  # not in alphabetical order, on purpose
ALL_RECORDS = list(product(range(2), range(3), range(2)))
TOTAL = 50.0
FAMILIES = ["explicit", "support"]


def model_on(family: str, rng: np.random.Generator) -> tuple[Reweighted, list[tuple[int, ...]]]:
    """A random distribution, and its records in the order of its weights."""
    if family == "explicit":
        weights = rng.dirichlet(np.ones(len(ALL_RECORDS))).reshape(DOMAIN.levels)
        return ExplicitModel(DOMAIN, weights, TOTAL), ALL_RECORDS
    records = [ALL_RECORDS[i] for i in rng.permutation(len(ALL_RECORDS))[:8]]
    codes = dict(zip(DOMAIN.columns, np.array(records, np.uint8).T, strict=True))
    weights = rng.dirichlet(np.ones(len(records)))
    return SupportModel(Records(codes, DOMAIN), weights, TOTAL), records


def holds(query: Query, record: tuple[int, ...]) -> list[tuple[tuple[int, ...], bool]]:
    """The query's cells and whether the record counts in each, spelled out."""
    value = dict(zip(DOMAIN.columns, record, strict=True))
    mine = tuple(value[c] for c in query.columns)
    match query:
        case Cell(codes=codes):
            return [((), mine == codes)]
        case ThresholdCell(codes=codes, at_least=r):
            return [((), sum(x == y for x, y in zip(mine, codes, strict=True)) >= r)]
        case Marginal():
            cells = product(*(range(n) for n in DOMAIN.shape(query.columns)))
            return [(cell, cell == mine) for cell in cells]
    raise AssertionError(query)


def literal_errors(weights: dict, measurement: Measurement) -> dict:
    """a - q(D) for each cell of the query; a is cut to [0, 1], where every answer lies."""
    believed: dict = {}
    for record, weight in weights.items():
        for cell, counted in holds(measurement.query, record):
            believed[cell] = believed.get(cell, 0.0) + weight * counted
    return {
        cell: min(1.0, max(0.0, float(measurement.values[cell]) / TOTAL)) - believed[cell]
        for cell in believed
    }


def literal_update(weights: dict, query: Query, errors: dict) -> dict:
    """D(x) ∝ D(x) exp(q(x) (a - q(D)) / 2), one record and one cell at a time."""
    grown = {
        record: weight
        * np.exp(sum(counted * errors[cell] / 2 for cell, counted in holds(query, record)))
        for record, weight in weights.items()
    }
    norm = sum(grown.values())
    return {record: weight / norm for record, weight in grown.items()}


QUERIES = [
    Cell(["a", "b"], [1, 0]),
    Marginal(["a", "c"]),
    ThresholdCell(["a", "b", "c"], 2, [2, 1, 1]),
    Marginal(["b"]),
    Cell(["c"], [1]),
]


def measurements(rng: np.random.Generator) -> list[Measurement]:
    return [
        Measurement(q, np.asarray(rng.integers(-5, 60, size=q.shape(DOMAIN))), 1.0) for q in QUERIES
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("newest", range(len(QUERIES)))
def test_updates_with_the_newest_agree_with_the_formula(
    family: str, passes: int, newest: int
) -> None:
    rng = np.random.default_rng(1)
    model, records = model_on(family, rng)
    log = measurements(rng)[: newest + 1]
    updated = MultiplicativeWeights("none", passes).update(model, log)
    expected = dict(zip(records, model.weights.ravel(), strict=True))
    for _ in range(passes):
        expected = literal_update(expected, log[-1].query, literal_errors(expected, log[-1]))
    assert np.allclose(updated.weights.ravel(), list(expected.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("passes", [1, 3])
def test_going_through_all_measurements_agrees_with_the_formula(family: str, passes: int) -> None:
    rng = np.random.default_rng(2)
    model, records = model_on(family, rng)
    log = measurements(rng)
    updated = MultiplicativeWeights("all", passes).update(model, log)
    expected = dict(zip(records, model.weights.ravel(), strict=True))
    for _ in range(passes):
        for m in log:
            expected = literal_update(expected, m.query, literal_errors(expected, m))
    assert np.allclose(updated.weights.ravel(), list(expected.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(5))
def test_past_queries_with_large_errors_are_reused_as_pmw_pub_does(family: str, seed: int) -> None:
    """An update with the newest, then one with each measurement whose error was at least half of
    the newest's, all errors taken at the round's start."""
    rng = np.random.default_rng(seed)
    model, records = model_on(family, rng)
    log = measurements(rng)
    updated = MultiplicativeWeights("large").update(model, log)
    expected = dict(zip(records, model.weights.ravel(), strict=True))
    errors = [literal_errors(expected, m) for m in log]
    sizes = [max(map(abs, e.values())) for e in errors]
    large = [i for i in range(len(log)) if sizes[i] >= sizes[-1] / 2]
    for i in [len(log) - 1, *large]:
        expected = literal_update(expected, log[i].query, errors[i])
    assert np.allclose(updated.weights.ravel(), list(expected.values()), rtol=0, atol=1e-12)


def test_many_queries_of_the_same_records_do_not_overshoot_together() -> None:
    """On two records every conjunction counts the same one. Moved by 84 of them at once, a share of
    0.5 that should be 0.6 goes to 0.99 by the formula, and then back below."""
    names = [f"c{i}" for i in range(9)]
    domain = Domain.of(dict.fromkeys(names, 2))
    both = {name: np.array([0, 1]) for name in names}
    model = SupportModel(Records(both, domain), np.array([0.5, 0.5]), 100.0)
    log = [
        Measurement(Cell(list(columns), [1, 1, 1]), np.asarray(60), 1.0)
        for columns in combinations(names, 3)
    ]
    assert 1 / (1 + np.exp(-(len(log) + 1) * 0.1 / 2)) > 0.98
    for _ in range(5):
        model = MultiplicativeWeights("large").update(model, log)
    assert model.weights[1] == pytest.approx(0.6, abs=1e-6)


def test_a_query_measured_twice_counts_once_with_the_mean_of_its_answers() -> None:
    model = ExplicitModel.uniform(DOMAIN, 100.0)
    query = Cell(["a"], [0])
    twice = [Measurement(query, np.asarray(v), 2.0) for v in (30, 50)]
    once = [Measurement(query, np.asarray(40), 2.0)]
    for reuse in ("none", "large", "all"):
        family = MultiplicativeWeights(reuse)
        both = family.update(model, twice).weights, family.update(model, once).weights
        assert np.allclose(*both, atol=1e-15)


def test_a_query_that_is_answered_too_low_is_raised() -> None:
    model = ExplicitModel.uniform(DOMAIN, total=100.0)
    query = Cell(["a"], [0])
    updated = MultiplicativeWeights().update(model, [Measurement(query, np.asarray(90), 1.0)])
    before, after = (query.answer(m.marginals([("a",)])[0]) for m in (model, updated))
    assert before < after < 90


def test_marginals_and_samples_follow_the_weights() -> None:
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(12)).reshape(DOMAIN.levels)
    model = ExplicitModel(DOMAIN, weights, total=1000.0)
    (table,) = model.marginals([("a", "b")])
    assert np.allclose(table, 1000 * weights.sum(axis=2).T)
    rows = model.sample(1000, rng)
    counts = np.zeros(DOMAIN.levels)
    np.add.at(counts, tuple(rows[c] for c in DOMAIN.columns), 1)
    assert np.abs(counts - 1000 * weights).max() < 1


def test_many_marginals_at_once_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    for family in FAMILIES:
        model, _ = model_on(family, rng)
        wanted = [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("a", "b", "c")]
        together = model.marginals(wanted)
        for columns, table in zip(wanted, together, strict=True):
            assert np.allclose(table, TOTAL * model.project(model.weights, columns), atol=1e-12)
            assert table.shape == DOMAIN.shape(columns)


def test_the_average_is_the_mean_of_the_iterates() -> None:
    models = [ExplicitModel.uniform(DOMAIN, 1.0), ExplicitModel.uniform(DOMAIN, 1.0)]
    models[1].weights[0] = 0.0
    assert np.allclose(average(models).weights, (models[0].weights + models[1].weights) / 2)


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    a = rng.choice(4, 4000, p=[0.6, 0.2, 0.15, 0.05])
    b = (a + rng.choice(4, 4000, p=[0.85, 0.05, 0.05, 0.05])) % 4
    return {"a": a, "b": b, "c": rng.integers(0, 3, 4000)}


def worst_error(table: dict[str, np.ndarray], **options) -> float:
    schema = Schema.coded("toy", {"a": 4, "b": 4, "c": 3})
    release = fit(
        table,
        schema,
        workload="all-2way",
        mechanism=Mwem(**options),
        epsilon=1.0,
        delta=1e-6,
        seed=0,
    )
    errors = []
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        true = np.zeros([schema.domain[c] for c in pair])
        np.add.at(true, (table[pair[0]], table[pair[1]]), 1)
        errors.append(np.abs(true - release.marginal(pair)).max() / 4000)
    return max(errors)


def test_reusing_past_measurements_lowers_the_error(table: dict[str, np.ndarray]) -> None:
    without = worst_error(table, measure="cells", rounds=20, reuse="none")
    assert worst_error(table, measure="cells", rounds=20, reuse="large") < without
    assert worst_error(table, measure="cells", rounds=20, reuse="all", passes=50) < without / 2


def test_a_large_budget_gives_the_table_back(table: dict[str, np.ndarray]) -> None:
    assert worst_error(table, measure="marginals", rounds=6, reuse="all", passes=500) < 0.02


@pytest.mark.parametrize("output", ["last", "average"])
@pytest.mark.parametrize("measure", ["cells", "marginals"])
def test_permute_and_flip_serves_too_and_is_charged_as_pure_dp(
    table: dict[str, np.ndarray], measure, output
) -> None:
    release = fit(
        table,
        Schema.coded("toy", {"a": 4, "b": 4, "c": 3}),
        workload="all-2way",
        mechanism=Mwem(rounds=4, measure=measure, output=output, select="permute-and-flip"),
        epsilon=1.0,
        delta=1e-6,
        seed=0,
    )
    choices = [e for e in release.log if e["event"] == "flip"]
    assert len(choices) == 4
    for event in choices:
        numerator, denominator = map(int, event["rho"].split("/"))
        assert event["epsilon"] ** 2 / 2 == pytest.approx(numerator / denominator)


def test_a_domain_that_is_too_large_is_refused_with_its_size_and_what_fits() -> None:
    schema = Schema.coded("wide", {f"c{i}": 10 for i in range(9)})
    with pytest.raises(ResourceError, match=r"1.00e\+9 cells.*Use aim"):
        fit(
            {c: np.zeros(5, int) for c in schema.domain.columns},
            schema,
            workload="all-2way",
            mechanism=Mwem(),
            epsilon=1,
            delta=1e-9,
        )


@pytest.mark.parametrize("options", [{"rounds": 0}, {"passes": 0}])
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        Mwem(**options)


def test_thresholds_are_served_one_target_at_a_time(table: dict[str, np.ndarray]) -> None:
    from admeasure.workload import Workload

    schema = Schema.coded("toy", {"a": 4, "b": 4, "c": 3})
    query = Threshold(["a", "b", "c"], 2)
    release = fit(
        table,
        schema,
        workload=Workload([query]),
        mechanism=Mwem(measure="cells", rounds=15),
        epsilon=2,
        delta=1e-6,
        seed=1,
    )
    measured = [m for m in release.measurements if m.query.columns]
    assert len(measured) == 15
    assert all(isinstance(m.query, ThresholdCell) for m in measured)
