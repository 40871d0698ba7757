"""PrivBayes: a Bayesian network whose joints are measured (Zhang et al. 2017)."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from admeasure.domain import Domain, canonical
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.mechanisms import build
from admeasure.mechanisms.privbayes import Network, PrivBayes
from admeasure.planning.division import Task
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.scores.dependence import Dependence
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.verbs.fit import fit
from admeasure.verbs.plan import plan
from admeasure.workload import parse_workload


def run(codes, levels, rho, options=None, seed=0):
    schema = Schema.coded("toy", levels)
    curator = Curator(MemorySource.from_codes(codes, schema), Ledger(rho), SeededNoise(seed))
    mechanism = build("privbayes", options)
    task = Task.of(schema, parse_workload("all-1way", schema.domain))
    mechanism.check(task)
    return mechanism.run(task, curator), curator


def joints(curator):
    asked = [e["query"]["columns"] for e in curator.journal.events if e["event"] == "measure"]
    return [tuple(c) for c in asked if c]


def chain_codes(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    last, codes = rng.integers(0, 3, rows), {}
    for c in "abcdef":
        last = np.where(rng.random(rows) < 0.75, last, rng.integers(0, 3, rows))
        codes[c] = last
    return codes, dict.fromkeys("abcdef", 3)


def test_every_column_is_placed_once_with_parents_placed_before_it():
    codes, levels = chain_codes()
    _, curator = run(codes, levels, Fraction(1, 10))
    placed: set[str] = set()
    for joint in joints(curator):
        assert len(set(joint) - placed) == 1
        placed |= set(joint)
    assert placed == set(levels)


@pytest.mark.parametrize("degree", [1, 2])
def test_no_column_has_more_parents_than_the_degree(degree):
    codes, levels = chain_codes()
    _, curator = run(codes, levels, Fraction(10), {"degree": str(degree)})
    assert max(len(joint) for joint in joints(curator)) == degree + 1


def test_with_one_parent_and_a_large_budget_the_chain_is_found():
    """On a chain, the strongest partner of every column that is not placed is a neighbour."""
    codes, levels = chain_codes()
    _, curator = run(codes, levels, Fraction(10**4), {"degree": "1"})
    pairs = {joint for joint in joints(curator) if len(joint) == 2}
    assert pairs == set(zip("abcde", "bcdef", strict=True))


def test_joints_are_useful_by_the_public_rule():
    """θ-usefulness: a cell holds θ σ rows on average, or the column is placed alone."""
    codes, levels = chain_codes()
    outcome, curator = run(codes, levels, Fraction(1, 200))
    events = [e for e in curator.journal.events if e["event"] == "measure"]
    rows, sigma = float(len(codes["a"])), events[-1]["sigma"]
    most = rows / (4 * sigma)
    noisy_total = 1.05  # the rule uses the noisy number of rows, which is within 5% here
    for joint in joints(curator):
        assert len(joint) == 1 or 3 ** len(joint) <= most * noisy_total
    assert outcome.rounds == 1


def test_the_budget_is_spent_exactly_in_the_stated_parts():
    codes, levels = chain_codes()
    rho = Fraction(2, 9)
    _, curator = run(codes, levels, rho)
    rows, *others = curator.ledger.charges
    chosen = sum((c.cost.rho for c in others if c.what.startswith("choice")), Fraction(0))
    assert rows.cost.rho == rho / 50
    assert chosen == Fraction(3, 10) * (rho - rows.cost.rho)
    assert curator.ledger.remaining.rho == 0


def test_a_single_column_is_served():
    _, curator = run({"a": np.arange(50) % 2}, {"a": 2}, Fraction(1))
    assert joints(curator) == [("a",)]


def by_enumeration(asked, levels):
    """The network's distribution over all records, from noisy joints: each column given its
    parents, negative counts 0, even where nothing is left."""
    names, placed = sorted(levels), []
    joint = np.ones([levels[c] for c in names])
    for columns, values in asked:
        (new,) = set(columns) - set(placed)
        axis = columns.index(new)
        kept = np.maximum(values, 0.0)
        given = np.empty(kept.shape)
        for at in np.ndindex(*(n for i, n in enumerate(kept.shape) if i != axis)):
            line = (*at[:axis], slice(None), *at[axis:])
            total = kept[line].sum()
            given[line] = kept[line] / total if total > 0 else 1 / kept.shape[axis]
        shape = [levels[c] if c in columns else 1 for c in names]
        joint = joint * given.reshape(shape)
        placed.append(new)
    return joint


@pytest.mark.parametrize("rho", [Fraction(1, 2000), Fraction(1, 10), Fraction(100)])
def test_plain_privbayes_is_the_product_of_its_noisy_conditionals(rho):
    """Algorithm 1 of the paper and section 3: nothing is fitted, negative counts are set to 0."""
    codes, levels = chain_codes(rows=3000)
    outcome, curator = run(codes, levels, rho, {"estimate": "conditionals", "degree": "2"})
    events = [e for e in curator.journal.events if e["event"] == "measure"]
    asked = [(tuple(e["query"]["columns"]), unpack(e["values"])) for e in events]
    wanted = by_enumeration([a for a in asked if a[0]], levels)
    assert wanted.sum() == pytest.approx(1.0)
    model = outcome.model
    (found,) = model.marginals([tuple(sorted(levels))])
    np.testing.assert_allclose(found / model.total, wanted, atol=1e-12)


def test_both_estimates_choose_measure_and_pay_alike():
    codes, levels = chain_codes(rows=3000)
    runs = [run(codes, levels, Fraction(1, 10), {"estimate": e})[1]
            for e in ("graphical", "conditionals")]  # fmt: skip
    assert runs[0].journal.events == runs[1].journal.events
    assert runs[0].ledger.charges == runs[1].ledger.charges


@pytest.mark.statistical
def test_the_graphical_model_has_less_error_than_plain_conditionals():
    """McKenna, Sheldon and Miklau (2019): PrivBayes+PGM against PrivBayes. Six fixed seeds, so no
    false alarms."""
    codes, levels = chain_codes(rows=3000)
    schema = Schema.coded("toy", levels)
    pairs = [q.columns for q in parse_workload("all-2way", schema.domain)]
    true = MemorySource.from_codes(codes, schema).counts(pairs)

    def error(estimate):
        found = []
        for seed in range(6):
            model = run(codes, levels, Fraction(1, 200), {"estimate": estimate}, seed)[0].model
            sides = zip(true, model.marginals(pairs), strict=True)
            found.append(np.mean([np.abs(t - m).sum() for t, m in sides]))
        return np.mean(found)

    assert error("graphical") < error("conditionals")


def test_replicates_of_plain_privbayes_are_made_by_its_own_rule():
    codes, levels = chain_codes(rows=2000)
    release = fit(codes, Schema.coded("toy", levels), workload="all-2way", epsilon=1, delta=1e-6,
                  mechanism=build("privbayes", {"estimate": "conditionals"}), seed=0)  # fmt: skip
    refitted = release.model.refitted(release.measurements, release.certificate.options)
    whole = [tuple(sorted(levels))]
    (one,), (two,) = refitted.marginals(whole), release.model.marginals(whole)
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_plain_conditionals_shrink_nothing():
    with pytest.raises(UsageError, match="leave shrink out"):
        build("privbayes", {"estimate": "conditionals", "shrink": "end"})


@pytest.mark.parametrize(("option", "value"), [("degree", "0"), ("usefulness", "0")])
def test_options_out_of_range_are_refused(option, value):
    with pytest.raises(UsageError, match=option):
        build("privbayes", {option: value})


@pytest.mark.parametrize("seed", range(20))
def test_offered_are_the_maximal_useful_sets_of_parents(seed):
    """By the definition, whatever is left out of the search beforehand."""
    rng = np.random.default_rng(seed)
    domain = Domain(tuple("abcdefg"), tuple(int(n) for n in rng.integers(1, 9, 7)))
    order = rng.permutation(list("abcdefg")).tolist()
    placed, most, degree = order[:4], float(rng.integers(2, 200)), int(rng.integers(1, 5))
    expected = []
    for child in (c for c in domain.columns if c not in placed):
        sets = [
            set(parents)
            for size in range(min(degree, len(placed)) + 1)
            for parents in itertools.combinations(placed, size)
            if not parents or domain.cells((child, *parents)) <= most
        ]
        largest = [s for s in sets if not any(s < other for other in sets)]
        expected += [canonical((child, *parents)) for parents in largest]
    network = Network(GraphicalFamily(), degree, 4.0)
    assert sorted(network.offered(domain, placed, most)) == sorted(expected)


def test_a_plan_counts_what_a_run_scores(monkeypatch):
    """All columns alike, so that what is useful does not depend on the order of columns."""
    scored = []
    of = Dependence.of
    monkeypatch.setattr(Dependence, "of", lambda *args: scored.append(1) or of(*args))
    levels = dict.fromkeys("abcdefgh", 3)
    rng = np.random.default_rng(0)
    codes = {c: rng.integers(0, 3, 2000) for c in levels}
    domain = Schema.coded("toy", levels).domain
    for most, size in ((100.0, 4), (27.0, 3), (10.0, 2), (5.0, 1)):
        found, counted, cells = PrivBayes().expected_looks(domain, most)
        assert (found, counted) == (comb(9, size + 1), comb(8, size))
        assert cells == counted * 3**size
    _, curator = run(codes, levels, Fraction(1, 2), {"max-megabytes": "80"})
    sigma = curator.journal.events[-1]["sigma"]
    looked = PrivBayes().expected_looks(domain, 2000 / (4 * sigma))[0]
    assert looked == pytest.approx(len(scored), rel=0.2)


def test_a_plan_of_far_too_many_sets_of_parents_says_what_takes_less():
    schema = Schema.coded("wide", {f"c{i:03}": 2 for i in range(300)})
    planned = plan(schema, workload="all-2way", epsilon=5, mechanism="privbayes", rows=10**7)
    assert planned.plan.seconds > 3600
    notes = " ".join(planned.plan.notes)
    assert "A smaller degree leaves fewer of them" in notes
    assert "more than an hour" in notes
    assert "mst" not in notes, "of so many columns it takes long itself"
    few = plan(schema, workload="all-2way", epsilon=5, mechanism="mst", rows=10**5)
    assert "more than an hour" not in " ".join(few.plan.notes)
