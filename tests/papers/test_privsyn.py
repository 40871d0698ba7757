"""PrivSyn (Zhang et al., USENIX Security 2021): its split, its choices, consistency and records."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from admeasure.domain import Domain
from admeasure.mechanisms import build
from admeasure.mechanisms.privsyn import combined, selected
from admeasure.parts.consistency import consistent
from admeasure.parts.gradual_update import synthesised
from admeasure.planning.division import Task
from admeasure.planning.mechanism import Outcome
from admeasure.privacy.curator import Curator
from admeasure.privacy.independence import IndependenceErrors
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema, Zero
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.workload import parse_workload

LEVELS = {"a": 8, "b": 9, "c": 10, "d": 12}


def codes(rows: int = 6000) -> dict[str, np.ndarray]:
    """a, b and c depend on a hidden column, d on nothing."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 8, rows)
    found = {
        c: np.where(rng.random(rows) < 0.8, hidden, rng.integers(0, n, rows))
        for c, n in LEVELS.items()
    }
    return {**found, "d": rng.integers(0, 12, rows)}


def run(rho: Fraction, **options: str) -> tuple[Outcome, Curator]:
    schema = Schema.coded("toy", LEVELS)
    curator = Curator(MemorySource.from_codes(codes(), schema), Ledger(rho), SeededNoise(0))
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    return build("privsyn", options).run(task, curator), curator


def test_a_tenth_a_tenth_and_the_rest_with_shares_by_cells_to_two_thirds() -> None:
    rho = Fraction(10)
    _, curator = run(rho)
    events = curator.journal.events
    spent = [Fraction(e["rho"]) for e in events if e["event"] == "statistic"]
    assert spent == [rho / 10]
    answers = [e for e in events if e["event"] == "measure"]
    alone = [e for e in answers if len(e["query"]["columns"]) == 1]
    chosen = [e for e in answers if len(e["query"]["columns"]) > 1]
    assert sum(Fraction(e["rho"]) for e in alone) == rho / 10
    assert sum(Fraction(e["rho"]) for e in chosen) == rho * 8 / 10
    assert len(chosen) > 1
    cells = [np.prod([LEVELS[c] for c in e["query"]["columns"]]) for e in chosen]
    for event, size in zip(chosen, cells, strict=True):
        share = size ** (2 / 3) / sum(s ** (2 / 3) for s in cells)
        assert float(Fraction(event["rho"])) == pytest.approx(8 * share)
    assert curator.ledger.remaining.rho == 0


def test_indif_is_the_distance_from_the_product_in_rows() -> None:
    table = np.array([[3, 1], [0, 6]])
    product = np.outer(table.sum(1), table.sum(0)) / 10
    distance = np.abs(table - product).sum()
    assert IndependenceErrors((("a", "b"),)).of([table]).tolist() == [int(distance)]
    assert IndependenceErrors((("a", "b"),)).of([np.zeros((2, 2), int)]).tolist() == [0]


@pytest.mark.parametrize("relation", list(Neighbours))
def test_neighbours_move_indif_by_no_more_than_stated(relation: Neighbours, times: Any) -> None:
    rng, nearest = np.random.default_rng(1), 0.0
    statistic = IndependenceErrors((("a", "b"),))
    for _ in range(times(2000, 100_000)):
        unit = Unit(relation, int(rng.integers(1, 4)))
        joint = rng.integers(0, 10 ** rng.integers(1, 4), (3, 3)) * (rng.random((3, 3)) < 0.5)
        own = np.zeros((2, 3, 3), dtype=np.int64)
        own[1][rng.integers(3), rng.integers(3)] = unit.max_rows
        if relation is Neighbours.REPLACE:
            own[0][rng.integers(3), rng.integers(3)] = unit.max_rows
        before, after = (int(statistic.of([joint + o])[0]) for o in own)
        moved = (after - before) ** 2 / statistic.l2_squared(unit)
        assert moved <= 1
        nearest = max(nearest, moved)
    assert nearest > 0.1  # the search comes near to what is allowed


def test_noise_with_these_shares_is_the_least_that_any_shares_give() -> None:
    """`selected` takes sigma S^(3/2) for it; an optimiser that knows nothing of that agrees."""
    sizes, sigma = np.array([6.0, 40.0, 300.0]), 2.5

    def noise(logits: np.ndarray) -> float:
        shares = np.exp(logits) / np.exp(logits).sum()
        return float((sizes * sigma / np.sqrt(shares)).sum())

    least = minimize(noise, np.zeros(3), method="BFGS").fun
    assert sigma * (sizes ** (2 / 3)).sum() ** 1.5 == pytest.approx(least, rel=1e-6)


def test_a_pair_is_chosen_while_its_dependence_outweighs_its_noise() -> None:
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    pairs = {("a", "b"): 100.0, ("a", "c"): 20.0, ("b", "c"): 0.0}
    # sqrt(2/π) 2 · 4 = 6.4 rows of noise for one pair; a second makes it 6.4 · 2^1.5 = 18.1,
    # 11.7 more; a third would not pay at any price
    assert selected(pairs, domain, 2.0) == [("a", "b"), ("a", "c")]
    assert selected(pairs, domain, 5.0) == [("a", "b")]  # 29.2 more for the second
    assert selected(pairs, domain, 1000.0) == []


def test_small_cliques_are_combined_and_share_two_columns_at_most() -> None:
    domain = Domain.of(dict.fromkeys("abcdef", 10))
    triangles = [("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "d"), ("e", "f")]
    assert combined(triangles, domain) == [("a", "b", "c"), ("b", "c", "d"), ("e", "f")]
    wide = Domain.of(dict.fromkeys("abcdef", 18))  # 18³ = 5,832 cells are too many
    assert combined(triangles, wide) == triangles
    whole = list(combinations("abcd", 2))  # four columns of 10 levels are too many, three are not
    found = combined(whole, domain)
    assert found[0] == ("a", "b", "c")
    assert {p for c in found for p in combinations(c, 2)} == set(whole)


def test_tables_agree_on_their_common_columns_by_precision() -> None:
    tables = {("a",): np.array([10.0, 30.0]), ("a", "b"): np.array([[8.0, 8.0], [12.0, 12.0]])}
    # a by itself has variance 1; from the pair 2 · 0.5 = 1: the mean is even, (13, 27)
    made = consistent(tables, {("a",): 1.0, ("a", "b"): 0.5}, 40.0, passes=1)
    assert made["a",].tolist() == [13.0, 27.0]
    assert made["a", "b"].tolist() == [[6.5, 6.5], [13.5, 13.5]]


def test_negative_counts_are_taken_out_and_zeros_stay_empty() -> None:
    mask = np.array([[True, False], [False, False]])
    rng = np.random.default_rng(0)
    tables = {("a",): rng.normal(20, 30, 2), ("a", "b"): rng.normal(10, 30, (2, 2)),
              ("b",): rng.normal(20, 30, 2)}  # fmt: skip
    made = consistent(tables, dict.fromkeys(tables, 1.0), 40.0, [Zero(("a", "b"), mask)])
    for table in made.values():
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(40.0)
    assert made["a", "b"][0, 0] == 0


def test_records_follow_the_marginals_that_they_are_given() -> None:
    rows, domain = codes(), Domain.of(LEVELS)
    targets = {}
    for pair in (("a", "b"), ("b", "c"), ("c", "d")):
        targets[pair] = np.zeros([LEVELS[c] for c in pair])
        np.add.at(targets[pair], tuple(rows[c] for c in pair), 1)
    alone = {(c,): np.bincount(rows[c], minlength=n).astype(float) for c, n in LEVELS.items()}
    made = synthesised(targets, alone, domain, 6000, 50)
    for pair, target in targets.items():
        counts = np.zeros(target.shape)
        np.add.at(counts, tuple(made[c] for c in pair), 1)
        assert np.abs(counts - target).sum() < 0.05 * 6000
    start = synthesised({}, alone, domain, 6000, 1)
    counts = np.zeros(targets["a", "b"].shape)
    np.add.at(counts, (start["a"], start["b"]), 1)
    assert np.abs(counts - targets["a", "b"]).sum() > 0.5 * 6000  # before, columns are independent


def test_a_large_budget_answers_dependent_pairs_nearly_exactly() -> None:
    outcome, _ = run(Fraction(10**6))
    rows = codes()
    for pair in (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")):
        counts = np.zeros([LEVELS[c] for c in pair])
        np.add.at(counts, tuple(rows[c] for c in pair), 1)
        (believed,) = outcome.model.marginals([pair])
        assert np.abs(believed - counts).sum() < 0.05 * 6000
