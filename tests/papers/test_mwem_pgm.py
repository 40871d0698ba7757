"""MWEM+PGM (McKenna et al. 2022, Algorithm 1)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from admeasure.errors import ResourceError, UsageError
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import parse_workload

LEVELS = {"a": 2, "b": 3, "c": 4, "d": 3}


def codes_of(levels, rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 100, rows)
    return {
        c: np.where(rng.random(rows) < 0.7, hidden, rng.integers(0, 100, rows)) % n
        for c, n in levels.items()
    }


def run(levels, workload, rho, options=None):
    schema = Schema.coded("toy", levels)
    source = MemorySource.from_codes(codes_of(levels), schema)
    curator = Curator(source, Ledger(rho), SeededNoise(0))
    mechanism = build("mwem-pgm", options)
    task = Task.of(schema, parse_workload(workload, schema.domain))
    mechanism.check(task)
    return mechanism.run(task, curator), curator


def test_each_of_t_rounds_has_the_noise_and_the_selection_of_algorithm_1():
    """ε = 2 sqrt(ρ/T) and σ = sqrt(T/ρ), with ρ what the number of rows leaves."""
    rho, rounds = Fraction(1, 3), 7
    _, curator = run(LEVELS, "all-2way", rho, {"rounds": str(rounds)})
    left = float(rho - curator.ledger.charges[0].cost.rho)
    events = curator.journal.events
    choices = [e for e in events if e["event"] == "choose"]
    answers = [e for e in events if e["event"] == "measure" and e["query"]["columns"]]
    assert len(choices) == len(answers) == rounds
    epsilon, sigma = 2 * math.sqrt(left / rounds), math.sqrt(rounds / left)
    assert [e["epsilon"] for e in choices] == pytest.approx([epsilon] * rounds)
    assert [e["sigma"] for e in answers] == pytest.approx([sigma] * rounds)
    assert curator.ledger.remaining.rho == 0


def test_only_marginals_of_the_workload_are_measured():
    _, curator = run(LEVELS, "all-3way", Fraction(1))
    answers = [e["query"]["columns"] for e in curator.journal.events if e["event"] == "measure"]
    assert answers[0] == []
    assert {len(columns) for columns in answers[1:]} == {3}


def test_a_candidate_whose_model_would_pass_the_limit_is_not_considered():
    """Two disjoint pairs of 20 x 20 cells fit 0.007 MB beside each other; a chain of three does
    not."""
    levels = dict.fromkeys("abcd", 20)
    outcome, _ = run(levels, "all-2way", Fraction(1), {"max-megabytes": "0.007", "rounds": "9"})
    nodes = outcome.model.core.tree.nodes
    assert sum(8 * 20 ** len(node) for node in nodes) <= 0.007 * 2**20


def test_a_workload_of_which_nothing_fits_is_refused():
    with pytest.raises(ResourceError, match="use aim"):
        run(dict.fromkeys("abcde", 16), "all-5way", Fraction(1), {"max-megabytes": "1"})


def test_no_rounds_are_refused():
    with pytest.raises(UsageError, match="rounds"):
        build("mwem-pgm", {"rounds": "0"})


def test_a_large_budget_answers_the_workload_nearly_exactly():
    outcome, _ = run(LEVELS, "all-2way", Fraction(10**6), {"rounds": "12"})
    codes = codes_of(LEVELS)
    for pair in (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")):
        counts = np.zeros([LEVELS[c] for c in pair])
        np.add.at(counts, tuple(codes[c] for c in pair), 1)
        (believed,) = outcome.model.marginals([pair])
        assert np.abs(believed - counts).sum() < 30
