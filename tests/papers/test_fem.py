"""FEM (Vietri et al. 2020): what it costs, and that its records follow the table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from admeasure.errors import ResourceError, UsageError
from admeasure.mechanisms.fem import Fem
from admeasure.parts.oracle import Oracle
from admeasure.planning.division import SELECTION, Task
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.scores.score import GRID
from admeasure.schema import Schema
from admeasure.verbs.fit import fit
from admeasure.workload import parse_workload

SCHEMA = Schema.coded("toy", {"a": 3, "b": 2, "c": 3})


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    a = rng.choice(3, 5000, p=[0.7, 0.2, 0.1])
    b = (a > rng.integers(0, 2, 5000)).astype(int)
    return {"a": a, "b": b, "c": (a + b) % 3}


def fitted(table, **options):
    return fit(
        table,
        SCHEMA,
        workload="all-2way",
        mechanism=Fem(**options),
        epsilon=1.0,
        delta=1e-8,
        seed=0,
    )


def test_the_records_answer_better_than_uniform_ones(table) -> None:
    release = fitted(table, rounds=40, samples=10)
    true = np.zeros((3, 2))
    np.add.at(true, (table["a"], table["b"]), 1)
    error = np.abs(release.marginal(("a", "b")) / release.model.total - true / 5000).max()
    assert error < np.abs(1 / 6 - true / 5000).max() / 2


def test_every_round_is_one_choice_and_together_they_cost_the_budget(table) -> None:
    release = fitted(table, rounds=8, samples=2)
    choices = [e for e in release.log if e["event"] == "choose"]
    assert len(choices) == 8
    assert {e["sensitivity"] for e in choices} == {GRID}
    for event in choices:
        rho = Fraction(event["rho"])
        assert Fraction(event["epsilon"]) ** 2 / 8 <= rho
        assert event["epsilon"] ** 2 / 8 == pytest.approx(float(rho))
    assert release.certificate.rho_spent == pytest.approx(release.certificate.rho)
    assert len(release.measurements) == 1  # the number of rows, and no query


def test_the_same_choices_give_the_same_records_on_one_thread_and_on_two(table) -> None:
    one, two = (fitted(table, rounds=5, samples=4, threads=t) for t in (1, 2))
    for columns in (("a", "b"), ("a", "c")):
        assert np.array_equal(one.marginal(columns), two.marginal(columns))


def test_a_solver_that_finds_nothing_in_time_is_told_and_the_rest_is_not_spent(
    table, monkeypatch
) -> None:
    plain = Oracle.best
    monkeypatch.setattr(
        Oracle,
        "best",
        lambda self, queries, costs=None, rng=None: (
            plain(self, queries, costs, rng) if sum(queries.values()) < 4 else None
        ),
    )
    release = fitted(table, rounds=10, samples=2)
    assert release.facts["rounds"] == 3
    assert any("ended in round 4" in note for note in release.certificate.notes)
    assert release.certificate.rho_spent < 0.5 * release.certificate.rho
    monkeypatch.setattr(Oracle, "best", lambda *_: None)
    with pytest.raises(ResourceError, match="found no record"):
        fitted(table, rounds=10, samples=2)


def test_the_second_half_of_the_rounds_is_released_unless_all_are_asked_for(table) -> None:
    half, whole = (fitted(table, rounds=9, samples=4, output=o) for o in ("half", "all"))
    for release, records in ((half, 20), (whole, 36)):
        parts = release.marginal(("a", "b")) / release.model.total * records
        assert np.allclose(parts, np.rint(parts))
        assert parts.sum() == pytest.approx(records)
    assert not np.array_equal(half.marginal(("a", "b")), whole.marginal(("a", "b")))


def test_the_number_of_rounds_grows_with_the_budget_to_the_power_of_two_thirds() -> None:
    task = Task.of(SCHEMA, parse_workload("all-2way", SCHEMA.domain))
    for rows, rho in ((1e5, 0.01), (1e4, 0.1), (1e5, 0.001)):
        few, many = (
            Fem().divide(task, Zcdp(Fraction(budget)), rows)[SELECTION].times
            for budget in (rho, 8 * rho)
        )
        assert many == pytest.approx(2 * few, abs=2)


@pytest.mark.parametrize(
    "options", [{"samples": 0}, {"perturbation": 0.0}, {"seconds": -1.0}, {"threads": 0}]
)
def test_an_option_that_makes_no_sense_is_refused(options) -> None:
    with pytest.raises(UsageError):
        Fem(**options)
