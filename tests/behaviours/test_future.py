"""Queries not yet known: distributions of columns, drift, histories, and the future error."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest

from admeasure.cli.run import run as run_command
from admeasure.domain import Domain
from admeasure.errors import WorkloadError
from admeasure.evaluation.future import future_error, largest_errors
from admeasure.queries import Marginal, Threshold
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import Workload, parse_workload
from admeasure.workload.history import augmented, historical, parse_future, parse_history

LEVELS = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}
DOMAIN = Domain.of(LEVELS)


@pytest.mark.parametrize("shape", ["uniform", "zipf", "geometric"])
def test_probabilities_fall_and_sum_to_one(shape) -> None:
    features = historical(DOMAIN, shape)
    assert sorted(features.columns) == list(DOMAIN.columns)
    assert sum(features.probabilities) == pytest.approx(1)
    assert list(features.probabilities) == sorted(features.probabilities, reverse=True)
    if shape == "zipf":
        assert features.probabilities[0] == pytest.approx(4 * features.probabilities[3])


def test_no_drift_changes_nothing_and_full_drift_reverses() -> None:
    features = historical(DOMAIN, "geometric")
    assert features.drifted(0.0, Random(1)) == features
    reversed_ = features.drifted(1.0, Random(1))
    assert reversed_.columns == features.columns
    assert reversed_.probabilities == features.probabilities[::-1]


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.5, 0.8])
def test_drift_follows_the_keys_of_definition_5_2(gamma: float) -> None:
    """Spelled out: keys of the masses, masses handed out by descending key."""
    features = historical(DOMAIN, "zipf")
    random, d, keyed = Random(7), 5, []
    for i, p in enumerate(features.probabilities, start=1):
        u = random.random()
        keyed.append(((1 - 2 * gamma) * (d - i) / (d - 1) + (1 - abs(1 - 2 * gamma)) * u, p))
    expected = [p for _, p in sorted(keyed, reverse=True)]
    assert list(features.drifted(gamma, Random(7)).probabilities) == expected


def test_more_drift_is_further_away_on_average() -> None:
    features = historical(Domain.of({f"c{i:02}": 2 for i in range(14)}), "geometric")
    random = Random(3)
    means = [
        np.mean([features.distance(features.drifted(g, random)) for _ in range(200)])
        for g in (0, 0.05, 0.2, 0.5, 1)
    ]
    assert means[0] == 0
    assert all(a < b for a, b in pairwise(means))


@pytest.mark.statistical
def test_columns_are_drawn_one_after_the_other_without_replacement() -> None:
    """Every pair of five columns, binomial tests at 1e-7 each: false alarm below 1e-6."""
    features, random, n = historical(DOMAIN, "geometric"), Random(5), 20_000
    p = dict(zip(features.columns, features.probabilities, strict=True))
    found = Counter(features.draw(2, random) for _ in range(n))
    for i, x in enumerate(DOMAIN.columns):
        for y in DOMAIN.columns[i + 1 :]:
            chance = p[x] * p[y] / (1 - p[x]) + p[y] * p[x] / (1 - p[y])
            assert binomtest(found[x, y], n, chance).pvalue > 1e-7


def test_a_history_is_a_workload_and_repeats_by_its_seed() -> None:
    made = parse_workload("history:zipf:1of3:40:seed=2", DOMAIN)
    assert made == parse_history("history:zipf:1of3:40:seed=2", DOMAIN)
    assert made != parse_history("history:zipf:1of3:40:seed=3", DOMAIN)
    assert sum(weight for _, weight in made.entries) == 40
    assert all(isinstance(q, Threshold) and q.at_least == 1 for q in made)
    assert all(isinstance(q, Marginal) for q in parse_history("history:uniform:2of2:9", DOMAIN))


def test_augmenting_adds_new_queries_of_the_same_kinds() -> None:
    history = Workload([Threshold(["a", "b", "c"], 1), Marginal(["a", "b"])])
    more = augmented(history, 12, DOMAIN, seed=1)
    assert len(more) == 14
    assert set(history.queries) <= set(more.queries)
    kinds = {(len(q.columns), getattr(q, "at_least", 2)) for q in more}
    assert kinds == {(3, 1), (2, 2)}
    assert augmented(history, 12, DOMAIN, seed=1) == more
    everything = augmented(history, 18, DOMAIN, seed=1)
    assert len(everything) == math.comb(5, 3) + math.comb(5, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("history:zipf:3of2:5", "3 of 2"),
        ("history:zipf:1of9:5", "schema has 5"),
        ("history:zipf:1of3:0", "empty"),
        ("history:normal:1of3:5", "no distribution of columns 'normal'"),
        ("history:zipf:1of3", "is written like"),
        ("history:zipf:1of3:5:sed=1", "does not belong"),
        ("history:zipf:1of3:5:ratio=0.5", "geometric"),
        ("history:geometric:1of3:5:ratio=1.5", "between 0 and 1"),
    ],
)
def test_a_history_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_workload(text, DOMAIN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zipf:1of3:drift=1.5", "from 0 to 1"),
        ("zipf:1of3:draws=1", "at least 2"),
        ("zipf:1of3:seed=x", "is written like"),
        ("zipf:1of3:seed=1.5", "whole number"),
        ("zipf", "is written like"),
    ],
)
def test_a_future_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_future(text, DOMAIN)


@pytest.mark.parametrize("count", [-1, 100])
def test_a_number_that_cannot_be_added_is_refused(count: int) -> None:
    with pytest.raises(WorkloadError):
        augmented(Workload([Marginal(["a", "b"])]), count, DOMAIN, seed=0)


def tables() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return tuple({c: rng.integers(0, n, 300) for c, n in LEVELS.items()} for _ in range(2))  # type: ignore[return-value]


def test_the_future_error_is_the_mean_of_the_largest_errors_with_students_interval() -> None:
    schema = Schema.coded("toy", LEVELS)
    true, other = (MemorySource(t, schema) for t in tables())
    future = parse_future("geometric:2of3:drift=0.2:draws=50:seed=4", DOMAIN)
    worst = []
    for query, times in future.counts().items():
        one, two = (query.answer(s.counts([query.columns])[0]) / 300 for s in (true, other))
        worst += [np.abs(one - two).max()] * times
    found = future_error(true.counts, other.counts, future)
    assert found.error == pytest.approx(np.mean(worst))
    # Student's 97.5% point of 49 degrees of freedom, from a printed table.
    half = 2.00958 * np.std(worst, ddof=1) / math.sqrt(50)
    assert found.high - found.error == pytest.approx(half, rel=1e-5)
    assert found.draws == 50
    assert sorted(largest_errors(true.counts, other.counts, future)) == pytest.approx(sorted(worst))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = Schema.coded("toy", LEVELS)
    (tmp_path / "schema.toml").write_text(schema.dumps())
    table = tables()[0]
    lines = [",".join(LEVELS)] + [",".join(map(str, r)) for r in zip(*table.values(), strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    history = Workload([Threshold(["a", "b"], 1), Threshold(["c", "d"], 1)])
    (tmp_path / "history.toml").write_text(history.dumps())
    return tmp_path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = run_command([str(a) for a in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_fit_augments_a_history_and_evaluate_looks_into_the_future(folder, capsys) -> None:
    shared = ["--schema", folder / "schema.toml"]
    code, out, err = run(
        capsys, "fit", folder / "data.csv", *shared, "--workload", folder / "history.toml",
        "--augment", 3, "--epsilon", 1, "--delta", 1e-6, "--mechanism", "independent",
        "--seed", 0, "--out", folder / "release", "--json",
    )  # fmt: skip
    assert code == 0, err
    stored = Workload.loads((folder / "release" / "workload.toml").read_text())
    assert len(stored) == 5
    code, out, err = run(
        capsys, "evaluate", folder / "release", folder / "data.csv", *shared,
        "--workload", folder / "history.toml", "--future", "zipf:1of2:drift=0.1:draws=20", "--json",
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert "NOT PRIVATE" in found["stamp"]
    assert found["future"]["draws"] == 20
    assert found["future"]["low"] <= found["future"]["error"] <= found["future"]["high"]


def test_a_bad_future_and_a_bad_augmentation_are_usage_errors(folder, capsys) -> None:
    shared = ["--schema", folder / "schema.toml", "--workload", folder / "history.toml"]
    code, _, err = run(
        capsys, "fit", folder / "data.csv", *shared, "--augment", 0, "--epsilon", 1,
        "--mechanism", "independent", "--out", folder / "other",
    )  # fmt: skip
    assert code == 2
    assert "--augment must be at least 1" in err
    assert not (folder / "other").exists()
    code, _, err = run(
        capsys, "evaluate", folder / "data.csv", folder / "data.csv", *shared,
        "--future", "zipf:9of2",
    )  # fmt: skip
    assert code == 3
    assert "9 of 2" in err
