"""aim-plus hands over to a mixture of products: when, for what, and what then holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.stats import binom

from admeasure.auditing.replay import compare
from admeasure.bounds.evidence import Evidence
from admeasure.errors import UsageError
from admeasure.families.graphical.family import GraphicalFamily
from admeasure.measurement import Measurement
from admeasure.mechanisms.aim_plus import LOOK, AimPlus
from admeasure.parts import hand_over
from admeasure.planning.division import Task
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Cell, Marginal, from_record
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours
from admeasure.verbs.fit import fit
from admeasure.workload import Question, Workload, parse_workload

NAMES = [f"c{i:02}" for i in range(50)]
ZERO = '[[zero]]\ncolumns = ["c00", "c01"]\nwhere = {c00 = 0, c01 = 0}\n'
RHO = Fraction(1, 50)
ROWS = 20_000


@cache
def dense(columns: int = 50, levels: int = 3, rows: int = ROWS, seed: int = 0):
    """Every column depends on the same hidden one of 12 levels."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 12, rows)
    codes = {}
    for c in NAMES[:columns]:
        ends = np.cumsum(rng.dirichlet(np.full(levels, 0.5), 12), axis=1)[hidden][:, :-1]
        codes[c] = (rng.random(rows)[:, None] > ends).sum(axis=1)
    return codes


@cache
def chain(columns: int = 50):
    """Each column is the one before it, but for a fifth of the rows: a tree holds that."""
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, 3, ROWS)]
    for _ in range(columns - 1):
        anew = rng.random(ROWS) < 0.2
        codes.append(np.where(anew, rng.integers(0, 3, ROWS), codes[-1]))
    return dict(zip(NAMES, codes, strict=False))


def source(codes, more: str = "") -> MemorySource:
    columns = "".join(
        f'[[column]]\nname = "{c}"\ntype = "integer"\nminimum = 0\nmaximum = 2\n' for c in codes
    )
    head = '[table]\nname = "toy"\n[privacy]\nunit = "person"\n'
    return MemorySource.from_codes(codes, Schema.loads(head + columns + more))


def run(mechanism: AimPlus, table: MemorySource, seed: int = 3, rho: Fraction = RHO):
    curator = Curator(table, Ledger(rho), SeededNoise(seed))
    task = Task.of(table.schema, parse_workload("all-2way", curator.domain))
    return mechanism.run(task, curator), curator


def error(model, table: MemorySource) -> float:
    pairs = parse_workload("all-2way", table.schema.domain).marginals()
    tables = zip(model.marginals(pairs), table.counts(pairs), strict=True)
    return float(np.mean([np.abs(a - b).sum() for a, b in tables])) / ROWS


@cache
def handed():
    return run(AimPlus(), source(dense()))


@cache
def kept():
    return run(AimPlus(), source(chain()))


def test_a_dense_table_is_handed_over_and_answered_better_than_by_the_tree():
    """The tree's error is 0.1; noise of seeds moves neither by a tenth."""
    table = source(dense())
    outcome, curator = handed()
    tree, _ = run(AimPlus(hand_over="never"), table)
    assert (outcome.model.kind, tree.model.kind) == ("products", "graphical")
    assert error(outcome.model, table) < 0.7 * error(tree.model, table)
    assert curator.remaining.rho == 0
    assert "all 1,225 were measured" in outcome.notes[-1]
    assert not any("tree" in note for note in tree.notes)


def test_a_table_that_a_tree_holds_is_kept_by_the_tree():
    """Its columns depend on each other far along the chain, once all links are known."""
    outcome, curator = kept()
    assert outcome.model.kind == "graphical"
    assert curator.remaining.rho == 0


def test_rounds_are_counted_and_not_what_they_choose():
    """Of a batch choices stand beside each other in the journal, and measurements end the round."""
    outcome, curator = kept()
    kinds = [e["event"] for e in curator.journal.events if e["event"] != "intent"]
    begun = sum(a != b == "choose" for a, b in pairwise(kinds))
    assert outcome.rounds == begun < kinds.count("choose")


def test_what_product_rows_cannot_hold_stays_with_the_tree(monkeypatch):
    """As much as the model itself misses is too much; each model is asked about once."""
    asked = []

    def missing(model, pairs):
        asked.append(model)
        return 1.0

    monkeypatch.setattr(hand_over, "missed_by_products", missing)
    outcome, curator = run(AimPlus(), source(dense()))
    assert outcome.model.kind == "graphical"
    assert curator.remaining.rho == 0
    assert len(asked) == 1


@pytest.mark.parametrize(("part", "due"), [(0.2, True), (0.3, False)])
def test_product_rows_are_to_hold_most_of_what_the_model_misses(monkeypatch, part, due):
    """Noise is faint and the rounds may spend nothing: the tree would stay as it is."""
    table = source(dense(columns=6))
    curator = Curator(table, Ledger(RHO), SeededNoise(0))
    workload = parse_workload("all-2way", curator.domain)
    family = GraphicalFamily()
    model = family.update(family.init(curator.domain), curator.measure([Marginal(("c00",))], RHO))
    sets = workload.marginals()
    looked = tuple(
        Measurement(Marginal(c), t, 0.0) for c, t in zip(sets, table.counts(sets), strict=True)
    )
    missed = hand_over.missed(model, looked)
    monkeypatch.setattr(hand_over, "missed_by_products", lambda *_: part**2 * missed)
    watch = hand_over.HandOver(
        looked, hand_over.AskedPairs.of(curator.domain, workload), 1, missed, Zcdp(100)
    )
    assert watch.due(model, Zcdp(99), Zcdp(0)) is due


def test_what_is_looked_at_and_what_it_costs_are_public():
    """The same pairs for tables that have nothing in common, for what the division says."""
    looks = []
    for _, curator in (handed(), kept()):
        events = [e for e in curator.journal.events if e["event"] == "measure"]
        workload = parse_workload("all-2way", curator.domain)
        task = Task(curator.domain, workload, (), curator.unit)
        division = AimPlus().divide(task, Zcdp(RHO), ROWS)
        item = division[LOOK]
        looks.append([e["query"]["columns"] for e in events[50:100]])
        assert {e["sigma"] for e in events[50:100]} == {item.sigma}
        assert sum(Fraction(e["rho"]) for e in events[50:100]) == item.total.rho
        assert sum((i.total.rho for i in division.items), Fraction(0)) == RHO
    assert looks[0] == looks[1]
    assert {len(set(pair)) for pair in looks[0]} == {2}
    assert len({tuple(pair) for pair in looks[0]}) == 50


@pytest.mark.parametrize(
    ("options", "columns", "rows"),
    [
        ({"hand_over": "never"}, 50, ROWS),
        ({}, 24, ROWS),  # not wide
        ({"hand_over": "always"}, 5, ROWS),  # a tree holds most of so few pairs
        ({}, 50, 500),  # noise on all pairs would drown them
        ({}, 300, 10**9),  # too many pairs
        ({"rounds": 50, "alpha": 0.99}, 50, ROWS),  # single columns leave nothing to pay it by
    ],
)
def test_no_pair_is_looked_at_where_a_hand_over_cannot_be(options, columns, rows):
    schema = Schema.coded("toy", {f"c{i:03}": 3 for i in range(columns)})
    workload = parse_workload("all-2way", schema.domain)
    mechanism = AimPlus(**options)
    division = mechanism.divide(Task.of(schema, workload), Zcdp(RHO), rows)
    assert not any(item.what == LOOK for item in division.items)
    assert all(float(item.cost) > 0 for item in division.items)


@pytest.mark.parametrize("weight", [1e-100, 1e100])
def test_pairs_that_weigh_nearly_nothing_are_measured_with_noise_that_is_drawn(weight):
    table = source(dense(8))
    first, *others = combinations(NAMES[:8], 2)
    workload = Workload([(Marginal(first), weight), *((Marginal(c), 1.0) for c in others)])
    curator = Curator(table, Ledger(RHO), SeededNoise(3))
    outcome = AimPlus(hand_over="always").run(Task.of(table.schema, workload), curator)
    assert (outcome.model.kind, bool(curator.remaining)) == ("products", False)


def test_a_table_with_structural_zeros_stays_with_the_tree():
    codes = {c: v.copy() for c, v in dense(columns=8).items()}
    codes["c00"][codes["c01"] == 0] = 1
    for zero, first in ((ZERO, "choose"), ("", "measure")):
        outcome, curator = run(SMALL, source(codes, zero))
        events = [e["event"] for e in curator.journal.events if e["event"] != "intent"]
        assert events[8] == first
        if zero:
            assert outcome.model.kind == "graphical"
            assert outcome.model.marginals([("c00", "c01")])[0][0, 0] == 0


def test_a_plan_says_that_it_may_happen_and_what_it_costs():
    schema = source(dense()).schema
    task = Task.of(schema, parse_workload("all-2way", schema.domain))
    plan = AimPlus().plan(task, Zcdp(RHO), ROWS)
    assert [i.times for i in plan.items if i.what == LOOK] == [50]
    assert any("mixture of products" in note for note in plan.notes)
    for mechanism, rows in ((AimPlus(hand_over="never"), ROWS), (AimPlus(), 500)):
        plan = mechanism.plan(task, Zcdp(RHO), rows)
        assert not any(i.what == LOOK for i in plan.items)
        assert not any("mixture" in note for note in plan.notes)
    with pytest.raises(UsageError, match="hand-over is one of wide, always, never"):
        AimPlus(hand_over="sometimes")  # type: ignore[arg-type]


SMALL = AimPlus(hand_over="always", max_megabytes=0.002)
"""Hands over tables of few columns, for whose pairs its tree has no room."""


def test_a_handed_over_release_is_stored_answers_samples_and_is_bounded(tmp_path):
    codes = dense(columns=9, rows=4000)
    release = fit(
        codes,
        Schema.coded("toy", dict.fromkeys(codes, 3)),
        workload="all-2way",
        mechanism=SMALL,
        epsilon=6.0,
        delta=1e-9,
        certify=0.05,
        seed=1,
        out=tmp_path / "release",
    )
    assert release.model.kind == "products"
    restored = Release.load(tmp_path / "release")
    assert any("mixture of products" in note for note in restored.certificate.notes)
    questions = [Question(str(i), Cell(("c00", "c01"), (i, 0))) for i in range(3)]
    assert restored.answer(questions) == release.answer(questions)
    assert restored.bounds() == release.bounds()
    rows = restored.sample_columns(200, seed=2)
    assert {len(values) for values in rows.values()} == {200}
    some = [("c00",), ("c00", "c01"), ("c03", "c08")]
    assert {b.kind for b in restored.evidence.bounds(some, 0.95).values()} == {"supported"}
    with pytest.raises(UsageError, match="cannot be fitted again"):
        restored.replicates(2)


def measurements(curator: Curator) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(from_record(e["query"]), unpack(e["values"]), e["sigma"])
        for e in curator.journal.events
        if e["event"] == "measure"
    )


def test_a_tree_fitted_again_leaves_out_what_it_was_looked_at_by_and_cannot_hold():
    outcome, curator = kept()
    log, tree = measurements(curator), outcome.model
    assert sum(tree.holds(m.query.columns) for m in log) < len(log)
    again = tree.refitted(log, {"shrink": "rounds"})
    assert again.core.tree.cliques == tree.core.tree.cliques
    pairs = [m.query.columns for m in log if len(m.query.columns) == 2]
    for one, two in zip(again.marginals(pairs), tree.marginals(pairs), strict=True):
        assert np.abs(one - two).sum() < 0.01 * ROWS


def test_what_a_model_misses_is_the_mean_squared_effect_but_for_the_strongest_tenth():
    """Effects as what a regression on both columns' levels leaves, by numpy."""
    table = source(dense(columns=6))
    model, _ = run(AimPlus(hand_over="never"), table)
    pairs = parse_workload("all-2way", table.schema.domain).marginals()[:10]
    counts, believed = table.counts(pairs), model.model.marginals(pairs)
    levels = np.eye(3)
    design = np.array([[*levels[i], *levels[j]] for i in range(3) for j in range(3)])
    squares = []
    for exact, said in zip(counts, believed, strict=True):
        off = (exact - said).reshape(-1)
        left = off - design @ np.linalg.lstsq(design, off, rcond=None)[0]
        squares.append(float(left @ left) / model.model.total**2)
    looked = [
        Measurement(Marginal(c), np.array(t), 0.0) for c, t in zip(pairs, counts, strict=True)
    ]
    assert hand_over.missed(model.model, looked) == pytest.approx(np.mean(sorted(squares)[:9]))


@pytest.mark.statistical
def test_noise_does_not_make_a_model_seem_to_miss_more():
    """One pair looked at 400 times. False alarms below 1e-6: five standard deviations."""
    table = source(dense(columns=6))
    pair, sigma, times = ("c00", "c01"), 60.0, 400
    exact = table.counts([pair])[0]
    model = Wrong(exact[::-1], ROWS)
    off = exact - exact[::-1]
    effect = off - off.mean(0) - off.mean(1)[:, None] + off.mean()
    size = float((effect**2).sum())
    rng = np.random.default_rng(0)
    seen = [
        hand_over.missed(model, [Measurement(Marginal(pair), exact + z, sigma)])  # type: ignore[arg-type]
        for z in rng.normal(0, sigma, (times, 3, 3))
    ]
    spread = (4 * size * sigma**2 + 2 * 4 * sigma**4) ** 0.5
    assert size > 5 * spread  # far from 0, below which nothing is missed
    assert np.mean(seen) * model.total**2 == pytest.approx(size, abs=5 * spread / times**0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("square", [0, 2, 20])
def test_leaving_out_the_strongest_does_not_make_noise_seem_to_miss_less(square):
    """60 pairs of 3 by 3 levels, of which a model misses alike, so many times the noise's variance,
    looked at 400 times. About a tenth of what noise spreads is allowed for noise that is not quite
    normal, where without the correction 0.2 are lost. False alarms below 1e-4: the rest is four
    standard deviations."""
    sigma, times, free = 60.0, 400, 4
    table = np.full((3, 3), 1000.0)
    effect = np.outer([1, 0, -1], [1, 0, -1]) * sigma * (square / 4) ** 0.5
    model, rng = Wrong(table, ROWS), np.random.default_rng(0)
    wide = [Marginal(c) for c in combinations(NAMES[:12], 2)][:60]
    found = []
    for _ in range(times):
        noisy = table + effect + rng.normal(0, sigma, (len(wide), 3, 3))
        looked = [Measurement(q, z, sigma) for q, z in zip(wide, noisy, strict=True)]
        found.append(hand_over.missed(model, looked))  # type: ignore[arg-type]
    spread = (2 * free + 4 * square) ** 0.5
    off = abs(np.mean(found) * (ROWS / sigma) ** 2 - square)
    # What is below 0 counts as 0: where nothing is missed, as much as a normal number's half.
    half = spread / 60**0.5 / (2 * np.pi) ** 0.5 if not square else 0.0
    assert off < 0.1 * spread + half + 4 * spread / (60 * times) ** 0.5


@dataclass(frozen=True)
class Wrong:
    """A model that answers one pair badly."""

    said: np.ndarray
    total: float

    def marginals(self, columns):
        return [self.said for _ in columns]


@pytest.mark.parametrize("relation", Neighbours)
def test_neighbours_differ_only_in_what_is_noised(relation):
    """On tables of 30 people and seven columns that are handed over, one person apart."""
    rng = np.random.default_rng(5)
    hidden = rng.integers(0, 8, 31)
    codes = np.array([rng.integers(0, 2, 8)[hidden] for _ in range(7)])
    schema = Schema.coded("toy", dict.fromkeys(NAMES[:7], 2))
    privacy = schema.privacy.model_copy(update={"neighbours": relation})
    schema = schema.model_copy(update={"privacy": privacy})
    keep = np.arange(31) != 17
    tables = [codes, codes[:, keep]]
    if relation is Neighbours.REPLACE:
        other = codes.copy()
        other[:, 17] = 1 - other[:, 17]
        tables = [codes, other]
    sources = [MemorySource.from_codes(dict(zip(NAMES, t, strict=False)), schema) for t in tables]
    mechanism = AimPlus(rounds=14, hand_over="always", max_megabytes=0.001)
    workload = parse_workload("all-2way", schema.domain)
    for one, two in (sources, sources[::-1]):
        curator = Curator(one, Ledger(20), SeededNoise(3))
        outcome = mechanism.run(Task.of(schema, workload), curator)
        assert outcome.model.kind == "products"
        assert compare(mechanism, workload, one, two, Fraction(20), SeededNoise(3)).faults == ()


@pytest.mark.statistical
def test_bounds_and_intervals_of_a_mixture_hold_as_often_as_stated(times):
    """All sets of up to two of nine columns and five counts, each at 80% over all runs. False
    alarms: below 1e-8 for each of 50, so below 1e-6 for the test."""
    table = source(dense(columns=9, rows=4000))
    domain, runs = table.schema.domain, times(12, 60)
    workload = parse_workload("all-2way", domain)
    sets = workload.closure()
    truth = dict(zip(sets, table.counts(sets), strict=True))
    asked = [Question(str(i), Cell(("c00", f"c0{i}"), (i % 3, 1))) for i in range(1, 6)]
    failures: dict[object, int] = {}
    for seed in range(runs):
        outcome, curator = run(SMALL, table, seed, Fraction(1, 2))
        assert outcome.model.kind == "products"
        log = measurements(curator)
        evidence = Evidence(domain, outcome.model, log, outcome.selections)
        believed = dict(zip(sets, outcome.model.marginals(sets), strict=True))
        for r, bound in evidence.bounds(sets, 0.8).items():
            off = float(np.abs(truth[r] - believed[r]).sum())
            failures[r] = failures.get(r, 0) + (off > bound.error)
            assert bound.kind == "supported"
        for answer in evidence.answers(asked, 0.8):
            exact = float(answer.query.answer(truth[answer.query.columns]))
            missed = not answer.low <= exact <= answer.high
            failures[answer.query] = failures.get(answer.query, 0) + missed
    assert max(failures.values()) <= binom.isf(1e-8, runs, 0.2)
