"""PrivMRF (Cai et al. 2021): its split, its graph, its rule for the size of marginals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.mechanisms import build
from admeasure.mechanisms.privmrf import attribute_graph
from admeasure.parts.attribute_graph import drawn, first_marginals, merit, useful_subsets
from admeasure.planning.division import Task
from admeasure.planning.mechanism import Outcome
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import parse_workload

LEVELS = {"a": 4, "b": 4, "c": 5, "d": 3, "e": 2}
ROWS = 4000


def codes() -> dict[str, np.ndarray]:
    """a, b and c depend on a hidden column, d on e, and the two groups not on each other."""
    rng = np.random.default_rng(0)
    hidden, other = rng.integers(0, 4, ROWS), rng.integers(0, 2, ROWS)
    near = {c: np.where(rng.random(ROWS) < 0.8, hidden, rng.integers(0, LEVELS[c], ROWS))
            for c in "abc"}  # fmt: skip
    d = np.where(rng.random(ROWS) < 0.8, other, rng.integers(0, 3, ROWS))
    return {**near, "d": d, "e": other}


def run(rho: Fraction, **options: str) -> tuple[Outcome, Curator]:
    schema = Schema.coded("toy", LEVELS)
    curator = Curator(MemorySource.from_codes(codes(), schema), Ledger(rho), SeededNoise(0))
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    return build("privmrf", options).run(task, curator), curator


def test_a_tenth_for_the_graph_a_tenth_for_choices_and_even_shares_for_marginals() -> None:
    rho = Fraction(1)
    _, curator = run(rho)
    events = curator.journal.events
    by = {e: [Fraction(x["rho"]) for x in events if x["event"] == e]
          for e in ("statistic", "choose", "measure")}  # fmt: skip
    rows, *marginals = by["measure"]
    left = rho - rows
    assert by["statistic"] == [left / 10]
    assert sum(by["choose"]) == left / 10
    assert sum(marginals) == left * 8 / 10
    assert len(set(marginals)) == 1
    assert curator.ledger.remaining.rho == 0


def test_marginals_of_several_columns_are_useful_and_every_column_is_measured() -> None:
    for rho in (Fraction(1, 1000), Fraction(1, 100), Fraction(1)):
        _, curator = run(rho)
        answers = [e for e in curator.journal.events if e["event"] == "measure"][1:]
        assert {c for e in answers for c in e["query"]["columns"]} == set(LEVELS)
        for event in answers:
            columns = event["query"]["columns"]
            # The rule takes as many marginals as there may be; the noise can only be smaller.
            cells = math.prod(LEVELS[c] for c in columns)
            assert len(columns) == 1 or cells <= 1.1 * ROWS / (6 * event["sigma"])


def test_the_graph_joins_what_depends_while_the_model_fits() -> None:
    domain = Domain.of(dict.fromkeys("abcd", 10))
    scores = {("a", "b"): 0.5, ("b", "c"): 0.4, ("a", "c"): 0.3, ("c", "d"): 0.2, ("a", "d"): 0.0,
              ("b", "d"): 0.0}  # fmt: skip
    family = GraphicalFamily(1.0)
    found = attribute_graph(scores, family, family.init(domain))
    assert sorted(found) == [("a", "b", "c"), ("c", "d")]
    small = GraphicalFamily(0.004)  # 500 cells: a chain of pairs fits, a triangle does not
    found = attribute_graph(scores, small, small.init(domain))
    assert sorted(found) == [("a", "b"), ("b", "c"), ("c", "d")]


def test_parents_of_merit_say_much_of_the_column_and_little_of_each_other() -> None:
    scores = {("a", "x"): 0.4, ("b", "x"): 0.4, ("c", "x"): 0.3, ("a", "b"): 0.9, ("a", "c"): 0.0}
    assert merit("x", ("a",), scores) == 0.4
    assert merit("x", ("a", "b"), scores) == pytest.approx(0.8 / math.sqrt(2.9))
    assert merit("x", ("a", "c"), scores) == pytest.approx(0.7 / math.sqrt(2))
    domain = Domain.of(dict.fromkeys("abcx", 2))
    found = first_marginals([("a", "b", "c", "x")], scores, domain, 8)
    assert all(len(joint) <= 3 for joint in found)
    assert {column for joint in found for column in joint} == set("abcx")
    assert first_marginals([("a", "b", "c", "x")], scores, domain, 3) == [
        ("a",), ("b",), ("c",), ("x",),
    ]  # fmt: skip


def test_candidates_are_the_useful_subsets_of_cliques_weighed_by_clique() -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 4})
    found = useful_subsets([("a", "b", "c")], domain, 8)
    assert sorted(found) == [("a",), ("a", "b"), ("a", "c"), ("b",), ("c",)]
    assert sum(found.values()) == pytest.approx(9)
    assert drawn(found, 2, 0) == drawn(found, 2, 0)
    assert len(drawn(found, 2, 0)) == 2
    assert drawn(found, 10, 0) == sorted(found)


def test_a_large_budget_answers_dependent_columns_nearly_exactly() -> None:
    outcome, _ = run(Fraction(10**5))
    rows = codes()
    for joint in (("a", "b"), ("b", "c"), ("d", "e"), ("a", "b", "c")):
        counts = np.zeros([LEVELS[c] for c in joint])
        np.add.at(counts, tuple(rows[c] for c in joint), 1)
        (believed,) = outcome.model.marginals([joint])
        assert np.abs(believed - counts).sum() < 0.02 * ROWS


def test_a_usefulness_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="usefulness"):
        build("privmrf", {"usefulness": "0"})
