"""All k-way marginals as a rule: closed forms against lists, a sample that is right in the mean."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import AdmeasureError, ResourceError, WorkloadError
from admeasure.evaluation import compare
from admeasure.mechanisms import build
from admeasure.planning.division import Task
from admeasure.queries import Marginal
from admeasure.schema import Schema
from admeasure.selectors.improvement import closure_weights
from admeasure.sources.memory import MemorySource
from admeasure.unit import Unit
from admeasure.verbs.plan import plan
from admeasure.workload import KWay, Workload, parse_workload

NAMES = tuple("abcdef")
TARGETS = [None, "c"]


def listed(rule: KWay) -> Workload:
    """The rule's marginals one by one, found without it."""
    sets = combinations(rule.columns, rule.k)
    return Workload(Marginal(c) for c in sets if rule.target is None or rule.target in c)


def wide(columns: int, levels: int = 4) -> Domain:
    return Domain.of({f"c{i:04}": levels for i in range(columns)})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_what_reads_a_set_is_counted_as_in_the_list(k: int, target: str | None) -> None:
    rule = KWay.of(NAMES, k, target)
    sets = [c for size in range(1, 7) for c in combinations(NAMES, size)]
    assert [rule.reading(c) for c in sets] == listed(rule).reading(sets)
    assert rule.count == len(listed(rule))
    assert rule.reading(("x",)) == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_sampled_workload_weighs_candidates_as_the_list_does(target: str | None) -> None:
    rule = KWay.of(NAMES, 3, target, looked_at=4)
    sampled, whole = closure_weights(Workload.by_rule(rule)), closure_weights(listed(rule))
    assert sampled == {r: whole[r] for r in sampled}
    assert {r for r in whole if len(r) < 3} == sampled.keys()


def test_few_marginals_are_the_list_that_they_always_were() -> None:
    domain = wide(40)
    for text in ("all-2way", "all-3way", "target:c0007:3way"):
        workload = parse_workload(text, domain)
        assert workload.rule is None
        assert not workload.sampled
        assert not workload.looked_at
    rule = KWay.of(domain.columns, 3)
    assert parse_workload("all-3way", domain) == listed(rule)
    assert "[[marginal]]" in parse_workload("all-3way", domain).dumps()


def test_up_to_a_public_size_all_are_looked_at() -> None:
    whole, part = (parse_workload("all-3way", wide(columns)) for columns in (59, 60))
    assert len(whole) == whole.asked == math.comb(59, 3)
    assert not whole.sampled
    assert set(whole.closure()) == set(listed(KWay.of(wide(59).columns, 3)).closure())
    assert part.asked == math.comb(60, 3) > len(part)
    assert part.sampled
    pairs = parse_workload("all-2way", wide(500))
    assert len(pairs) == math.comb(500, 2)
    assert not pairs.sampled


def test_pairs_are_chosen_among_also_where_not_all_are_looked_at() -> None:
    workload = parse_workload("all-2way", wide(600))
    pairs = [r for r in closure_weights(workload) if len(r) == 2]
    assert sorted(pairs) == sorted(workload.marginals())
    assert 2**16 < len(pairs) < workload.asked


@pytest.mark.parametrize("text", ["all-3way", "target:c0007:4way", "all-2way"])
def test_2000_columns_have_a_workload(text: str) -> None:
    domain = wide(2000)
    workload = parse_workload(text, domain)
    assert workload.sampled
    assert workload.asked > 10**6 > 2**17 >= len(workload)
    assert math.fsum(w for _, w in workload.entries) == pytest.approx(workload.asked)
    assert f"{workload.asked:,}" in workload.looked_at
    assert Workload.loads(workload.dumps(), domain=domain) == workload
    assert Workload.loads(workload.dumps()).marginals() == workload.marginals()
    workload.validate(domain)


def test_a_rule_in_a_file_may_name_columns_and_the_size_of_its_sample() -> None:
    domain = wide(30)
    found = Workload.loads("[all]\nk = 3\nlooked_at = 50\n", domain=domain)
    assert len(found) == 50
    assert found.asked == math.comb(30, 3)
    assert found.sampled
    few = Workload.loads('[all]\nk = 2\ncolumns = ["c0001", "c0002", "c0003"]\n', domain=domain)
    assert few == Workload(Marginal(c) for c in combinations(("c0001", "c0002", "c0003"), 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[all]\n", "k is missing"),
        ("[[all]]\nk = 2\n", "single brackets"),
        ("[all]\nk = 2\nways = 3\n", "no key 'ways'"),
        ("[all]\nk = 31\n", "from 1 to 30"),
        ("[all]\nk = true\n", "whole number"),
        ("[all]\nk = 2\nlooked_at = 0\n", "from 1 to 435"),
        ("[all]\nk = 2\nlooked_at = 436\n", "from 1 to 435"),
        ('[all]\nk = 1\ncolumns = ["zz"]\n', "'zz'"),
        ('[all]\nk = 2\ntarget = "zz"\n', "'zz'"),
        ("[all]\nk = 2\ntarget = 3\n", "name of a column"),
        ('[all]\nk = 2\n[[marginal]]\ncolumns = ["c0001"]\n', "stands alone"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        Workload.loads(text, name="w.toml", domain=wide(30))


def test_more_than_a_number_can_count_is_refused() -> None:
    with pytest.raises(ResourceError, match=r"fewer columns, such as all-3way"):
        parse_workload("all-250way", wide(500))


def test_marginals_with_too_many_subsets_are_refused_before_they_are_made() -> None:
    workload = Workload([Marginal(wide(40, 2).columns)])
    with pytest.raises(ResourceError, match="subsets"):
        workload.closure()


def renamed(rule: KWay, number: int) -> list[Columns]:
    """The sample of the same rule on columns of other names, by the old names."""
    again = KWay.of([f"{number}.{c}" for c in rule.columns], rule.k, None, rule.looked_at)
    return [tuple(c.split(".")[1] for c in columns) for columns in again.marginals()]


@pytest.mark.statistical
def test_every_marginal_is_as_likely_to_be_looked_at_as_any_other() -> None:
    """Over names, which decide the draw: chi-squared of inclusions, for draws without replacement;
    false alarms below 1e-6."""
    rule, draws = KWay.of(NAMES, 3, None, looked_at=5), 2000
    found = dict.fromkeys(combinations(NAMES, 3), 0)
    for number in range(draws):
        for columns in renamed(rule, number):
            found[columns] += 1
    share = 5 / 20
    counts = np.array(list(found.values()))
    # Inclusions of one draw have variance s(1 - s), and their sum has none.
    chi = np.square(counts - draws * share).sum() / (draws * share * (1 - share)) * (19 / 20)
    assert stats.chi2.sf(chi, 19) > 1e-7
    assert set(counts.tolist()) != {draws * share}


def answers(rng: np.random.Generator, rows: int) -> MemorySource:
    """A table of eight columns, three of them the same and two others dependent."""
    base = rng.integers(0, 2, rows)
    codes = {c: rng.integers(0, 2, rows) for c in "abcdefgh"}
    codes |= dict.fromkeys("bdg", base) | {"h": (codes["a"] + (rng.random(rows) < 0.3)) % 2}
    return MemorySource.from_codes(codes, Schema.coded("t", dict.fromkeys("abcdefgh", 2)))


def even(sets: list[Columns]) -> list[np.ndarray]:
    return [np.full((2,) * len(c), 100 / 2 ** len(c)) for c in sets]


def error_of(source: MemorySource, workload: Workload) -> tuple[float, float, dict[Columns, float]]:
    found = compare(source.counts, even, workload, source.schema.domain)
    return found.workload_error, found.standard_error, {w.columns: w.error for w in found.worst}


@pytest.mark.statistical
def test_the_error_of_a_sample_is_right_in_the_mean_and_its_standard_error_true() -> None:
    """Means of 400 draws of the sample against the errors of all marginals, in exact standard
    errors; false alarms below 1e-6 (5 sigma both ways)."""
    source = answers(np.random.default_rng(1), 200)
    rule = KWay.of("abcdefgh", 3, None, looked_at=20)
    each = {c: error_of(source, Workload([Marginal(c)]))[0] for c in combinations("abcdefgh", 3)}
    all_errors = np.array(list(each.values()))
    means = [np.mean([each[c] for c in renamed(rule, i)]) for i in range(400)]
    exact = all_errors.std(ddof=1) * math.sqrt((1 - 20 / 56) / 20)
    assert abs(np.mean(means) - all_errors.mean()) < 5 * exact / math.sqrt(400)
    mean, said, _ = error_of(source, Workload.by_rule(rule))
    looked = [each[c] for c in rule.marginals()]
    assert mean == pytest.approx(np.mean(looked))
    assert said == pytest.approx(np.std(looked, ddof=1) * math.sqrt((1 - 20 / 56) / 20))
    spread = np.std(means, ddof=1) / exact  # chi-squared of 399 degrees: within 1 ± 5 / sqrt(800)
    assert abs(spread - 1) < 5 / math.sqrt(800)


def test_the_worst_marginal_is_found_though_it_is_not_in_the_sample() -> None:
    source = answers(np.random.default_rng(2), 2000)
    worst = canonical("bdg")
    rule = next(
        r
        for m in range(6, 30)
        if worst not in (r := KWay.of("abcdefgh", 3, None, looked_at=m)).marginals()
        and any(len({*c} & {*worst}) == 2 for c in r.marginals())
    )
    each = {c: error_of(source, Workload([Marginal(c)]))[0] for c in combinations("abcdefgh", 3)}
    assert max(each, key=lambda c: each[c]) == worst
    _, _, found = error_of(source, Workload.by_rule(rule))
    assert found == {c: pytest.approx(each[c]) for c in found}
    assert worst in found
    assert len(found) == 5


def test_a_list_has_no_standard_error() -> None:
    source = answers(np.random.default_rng(3), 50)
    found = compare(source.counts, even, listed(KWay.of("abcd", 2)), source.schema.domain)
    assert (found.asked, found.standard_error) == (6, 0.0)
    assert found.marginals == 6


def test_the_plan_says_what_part_is_looked_at() -> None:
    schema = Schema.coded("t", {f"c{i}": 2 for i in range(110)})
    notes = plan(schema, workload="all-3way", epsilon=1, rows=1000).plan.notes
    assert any("16,384 of them (7.59%)" in note and "215,820" in note for note in notes)


def test_a_small_part_is_not_said_to_be_nothing() -> None:
    assert "(0.001%)" in parse_workload("all-3way", wide(2000)).looked_at


def test_a_plan_of_more_columns_takes_no_less_though_not_all_pairs_are_looked_at() -> None:
    schemas = [Schema.coded("t", dict.fromkeys(wide(n).columns, 4)) for n in (500, 600)]
    few, more = (plan(s, workload="all-2way", epsilon=1, rows=5000).plan for s in schemas)
    assert more.seconds >= few.seconds
    assert more.megabytes >= few.megabytes / 2


@pytest.mark.parametrize("name", ["gaussian", "residual"])
def test_who_answers_only_what_it_measures_refuses_a_sample(name: str, tmp_path: Path) -> None:
    rule = KWay.of(NAMES, 3, None, looked_at=4)
    task = Task(Domain.of(dict.fromkeys(NAMES, 2)), Workload.by_rule(rule), (), Unit())
    with pytest.raises(AdmeasureError, match=r"20 marginals of 3 columns.*aim-plus"):
        build(name).check(task)
