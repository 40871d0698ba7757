"""Selectors choose what the papers' formulas say, judged by brute force at a large budget.

With a budget of 10^9 in rho the exponential mechanism picks the best candidate but for a chance
below e^-1000, so these tests are deterministic in effect.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.domain import Columns
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.loop import Budget
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Cell, Marginal, Threshold, ThresholdCell
from admeasure.schema import Schema
from admeasure.selectors.improvement import (
    ExpectedImprovement,
    Penalty,
    closure_weights,
    even_weights,
)
from admeasure.selectors.worst import WorstCell, WorstMarginal
from admeasure.sources.memory import MemorySource
from admeasure.workload import Workload

LEVELS = {"a": 2, "b": 3, "c": 4, "d": 3}
RICH = Fraction(10**9)


def curator_of(codes, levels=LEVELS) -> Curator:
    source = MemorySource.from_codes(codes, Schema.coded("toy", levels))
    return Curator(source, Ledger(2 * RICH), SeededNoise(1))


def random_codes(seed: int, rows: int = 500, levels=LEVELS):
    """Columns of which later ones depend on earlier ones, with skewed margins."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 12, rows)
    return {
        c: np.where(rng.random(rows) < rng.uniform(0.2, 0.9), hidden, rng.integers(0, 12, rows)) % n
        for c, n in levels.items()
    }


def exact(codes, columns: Columns, levels=LEVELS) -> np.ndarray:
    table = np.zeros([levels[c] for c in columns], dtype=np.int64)
    np.add.at(table, tuple(codes[c] for c in columns), 1)
    return table


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4).map(frozenset),
        st.tuples(st.floats(0.1, 9), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
def test_weights_are_the_overlaps_of_line_8_over_the_downward_closure(given_sets):
    """w_r = Σ_s c_s |r ∩ s|; a threshold counts by its columns."""
    queries = {
        Threshold(s, 1) if is_threshold else Marginal(s): weight
        for s, (weight, is_threshold) in given_sets.items()
    }
    closure = {
        tuple(sorted(r))
        for s in given_sets
        for k in range(1, len(s) + 1)
        for r in combinations(sorted(s), k)
    }
    found = closure_weights(Workload(queries))
    assert set(found) == closure
    for r in closure:
        literal = sum(weight * len(set(r) & s) for s, (weight, _) in given_sets.items())
        assert math.isclose(found[r], literal, rel_tol=1e-12)


def test_a_marginal_and_a_threshold_of_the_same_columns_add_their_weights():
    workload = Workload({Marginal(tuple("ab")): 2.0, Threshold(tuple("ab"), 1): 3.0})
    assert closure_weights(workload) == {("a",): 5.0, ("b",): 5.0, ("a", "b"): 10.0}


def literal_scores(codes, model, workload, sigma, candidates):
    """q_r(D) of line 14, with nothing but sums over cells."""
    scores = {}
    for r in candidates:
        w = sum(workload.weight(s) * len(set(r) & set(s.columns)) for s in workload.queries)
        (believed,) = model.marginals([r])
        cells = math.prod(LEVELS[c] for c in r)
        distance = sum(abs(x - y) for x, y in zip(exact(codes, r).flat, believed.flat, strict=True))
        scores[r] = w * (distance - math.sqrt(2 / math.pi) * sigma * cells)
    return scores


@pytest.mark.parametrize("seed", range(6))
def test_aim_chooses_the_largest_expected_improvement(seed):
    codes = random_codes(seed)
    rng = np.random.default_rng(seed)
    triples = [Marginal(s) for s in combinations("abcd", 3)]
    workload = Workload({q: float(rng.uniform(0.2, 5)) for q in triples})
    curator = curator_of(codes)
    family = GraphicalFamily()
    # Measured with hardly any noise, so that the model knows the number of rows and one pair.
    log = curator.measure([Marginal(("a", "b")), Marginal(("c",))], RICH)
    model = family.update(family.init(curator.domain), log)
    sigma = 3.0
    budget = Budget(Zcdp(RICH / 2), Zcdp(Fraction(1 / (2 * sigma**2))))
    selector = ExpectedImprovement(family, closure_weights(workload))
    (chosen,) = selector.select(curator, workload, model, budget)
    scores = literal_scores(codes, model, workload, sigma, closure_weights(workload))
    assert chosen.columns == max(scores, key=lambda r: scores[r])


@pytest.mark.parametrize("seed", range(6))
def test_a_penalty_that_looks_ahead_takes_off_less_for_large_marginals(seed):
    """Against the formula: 0.6 sqrt(2/π) n_r, times the sigma of both parts of rho together."""
    codes = random_codes(seed)
    workload = Workload([Marginal(s) for s in combinations("abcd", 3)])
    curator = curator_of(codes)
    family = GraphicalFamily()
    log = curator.measure([Marginal(("a", "b")), Marginal(("c",))], RICH)
    model = family.update(family.init(curator.domain), log)
    measure, ahead = Fraction(1, 200), Fraction(1, 100)
    weights = even_weights(workload)
    assert max(weights.values()) == pytest.approx(min(weights.values()))
    selector = ExpectedImprovement(family, weights, Penalty(0.6, Zcdp(ahead)))
    budget = Budget(Zcdp(RICH / 2), Zcdp(measure))
    (chosen,) = selector.select(curator, workload, model, budget)
    per_cell = 0.6 * math.sqrt(2 / math.pi) * math.sqrt(1 / (2 * 0.015))
    scores = {}
    for r in weights:
        (believed,) = model.marginals([r])
        scores[r] = np.abs(exact(codes, r) - believed).sum() - per_cell * believed.size
    assert chosen.columns == max(scores, key=lambda r: scores[r])


@pytest.mark.parametrize(("kept", "open_"), [(0.0, 0.5), (0.25, 2 / 3), (0.5, 1)])
def test_the_whole_size_limit_is_open_when_all_but_what_is_kept_is_used(kept, open_):
    class Family(GraphicalFamily):
        def fitting(self, model, candidates, share):
            shares.append(share)
            return list(candidates)

    shares: list[float] = []
    workload = Workload([Marginal(s) for s in combinations("abcd", 3)])
    curator = curator_of(random_codes(0))
    family = Family()
    model = family.init(curator.domain)
    half = curator.remaining / 2
    selector = ExpectedImprovement(family, even_weights(workload), kept=kept)
    selector.select(curator, workload, model, Budget(select=half / 10, measure=half * 9 / 10))
    assert shares == pytest.approx([open_])


@pytest.mark.parametrize("hopeless", [2.0, 0.5, 0.01])
def test_marginals_that_noise_would_drown_are_not_scored(hopeless, monkeypatch):
    codes = random_codes(0)
    workload = Workload([Marginal(s) for s in combinations("abcd", 3)])
    curator = curator_of(codes)
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("a",))], RICH))
    scored = []
    in_turn = curator.in_turn

    def heard(score, candidates, *rest):
        scored.extend(q.columns for q in candidates)
        return in_turn(score, candidates, *rest)

    monkeypatch.setattr(curator, "in_turn", heard)
    sigma = 0.03 * len(codes["a"])
    budget = Budget(Zcdp(RICH / 2), Zcdp(Fraction(1 / (2 * sigma**2))))
    weights = even_weights(workload)
    selector = ExpectedImprovement(family, weights, Penalty(0.6, hopeless=hopeless))
    selector.select(curator, workload, model, budget)
    noise = {r: 0.6 * math.sqrt(2 / math.pi) * sigma * curator.domain.cells(r) for r in weights}
    most = {r: (hopeless if len(r) > 2 else 2) * len(codes["a"]) for r in weights}
    hopeful = {r for r in weights if noise[r] <= most[r]}
    assert set(scored) == (hopeful or {min(weights, key=lambda r: noise[r])})
    if hopeless == 0.5:
        assert 1 < len(hopeful) < len(weights)


@given(
    st.dictionaries(
        st.sets(st.sampled_from("abcde"), min_size=1, max_size=4).map(lambda s: tuple(sorted(s))),
        st.floats(0.1, 9),
        min_size=1,
        max_size=8,
    )
)
def test_even_weights_are_the_root_of_what_reads_a_marginal_s_columns_on_average(queries):
    found = even_weights(Workload({Marginal(s): w for s, w in queries.items()}))
    for r, weight in found.items():
        read = [sum(w for s, w in queries.items() if c in s) for c in r]
        assert weight == pytest.approx(math.sqrt(sum(read) / len(r)))


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_the_best_marginal_again_and_again_among_what_it_does_not_join(seed):
    """Against scores and a forest worked out one by one."""
    codes = random_codes(seed)
    workload = Workload([Marginal(s) for s in combinations("abcd", 2)])
    curator = curator_of(codes)
    family = GraphicalFamily()
    model = family.update(
        family.init(curator.domain), curator.measure([Marginal((c,)) for c in "abcd"], RICH)
    )
    weights, sigma = dict.fromkeys(workload.closure(), 1.0), 0.5
    budget = Budget(Zcdp(RICH / 2), Zcdp(Fraction(3 / (2 * sigma**2))))
    selector = ExpectedImprovement(family, weights, batch=3)
    chosen = [q.columns for q in selector.select(curator, workload, model, budget)]
    scores = {}
    for r in weights:
        (believed,) = model.marginals([r])
        noise = math.sqrt(2 / math.pi) * sigma * believed.size
        scores[r] = np.abs(exact(codes, r) - believed).sum() - noise
    group = {c: {c} for c in "abcd"}
    expected = []
    for _ in range(3):
        apart = [r for r in scores if len({id(group[c]) for c in r}) == len(r)]
        best = max((r for r in apart if r not in expected), key=lambda r: scores[r])
        expected.append(best)
        joined = set().union(*(group[c] for c in best))
        group |= dict.fromkeys(joined, joined)
    assert chosen == expected


def test_a_batch_stays_within_the_size_limit_all_together():
    """Six columns of eight levels; three pairs fit a tree of 200 cells, and no fourth beside."""
    levels = dict.fromkeys("abcdef", 8)
    rng = np.random.default_rng(0)
    curator = curator_of({c: rng.integers(0, 8, 300) for c in levels}, levels)
    workload = Workload([Marginal(s) for s in combinations("abcdef", 2)])
    family = GraphicalFamily(max_megabytes=200 * 8 / 2**20)
    model = family.update(
        family.init(curator.domain), curator.measure([Marginal((c,)) for c in levels], RICH)
    )
    weights = dict.fromkeys(workload.marginals(), 1.0)
    selector = ExpectedImprovement(family, weights, Penalty(0.0), batch=5)
    cost = curator.remaining / 2
    chosen = [q.columns for q in selector.select(curator, workload, model, Budget(cost, cost))]
    grown = family.holding(model, chosen)
    assert 2 <= len(chosen) <= 3
    assert grown.core.tree.cells <= 200
    assert all(grown.core.tree.contains(grown.clique(r)) for r in chosen)


def test_the_weights_of_the_workload_decide_between_equally_bad_answers():
    """Two independent pairs of equal columns are equally wrong; the heavier one is chosen."""
    x, y = np.arange(400) % 2, np.arange(400) // 2 % 2
    codes = {"a": x, "b": x, "c": y, "d": y}
    levels = dict.fromkeys("abcd", 2)
    chosen = []
    for heavy in ("ab", "cd"):
        curator = curator_of(codes, levels)
        family = GraphicalFamily()
        singles = curator.measure([Marginal((c,)) for c in "abcd"], RICH)
        model = family.update(family.init(curator.domain), singles)
        workload = Workload({Marginal(tuple(p)): 3.0 if p == heavy else 1.0 for p in ("ab", "cd")})
        selector = ExpectedImprovement(family, closure_weights(workload))
        budget = Budget(Zcdp(RICH / 2), Zcdp(Fraction(1)))
        chosen += [q.columns for q in selector.select(curator, workload, model, budget)]
    assert chosen == [("a", "b"), ("c", "d")]


def test_marginals_that_noise_would_drown_are_not_considered_but_one_candidate_always_stays():
    codes = random_codes(0)
    curator = curator_of(codes)
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("a",))], RICH))
    workload = Workload([Marginal(tuple("abcd"))])
    asked = []
    curator.journal.listeners.append(asked.append)
    for sigma in (300.0, 1e6):
        selector = ExpectedImprovement(family, closure_weights(workload))
        budget = Budget(Zcdp(RICH / 10), Zcdp(Fraction(1 / (2 * sigma**2))))
        selector.select(curator, workload, model, budget)
    closure = [r for k in range(1, 5) for r in combinations("abcd", k)]
    loud = math.sqrt(2 / math.pi) * 300 * (1 + 1e-9)
    audible = sum(loud * math.prod(LEVELS[c] for c in r) <= 2 * model.total for r in closure)
    assert 0 < audible < len(closure)
    assert [e["candidates"] for e in asked if "chosen" in e] == [audible, 1]


def test_a_round_scores_no_more_cells_than_allowed_and_keeps_the_smallest():
    curator = curator_of(random_codes(0))
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("a",))], RICH))
    workload = Workload([Marginal(tuple("abcd"))])
    selector = ExpectedImprovement(family, closure_weights(workload), max_cells=30)
    asked = []
    curator.journal.listeners.append(asked.append)
    selector.select(curator, workload, model, Budget(Zcdp(RICH / 2), Zcdp(Fraction(1))))
    # One-way marginals have 2 + 3 + 4 + 3 = 12 cells, then pairs of 6, 6 and 8: 12 + 6 + 6 <= 30.
    assert [e["candidates"] for e in asked if "chosen" in e] == [6]


@pytest.mark.parametrize("seed", range(3))
def test_the_worst_marginal_is_the_one_of_largest_error_less_cells(seed):
    codes = random_codes(seed)
    curator = curator_of(codes)
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("a",))], RICH))
    workload = Workload([Marginal(p) for p in combinations("abcd", 2)])
    (chosen,) = WorstMarginal().select(
        curator, workload, model, Budget(Zcdp(RICH / 2), Zcdp(RICH / 2))
    )
    scores = {
        r: float(np.abs(exact(codes, r) - model.marginals([r])[0]).sum())
        - math.prod(LEVELS[c] for c in r)
        for r in workload.marginals()
    }
    assert chosen.columns == max(scores, key=lambda r: scores[r])


@pytest.mark.parametrize("seed", range(3))
def test_the_worst_cell_is_the_counting_query_of_largest_error(seed):
    codes = random_codes(seed)
    curator = curator_of(codes)
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("a",))], RICH))
    workload = Workload([Marginal(tuple("bc")), Threshold(tuple("acd"), 2)])
    (chosen,) = WorstCell().select(curator, workload, model, Budget(Zcdp(RICH / 2), Zcdp(RICH / 2)))
    errors = {}
    for query in workload.queries:
        truth = query.answer(exact(codes, query.columns))
        believed = query.answer(model.marginals([query.columns])[0])
        kind = Cell if isinstance(query, Marginal) else ThresholdCell
        for at, error in np.ndenumerate(np.abs(truth - believed)):
            more = () if kind is Cell else (2,)
            errors[kind(query.columns, *more, at)] = float(error)
    assert errors[chosen] == max(errors.values())
