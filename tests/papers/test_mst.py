"""MST finds the tree that Chow and Liu would (McKenna, Miklau and Sheldon 2021, section 3)."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.verbs.plan import plan
from admeasure.workload import parse_workload


def run(codes, levels, rho, seed=0):
    schema = Schema.coded("toy", levels)
    curator = Curator(MemorySource.from_codes(codes, schema), Ledger(rho), SeededNoise(seed))
    mechanism = build("mst")
    task = Task.of(schema, parse_workload("all-1way", schema.domain))
    mechanism.check(task)
    return mechanism.run(task, curator), curator


def measured(curator, size):
    asked = [e["query"]["columns"] for e in curator.journal.events if e["event"] == "measure"]
    return [tuple(c) for c in asked if len(c) == size]


def branching_codes(seed, rows=20_000):
    """A random tree over six columns: each follows its parent with a rate of its own."""
    rng = np.random.default_rng(seed)
    levels = {c: int(rng.integers(2, 5)) for c in "abcdef"}
    codes = {"a": rng.integers(0, levels["a"], rows)}
    edges = set()
    for k, c in enumerate("bcdef"):
        parent = "abcdef"[rng.integers(0, k + 1)]
        follows = rng.random(rows) < rng.uniform(0.5, 0.8)
        codes[c] = np.where(follows, codes[parent], rng.integers(0, levels[c], rows)) % levels[c]
        edges.add(tuple(sorted((parent, c))))
    return codes, levels, edges


def dependence(codes, levels, pair) -> float:
    """||M_ab - M_a M_b / n||_1, the weight of an edge."""
    a, b = (codes[c] for c in pair)
    joint = np.zeros([levels[c] for c in pair])
    np.add.at(joint, (a, b), 1)
    return float(np.abs(joint - np.outer(joint.sum(1), joint.sum(0)) / len(a)).sum())


def best_spanning_tree(codes, levels) -> set[tuple[str, ...]]:
    """The heaviest of all spanning trees, by trying every one of them."""
    pairs = list(combinations(sorted(levels), 2))
    weight = {p: dependence(codes, levels, p) for p in pairs}
    best: tuple[float, tuple[tuple[str, ...], ...]] = (-1.0, ())
    for tree in combinations(pairs, len(levels) - 1):
        joined = {c: {c} for c in levels}
        for a, b in tree:
            if joined[a] is joined[b]:
                break
            both = joined[a] | joined[b]
            joined.update(dict.fromkeys(both, both))
        else:
            best = max(best, (sum(weight[p] for p in tree), tree))
    return set(best[1])


@pytest.mark.parametrize("seed", range(4))
def test_with_a_large_budget_the_heaviest_spanning_tree_is_measured(seed):
    codes, levels, _ = branching_codes(seed)
    _, curator = run(codes, levels, Fraction(10**6))
    assert set(measured(curator, 2)) == best_spanning_tree(codes, levels)


def test_the_chain_that_made_the_table_is_found():
    rng = np.random.default_rng(5)
    last, codes = rng.integers(0, 4, 30_000), {}
    for c in "abcdefg":
        last = np.where(rng.random(30_000) < 0.7, last, rng.integers(0, 4, 30_000))
        codes[c] = last
    _, curator = run(codes, dict.fromkeys("abcdefg", 4), Fraction(1))
    assert set(measured(curator, 2)) == set(zip("abcdef", "bcdefg", strict=True))


def test_a_third_of_the_budget_goes_to_each_step_and_all_of_it_is_spent():
    codes, levels, _ = branching_codes(0)
    rho = Fraction(3, 7)
    _, curator = run(codes, levels, rho)
    spent = {"one": Fraction(0), "choice": Fraction(0), "two": Fraction(0)}
    for charge in curator.ledger.charges:
        if charge.what.startswith("choice"):
            spent["choice"] += charge.cost.rho
        else:
            spent["two" if "," in charge.what else "one"] += charge.cost.rho
    assert set(spent.values()) == {rho / 3}
    assert len(measured(curator, 1)) == 6
    assert len(measured(curator, 2)) == 5


def test_a_single_column_gets_the_whole_budget():
    _, curator = run({"a": np.arange(100) % 3}, {"a": 3}, Fraction(1, 5))
    assert curator.ledger.remaining.rho == 0
    assert len(curator.ledger.charges) == 1


def test_a_plan_of_hundreds_of_columns_says_about_the_time_that_they_take():
    """300 columns of 3 levels and 20,000 rows took 46 CPU s, and 276 were said."""
    schema = Schema.coded("wide", {f"c{i:03}": 3 for i in range(300)})
    made = plan(schema, workload="all-2way", epsilon=1, mechanism="mst", rows=20_000).plan
    assert 23 < made.seconds < 92
