"""The certificate of accuracy: what it costs is kept back and spent, it moves no further between
neighbours than declared, survives a kill, and is what the log says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admeasure.auditing.release import audit_release
from admeasure.auditing.replay import compare
from admeasure.bounds import Evidence
from admeasure.errors import BudgetError, ReleaseError, ResourceError, UsageError
from admeasure.families.answers import AnswersModel
from admeasure.measurement import Measurement, NoisyErrors, mean_factor
from admeasure.mechanisms import REGISTRY, Mechanism, build
from admeasure.planning import certified
from admeasure.planning.division import Task
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.journal import unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.scores.score import GRID, rounding, to_grid
from admeasure.privacy.scores.streamed import CellErrors
from admeasure.privacy.workload_errors import WorkloadErrors
from admeasure.queries import Marginal, Threshold
from admeasure.release import Release
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.unit import Neighbours, Unit
from admeasure.verbs.fit import fit
from admeasure.verbs.plan import plan
from admeasure.workload import Workload, parse_workload

LEVELS = {"a": 3, "b": 2, "c": 2}
SCHEMA = Schema.coded("toy", LEVELS)
FRAGILE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
ROWS = {c: np.random.default_rng(0).integers(0, n, 400) for c, n in LEVELS.items()}


@dataclass(frozen=True)
class Certifying:
    """A mechanism with its last step, for whoever runs mechanisms."""

    mechanism: Mechanism
    share: Fraction = Fraction(1, 10)

    def run(self, task, curator):
        return certified.run(self.mechanism, task, curator, self.share)


def source(relation: Neighbours, rows: list[tuple[int, ...]]) -> MemorySource:
    privacy = SCHEMA.privacy.model_copy(update={"neighbours": relation.value})
    schema = SCHEMA.model_copy(update={"privacy": privacy})
    columns = np.array(rows).T
    return MemorySource.from_codes(dict(zip(LEVELS, columns, strict=True)), schema)


@pytest.mark.parametrize("name", REGISTRY)
def test_with_a_certificate_neighbours_differ_by_no_more_than_declared(
    name, small, served, tally, times
):
    mechanism = small(name, SCHEMA)
    seeds = count()
    row = st.tuples(*(st.integers(0, n - 1) for n in LEVELS.values()))
    examples = times(2, 60)

    @settings(max_examples=examples, deadline=None, suppress_health_check=FRAGILE, database=None)
    @given(st.sampled_from(Neighbours), st.lists(row, min_size=1, max_size=8), row, row)
    def over_random_tables(relation, others, one, other):
        before = [*others, one] if relation is Neighbours.REPLACE else others
        pair = source(relation, before), source(relation, [*others, other])
        workload = served(mechanism, SCHEMA)
        certifying: Mechanism = Certifying(mechanism)  # type: ignore[assignment]
        found = compare(certifying, workload, *pair, Fraction(1, 2), SeededNoise(next(seeds)))
        assert found.faults == ()
        assert found.moves[-1].event["event"] == "statistic"

    over_random_tables()
    tally("neighbour replay: pairs compared with a certificate", examples)


class Believed:
    """A model that answers what it is told."""

    def __init__(self, answers: list[np.ndarray]) -> None:
        self.answers = answers

    def marginals(self, columns):
        return self.answers[: len(columns)]


@pytest.mark.parametrize("relation", Neighbours)
def test_errors_move_by_no_more_than_stated_in_the_arithmetic_used(relation, times):
    """Adversarial answers (halfway between points of the grid, tiny, huge, negative)."""
    rng = np.random.default_rng(1)
    domain = Schema.coded("toy", {"a": 4, "b": 3}).domain
    weights = {Marginal(("a",)): 0.1, Marginal(("b",)): 3.0, Marginal(("a", "b")): 1e-3}
    workload = Workload(weights)
    nearest = 0.0
    for _ in range(times(500, 20_000)):
        unit = Unit(relation, int(rng.integers(1, 4)))
        shapes = [domain.shape(r) for r in workload.marginals()]
        scale = 10.0 ** rng.integers(-9, 6)
        model = Believed([(rng.integers(-(2**12), 2**12, s) + 0.5) / 4096 * scale for s in shapes])
        joint = rng.integers(0, 50, (4, 3))
        own = [np.zeros((4, 3), np.int64), np.zeros((4, 3), np.int64)]
        own[1][rng.integers(4), rng.integers(3)] = unit.max_rows
        if relation is Neighbours.REPLACE:
            own[0][rng.integers(4), rng.integers(3)] = unit.max_rows
        statistic = WorkloadErrors(model, workload, domain)  # type: ignore[arg-type]
        found = [statistic.of([t.sum(1), t.sum(0), t]) for t in (joint + own[0], joint + own[1])]
        moved = np.abs(found[1] - found[0]).astype(object)
        assert (moved[1:] <= unit.rows_changed).all()
        assert moved[0] <= mean_factor(3) * unit.rows_changed
        squared = int((moved**2).sum())
        assert squared <= statistic.l2_squared(unit)
        nearest = max(nearest, squared / statistic.l2_squared(unit))
    assert nearest == 1.0  # the search reaches what is allowed


def test_the_errors_are_those_of_the_model_and_their_weighted_mean():
    domain = Schema.coded("toy", {"a": 2, "b": 2}).domain
    workload = Workload({Marginal(("a",)): 1.0, Marginal(("b",)): 3.0})
    model = Believed([np.array([10.0, 4.25]), np.array([0.0, 0.0])])
    statistic = WorkloadErrors(model, workload, domain)  # type: ignore[arg-type]
    values = statistic.of([np.array([12, 4]), np.array([6, 10])])
    # 2.25 and 16 rows; (2.25 + 3 * 16) / 4 = 12.5625
    assert values.tolist() == [12, 2, 16]


def test_what_is_kept_back_is_what_the_plan_says_and_what_is_spent():
    planned = plan(SCHEMA, workload="all-2way", epsilon=1, delta=1e-6, certify=0.05)
    (last,) = [i for i in planned.plan.items if i.what.startswith("errors of")]
    assert float(last.total.ratio(planned.budget)) == pytest.approx(0.05)
    release = fit(ROWS, SCHEMA, workload="all-2way", epsilon=1, delta=1e-6, certify=0.05)
    (charged,) = [c for c in release.certificate.charges if c.what == last.what]
    assert charged.rho == float(last.cost)
    assert release.errors is not None
    assert release.errors.sigma == last.sigma
    assert "Mean error" in release.certificate.accuracy


def test_a_plan_counts_the_time_that_errors_of_many_triples_take():
    """16,384 of 100 columns took 35 of the 54 CPU seconds of a run on 50,000 rows; a quarter of
    them is looked at now."""
    wide = Schema.coded("wide", {f"c{i:03}": 4 for i in range(100)})
    with_it, without = (
        plan(wide, workload="all-3way", epsilon=1, rows=50_000, certify=share).plan.seconds
        for share in (0.05, 0)
    )
    assert 2.5 < with_it - without < 10


MANY = Schema.coded("many", {f"c{i:02}": 2 for i in range(31)})
"""4,495 triples."""


def certified_release(out) -> Release:
    rng = np.random.default_rng(0)
    return fit(
        {c: rng.integers(0, 2, 300) for c in MANY.domain.columns}, MANY,
        workload="all-3way", mechanism="independent", epsilon=10, delta=1e-6, certify=0.5,
        seed=1, out=out,
    )  # fmt: skip


def test_of_many_marginals_a_public_sample_is_certified(tmp_path):
    release = certified_release(tmp_path / "release")
    assert release.errors is not None
    assert len(release.errors.marginals) == 4096
    assert "over the 4,096 marginals" in release.certificate.accuracy
    assert "a public sample of its 4,495 marginals" in release.certificate.accuracy
    again = Release.load(tmp_path / "release")
    assert again.errors is not None
    assert again.errors.marginals == release.errors.marginals
    assert audit_release(tmp_path / "release").holds
    (note,) = (
        n for n in plan(MANY, workload="all-3way", epsilon=10, rows=300, certify=0.5).plan.notes
        if "accuracy certificate" in n
    )  # fmt: skip
    assert "of 4,096 marginals, a public sample, the mean error" in note


def test_the_sample_follows_from_nothing_that_another_python_may_draw_otherwise(monkeypatch):
    """The marginals that a release states the errors of are drawn again to read it."""
    workload = parse_workload("all-3way", MANY.domain)
    drawn = Workload(workload.queries).certified.marginals()
    for name in ("sample", "shuffle", "choice", "choices", "randrange", "getrandbits"):
        monkeypatch.setattr(f"random.Random.{name}", None)
    assert workload.certified.marginals() == drawn


def test_errors_of_another_sample_than_is_drawn_are_refused(tmp_path, monkeypatch):
    """As a version would read them that draws otherwise; bounds of other marginals would follow."""
    certified_release(tmp_path / "release")
    whole = parse_workload("all-3way", MANY.domain)
    other = Workload(whole.queries[-4096:])
    monkeypatch.setattr(Workload, "certified", property(lambda workload: other))
    with pytest.raises(ReleaseError, match="other marginals than this version draws"):
        Release.load(tmp_path / "release")


def test_a_release_that_states_the_errors_of_all_of_many_marginals_still_loads(
    tmp_path, monkeypatch
):
    """As releases did before samples were certified."""
    with monkeypatch.context() as before:
        before.setattr(Workload, "certified", property(lambda workload: workload))
        certified_release(tmp_path / "release")
    release = Release.load(tmp_path / "release")
    assert release.errors is not None
    assert len(release.errors.marginals) == 4495
    assert audit_release(tmp_path / "release").holds


def test_a_sample_of_marginals_keeps_what_they_weigh():
    columns = [f"c{i:03}" for i in range(30)]
    queries: dict[Any, float] = {Marginal(c): 2.0 for c in combinations(columns, 3)}
    queries |= {Threshold(c, 2): 0.5 for c in combinations(columns[:20], 4)}
    workload = Workload(queries)
    part = workload.certified
    assert len(part.marginals()) == 4096 < len(workload.marginals())
    assert part.entries == tuple(e for e in workload.entries if e[0] in part)
    assert part.certified is part


def test_a_part_of_a_ledger_spends_of_the_whole_and_no_more_than_its_own():
    whole = Ledger(Fraction(1))
    part = whole.part(Fraction(1, 2))
    part.charge(Fraction(1, 4), "x")
    assert whole.remaining.rho == Fraction(3, 4)  # type: ignore[attr-defined]
    with pytest.raises(BudgetError):
        part.charge(Fraction(1, 2), "y")
    whole.charge(Fraction(5, 8), "z")
    with pytest.raises(BudgetError):  # the whole has less left than the part may spend
        part.charge(Fraction(1, 4), "y")
    assert part.remaining.rho == Fraction(1, 4)  # type: ignore[attr-defined]


class Zeros:
    """A model without rows that answers in blocks."""

    placed = None

    def __init__(self, domain) -> None:
        self.domain = domain

    def blocks(self, query):
        yield np.zeros(self.domain.cells(query.columns))


class Counting(MemorySource):
    """A table that knows how often it was read."""

    passes = 0

    def counts(self, marginals):
        self.passes += 1
        return super().counts(marginals)


def test_a_curator_for_a_part_of_the_budget_reads_as_much_at_once_as_the_whole_one():
    """Streamed scores of several marginals: one pass, and none where the whole one has read."""
    candidates = [Marginal(pair) for pair in (("a", "b"), ("a", "c"), ("b", "c"))]
    table = Counting.from_codes(ROWS, SCHEMA)
    whole = Curator(table, Ledger(1), SeededNoise(0))
    part = whole.within(whole.budget * Fraction(1, 2))
    score = CellErrors(Zeros(SCHEMA.domain))  # type: ignore[arg-type]
    part.choose(score, candidates, Fraction(1, 4))
    assert isinstance(table, Counting)
    assert table.passes == 1
    whole.measure(candidates, Fraction(1, 4))
    assert table.passes == 1


def test_what_was_known_before_is_joined_in_a_part_of_the_budget_too_and_once():
    """Bins of a column tell its counts, which were paid for, also where a run is certified."""
    query = Marginal(("a",))
    known = Measurement(query, np.zeros(SCHEMA.domain["a"]), sigma=1.0)
    whole = Curator(MemorySource.from_codes(ROWS, SCHEMA), Ledger(1), SeededNoise(0), known=[known])
    part = whole.within(whole.budget * Fraction(1, 2))
    (first,) = part.measure([query], Fraction(1, 4))
    assert first.sigma < known.sigma
    for curator in (part, whole):
        (later,) = curator.measure([query], Fraction(1, 8))
        assert later.sigma == Zcdp(Fraction(1, 8)).sigma(SCHEMA.unit.marginal_l2_squared)


def test_a_run_that_ends_after_its_certificate_was_drawn_keeps_it(tmp_path):
    seen = []

    def stop(event):
        if event["event"] == "statistic":
            seen.append(unpack(event["values"]))
            raise KeyboardInterrupt

    given = {"workload": "all-2way", "mechanism": build("mst"), "epsilon": 1, "delta": 1e-6}
    out = tmp_path / "release"
    with pytest.raises(KeyboardInterrupt):
        fit(ROWS, SCHEMA, **given, certify=0.1, out=out, listeners=(stop,))
    with pytest.raises(UsageError, match="certify"):
        fit(ROWS, SCHEMA, **given, certify=0.2, out=out, resume=True)
    release = fit(ROWS, SCHEMA, **given, certify=0.1, out=out, resume=True)
    assert release.errors is not None
    assert len(seen) == 1
    np.testing.assert_array_equal(release.errors.values, seen[0])
    assert audit_release(out).holds


def test_an_audit_finds_errors_that_are_not_those_of_the_log(tmp_path):
    release = fit(ROWS, SCHEMA, workload="all-2way", epsilon=1, delta=1e-6, certify=0.1)
    release.save(tmp_path / "sound")
    assert audit_release(tmp_path / "sound").holds
    assert release.errors is not None
    loaded = Release.load(tmp_path / "sound")
    assert loaded.errors is not None
    np.testing.assert_array_equal(loaded.errors.values, release.errors.values)
    better = NoisyErrors(release.errors.marginals, release.errors.values - 1, release.errors.sigma)
    replace(release, errors=better).save(tmp_path / "better")
    assert not audit_release(tmp_path / "better").holds


@pytest.mark.parametrize("share", [-0.1, 1.0, 7.0, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UsageError, match="share for the accuracy certificate"):
        plan(SCHEMA, workload="all-2way", epsilon=1, certify=share)


def test_marginals_that_cannot_be_counted_are_refused_before_anything_is_charged():
    schema = Schema.coded("wide", {"a": 1000, "b": 1000, "c": 1000})
    task = Task.of(schema, parse_workload("all-3way", schema.domain))
    with pytest.raises(ResourceError, match="certify"):
        certified.check(task, Fraction(1, 10))


def test_thresholds_are_certified_by_the_marginals_that_they_read():
    task = Task.of(SCHEMA, Workload([Threshold(("a", "b"), 1)]))
    curator = Curator(MemorySource.from_codes(ROWS, SCHEMA), Ledger(50), SeededNoise(0))
    outcome = certified.run(build("independent"), task, curator, Fraction(1, 2))
    assert outcome.errors is not None
    assert outcome.errors.marginals == (("a", "b"),)


def test_the_mean_error_of_marginals_that_weigh_alike_is_known_from_each_of_them_too():
    """The mean of m noisy errors has the noise of one divided by √m; weights that differ leave the
    mean that was bought."""
    sets = parse_workload("all-2way", SCHEMA.domain).marginals()
    model = AnswersModel(SCHEMA.domain, 0.0, {}, {})
    values = np.array([50, *range(100, 100 + len(sets))])
    for alike, expected, scale in (
        (False, 50 / mean_factor(len(sets)), mean_factor(len(sets))),
        (True, values[1:].mean(), len(sets) ** 0.5),
    ):
        errors = NoisyErrors(sets, values.copy(), 20.0, weighs_alike=alike)
        mean = Evidence(SCHEMA.domain, model, (), (), errors=errors).mean_error(0.95)
        assert mean is not None
        assert mean.value == pytest.approx(expected)
        assert mean.high - mean.low == pytest.approx(2 * 1.96 * 20 / scale, abs=1.5)


def test_no_interval_of_a_mean_error_passes_what_rounding_and_the_table_allow():
    """A hundred million cells, rounded to 1/4096 row each, of a model that has 2,000 rows."""
    domain = Schema.coded("codes", {"a": 10_000, "b": 10_000}).domain
    model: Any = SimpleNamespace(adds_up=True, total=2000.0)
    errors = NoisyErrors((("a", "b"),), np.array([2000, 2000]), 10.0)
    mean = Evidence(domain, model, (), (), errors=errors).mean_error(0.95)
    assert mean is not None
    # Rows that are all elsewhere than the model's are 4,000 rows off, and on the grid, 2,000.
    assert mean.low == 0
    assert 4000 <= mean.high < 4000 + 4 * 10
    assert mean.in_words(1, 2000.0).startswith("Mean error 1.0 ± 1.0:")
    assert mean.in_words(1, 1000.0).startswith("Mean error 1.0 ± 1.0:")


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e-2, 1.0])
def test_rounding_moves_answers_by_no_more_than_is_said(scale):
    answers = np.random.default_rng(0).exponential(scale, 10_000)
    moved = np.abs(to_grid(answers) / GRID - answers).sum()
    assert moved <= rounding(answers.size, answers.sum())


@pytest.mark.parametrize(
    ("rows", "epsilon", "said"),
    [
        (20, 0.1, "will state nothing: "),
        (200, 1, "rows, and nothing of single marginals"),
        (None, 0.1, "and that of each marginal within"),
        (20_000, 1, "and that of each marginal within"),
    ],
)
def test_a_plan_states_no_precision_that_says_nothing(rows, epsilon, said):
    wide = Schema.coded("wide", {f"c{i}": 4 for i in range(30)})
    planned = plan(
        wide, workload="all-2way", epsilon=epsilon, rows=rows, mechanism="mst", certify=0.05
    )
    (note,) = [n for n in planned.plan.notes if "certificate" in n]
    assert said in note
    if rows:
        stated = [int(n.replace(",", "")) for n in re.findall(r"within ([\d,]+)", note)]
        assert all(n < rows for n in stated)


def test_a_workload_says_whether_its_marginals_weigh_alike():
    pair, other = Marginal(("a", "b")), Marginal(("b", "c"))
    assert Workload([(pair, 2.0), (other, 2.0)]).weighs_alike
    assert not Workload([(pair, 2.0), (other, 1.0)]).weighs_alike
