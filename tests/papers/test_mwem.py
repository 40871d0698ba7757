"""MWEM against a literal transcription of Hardt, Ligett and McSherry (2012), Figure 1."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError
from admeasure.families.explicit import ExplicitModel, MultiplicativeWeights, average
from admeasure.fitting import fit
from admeasure.mechanisms.mwem import Mwem
from admeasure.privacy.measurement import Measurement
from admeasure.queries import Cell, Marginal, Query, Threshold, ThresholdCell
from admeasure.schema import Schema

DOMAIN = Domain(("b", "a", "c"), (2, 3, 2))  # not in alphabetical order, on purpose
RECORDS = list(product(range(2), range(3), range(2)))


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


def literal_update(weights: dict, measurement: Measurement, total: float) -> dict:
    """D(x) ∝ D(x) exp(q(x) (a - q(D)) / 2), one record and one cell at a time."""
    query = measurement.query
    believed: dict = {}
    for record, weight in weights.items():
        for cell, counted in holds(query, record):
            believed[cell] = believed.get(cell, 0.0) + weight * counted
    grown = {}
    for record, weight in weights.items():
        exponent = sum(
            counted * (float(measurement.values[cell]) / total - believed[cell]) / 2
            for cell, counted in holds(query, record)
        )
        grown[record] = weight * np.exp(exponent)
    norm = sum(grown.values())
    return {record: weight / norm for record, weight in grown.items()}


QUERIES = [
    Cell(["a", "b"], [1, 0]),
    Marginal(["a", "c"]),
    ThresholdCell(["a", "b", "c"], 2, [2, 1, 1]),
    Marginal(["b"]),
]


@pytest.mark.parametrize("passes", [1, 3])
def test_updates_agree_with_the_formula(passes: int) -> None:
    rng = np.random.default_rng(1)
    start = rng.dirichlet(np.ones(len(RECORDS)))
    log = [
        Measurement(q, np.asarray(rng.integers(0, 60, size=q.shape(DOMAIN))), 1.0) for q in QUERIES
    ]
    model = ExplicitModel(DOMAIN, start.reshape(DOMAIN.levels), total=50.0)
    updated = MultiplicativeWeights(passes).update(model, log)
    expected = dict(zip(RECORDS, start, strict=True))
    for _ in range(passes):
        for measurement in log if passes > 1 else log[-1:]:
            expected = literal_update(expected, measurement, 50.0)
    assert np.allclose(updated.weights.ravel(), list(expected.values()), rtol=0, atol=1e-12)


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
    with_reuse = worst_error(table, measure="cells", rounds=20, passes=50)
    without = worst_error(table, measure="cells", rounds=20, passes=1)
    assert with_reuse < without / 2


def test_a_large_budget_gives_the_table_back(table: dict[str, np.ndarray]) -> None:
    assert worst_error(table, measure="marginals", rounds=6, passes=500) < 0.02


def test_a_domain_that_is_too_large_is_refused_with_its_size_and_what_fits() -> None:
    schema = Schema.coded("wide", {f"c{i}": 10 for i in range(9)})
    with pytest.raises(ResourceError, match=r"1e\+09 cells.*Use aim"):
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
