"""The search of rows: nearer to the model with every change, and never where no row may be."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.cli.run import run
from admeasure.domain import Domain
from admeasure.errors import UsageError
from admeasure.families.explicit import ExplicitModel
from admeasure.queries import Marginal
from admeasure.release import Release
from admeasure.release.search import (
    MAX_CELLS,
    Effort,
    Target,
    improve,
    is_quick,
    target_weights,
    targets_of,
)
from admeasure.schema import Schema, Zero
from admeasure.workload import Workload, parse_workload

DOMAIN = Domain(("b", "a", "c"), (3, 2, 3))
TO_THE_END = Effort(passes=None, share=1.0, blocks=2)


def counted(rows: np.ndarray, target: Target, domain: Domain = DOMAIN) -> np.ndarray:
    counts = np.zeros(target.counts.shape)
    for row in rows:
        counts[tuple(row[domain.columns.index(c)] for c in target.columns)] += 1
    return counts


def distance(rows: np.ndarray, targets: list[Target], domain: Domain = DOMAIN) -> float:
    """What the search promises to lower, computed from nothing but the rows."""
    return sum(
        t.weight * ((counted(rows, t, domain) - t.counts) ** 2 / (t.counts + 1)).sum()
        for t in targets
    )


def as_codes(rows: np.ndarray, domain: Domain = DOMAIN) -> dict[str, np.ndarray]:
    return {c: rows[:, a].copy() for a, c in enumerate(domain.columns)}


def as_rows(codes: dict[str, np.ndarray], domain: Domain = DOMAIN) -> np.ndarray:
    return np.stack([codes[c] for c in domain.columns], axis=1)


def random_case(seed: int, rows: int) -> tuple[np.ndarray, list[Target]]:
    """Rows, and targets that are marginals of one random distribution."""
    rng = np.random.default_rng(seed)
    whole = rng.dirichlet(np.full(18, 0.5)).reshape(3, 2, 3) * rows
    targets = [
        Target(("a", "b"), whole.sum(axis=2).T, 1.0),
        Target(("b", "c"), whole.sum(axis=1), 0.5),
        Target(("a",), whole.sum(axis=(0, 2)), 0.25),
    ]
    return np.stack([rng.integers(0, n, rows) for n in DOMAIN.levels], axis=1), targets


def single_changes(rows: np.ndarray) -> Any:
    for i, a in itertools.product(range(len(rows)), range(3)):
        for value in range(DOMAIN.levels[a]):
            changed = rows.copy()
            changed[i, a] = value
            yield changed


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_at_the_end_no_single_change_improves(seed: int, count: int) -> None:
    rows, targets = random_case(seed, count)
    found = as_rows(
        improve(as_codes(rows), DOMAIN, targets, np.random.default_rng(0), effort=TO_THE_END)
    )
    best = min(distance(changed, targets) for changed in single_changes(found))
    assert best >= distance(found, targets) - 1e-6
    assert distance(found, targets) <= distance(rows, targets) + 1e-6


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_one_column_ends_at_the_best_of_all_tables(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    target = Target(("b",), rng.dirichlet(np.ones(3)) * count, 1.0)
    rows = np.stack([rng.integers(0, n, count) for n in DOMAIN.levels], axis=1)
    found = improve(as_codes(rows), DOMAIN, [target], rng, effort=TO_THE_END)

    def of(column: Any) -> float:
        return distance(np.stack([column, rows[:, 1], rows[:, 2]], axis=1), [target])

    best = min(of(column) for column in itertools.product(range(3), repeat=count))
    assert of(found["b"]) == pytest.approx(best, abs=1e-6)
    for other in ("a", "c"):  # no target reads them
        np.testing.assert_array_equal(found[other], as_codes(rows)[other])


@pytest.mark.parametrize("seed", range(3))
def test_of_some_starts_one_ends_at_the_best_of_all_tables(seed: int) -> None:
    _, targets = random_case(seed, 4)
    tables = itertools.combinations_with_replacement(np.ndindex(*DOMAIN.levels), 4)
    best = min(distance(np.array(table), targets) for table in tables)
    ends = []
    for start in range(20):
        rng = np.random.default_rng(start)
        rows = np.stack([rng.integers(0, n, 4) for n in DOMAIN.levels], axis=1)
        found = improve(as_codes(rows), DOMAIN, targets, rng, effort=TO_THE_END)
        ends.append(distance(as_rows(found), targets))
    assert min(ends) == pytest.approx(best, abs=1e-6)


def test_the_distance_falls_from_pass_to_pass() -> None:
    rows, targets = random_case(7, 500)
    run_of = [
        improve(
            as_codes(rows),
            DOMAIN,
            targets,
            np.random.default_rng(0),
            effort=Effort(passes=p, share=0.05),
        )
        for p in range(5)
    ]
    distances = [distance(as_rows(found), targets) for found in run_of]
    assert distances[0] == distance(rows, targets)
    assert distances[1] < distances[0]
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(distances))


def test_what_is_chosen_does_not_depend_on_the_order_of_sums() -> None:
    domain = Domain(tuple("abcdef"), (3,) * 6)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (400, 6))
    # Even targets: many changes would gain alike, up to rounding.
    targets = [
        Target(pair, np.full((3, 3), 400 / 9), 1 / (3 + i % 4))
        for i, pair in enumerate(itertools.combinations(domain.columns, 2))
    ]
    one, two = (
        improve(as_codes(rows, domain), domain, order, np.random.default_rng(1))
        for order in (targets, targets[::-1])
    )
    np.testing.assert_array_equal(as_rows(one, domain), as_rows(two, domain))


@pytest.mark.parametrize("seed", range(4))
def test_no_row_enters_a_zero_or_a_cell_that_the_model_holds_impossible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, targets = random_case(seed, 300)
    mask = rng.random((2, 3, 3)) < 0.4
    mask[0, 0, 0] = False
    targets[1].counts[1, 2] = 0.0
    rows[:] = 0  # far from every target, outside both
    found = improve(
        as_codes(rows),
        DOMAIN,
        [*targets, Target.closed(Zero(("a", "b", "c"), mask))],
        rng,
        effort=TO_THE_END,
    )
    assert not mask[found["a"], found["b"], found["c"]].any()
    assert not ((found["b"] == 1) & (found["c"] == 2)).any()
    assert distance(as_rows(found), targets) < distance(rows, targets)


def test_of_many_values_some_are_tried_and_the_types_stay() -> None:
    domain = Domain(("x", "y"), (300, 2))
    rng = np.random.default_rng(0)
    codes = {"x": rng.integers(0, 300, 900).astype(np.uint16), "y": rng.integers(0, 2, 900)}
    target = Target(("x", "y"), np.full((300, 2), 1.5), 1.0)
    found = improve(codes, domain, [target], rng, effort=Effort(share=1.0, values=8))
    assert {c: found[c].dtype for c in found} == {c: codes[c].dtype for c in codes}
    assert distance(as_rows(found, domain), [target], domain) < distance(
        as_rows(codes, domain), [target], domain
    )


def test_a_search_without_time_leaves_the_rows_and_one_without_rows_ends() -> None:
    rows, targets = random_case(1, 50)
    rng = np.random.default_rng(0)
    found = improve(as_codes(rows), DOMAIN, targets, rng, seconds=0.0)
    np.testing.assert_array_equal(as_rows(found), rows)
    none = improve(as_codes(rows[:0]), DOMAIN, targets, rng, effort=TO_THE_END)
    assert as_rows(none).shape == (0, 3)


def test_a_search_ends_where_a_pass_changes_nothing_whatever_part_it_looks_at() -> None:
    rows, targets = random_case(2, 60)
    effort = Effort(passes=None, share=0.3)
    found = improve(as_codes(rows), DOMAIN, targets, np.random.default_rng(0), effort=effort)
    assert distance(as_rows(found), targets) < distance(rows, targets)


def test_progress_rises_to_one() -> None:
    rows, targets = random_case(1, 50)
    told: list[float] = []
    improve(as_codes(rows), DOMAIN, targets, np.random.default_rng(0), tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_targets_are_the_workload_and_what_was_measured_and_the_largest_are_left_out() -> None:
    domain = Domain(("a", "b", "huge"), (2, 3, MAX_CELLS))
    workload = parse_workload("all-2way", domain)
    weights = target_weights(domain, workload, [("a",), ("a", "b"), ()])
    assert weights == {("a",): 1.0, ("b",): 1.0, ("a", "b"): 1.0}
    pairs = {("a", "b"): 3.0, ("a", "c"): 1.0, ("c",): 2.0}
    uneven = Workload([(Marginal(columns), weight) for columns, weight in pairs.items()])
    found = target_weights(DOMAIN, uneven, [("b", "c"), ("a", "b")])
    # a column has its own weight and its part of every marginal: a 3/2 + 1/2, b 3/2, c 2 + 1/2 + 2
    columns = {("a",): 2.0, ("b",): 1.5, ("c",): 4.5}
    expected = pairs | columns | {("b", "c"): 2.0}
    assert found == pytest.approx({c: w / 4.5 for c, w in expected.items()})


def test_whether_to_search_follows_from_sizes_alone() -> None:
    targets = [("a", "b"), ("b", "c")]
    assert is_quick(DOMAIN, targets, 10_000)
    assert not is_quick(DOMAIN, targets, 10**9)
    assert not is_quick(DOMAIN, targets * 100_000, 10)


def test_targets_are_scaled_to_the_number_of_rows_and_zeros_are_among_them() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(18)).reshape(DOMAIN.levels)
    model = ExplicitModel(DOMAIN, weights, 1000.0)
    zero = Zero(("c",), np.array([True, False, False]))
    target, closed = targets_of(model, {("a", "b"): 1.0}, 50, [zero])
    np.testing.assert_allclose(target.counts, 50 * weights.sum(axis=2).T)
    assert (closed.columns, closed.weight) == (("c",), 0.0)
    assert closed.counts[0] == 0.0 < closed.counts[1:].min()


def test_a_small_part_of_the_table_is_left_as_it_was_drawn(release: Release) -> None:
    assert release.searches()
    assert release.searches(release.rows // 2)
    assert not release.searches(release.rows // 20)
    drawn, searched = (release.sample_codes(20, seed=0, search=s) for s in (None, True))
    plain = release.sample_codes(20, seed=0, search=False)
    assert all(np.array_equal(drawn[c], plain[c]) for c in drawn)
    assert any(not np.array_equal(searched[c], plain[c]) for c in drawn)


@pytest.fixture(scope="module")
def release() -> Release:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 6, 3000)
    data = {"a": a, "b": (a + rng.integers(0, 3, 3000)) % 6, "c": rng.integers(0, 4, 3000)}
    data |= {"d": (data["b"] + data["c"] + rng.integers(0, 2, 3000)) % 5}
    schema = Schema.coded("toy", {"a": 6, "b": 6, "c": 4, "d": 5})
    return admeasure.fit(
        data, schema, workload="all-3way", mechanism=admeasure.mst(), epsilon=5, delta=1e-9, seed=3
    )


@pytest.mark.parametrize("rows", [None, 100, 20_000])
def test_searched_rows_of_a_release_are_nearer_to_it_whatever_their_number(
    release: Release, rows: int | None
) -> None:
    domain = release.schema.domain
    count = release.rows if rows is None else rows
    targets = targets_of(release.model, dict.fromkeys(release.workload.marginals(), 1.0), count, [])
    plain, searched = (
        release.sample_codes(rows, seed=4, search=search) for search in (False, True)
    )
    assert len(searched["a"]) == count

    def l1(codes: dict[str, np.ndarray]) -> float:
        table = as_rows(codes, domain)
        return sum(np.abs(counted(table, t, domain) - t.counts).sum() for t in targets)

    assert l1(searched) < 0.8 * l1(plain)
    again = release.sample_codes(rows, seed=4, search=None if release.searches(rows) else True)
    np.testing.assert_array_equal(as_rows(again, domain), as_rows(searched, domain))


def test_the_command_line_searches_unless_told_not_to(
    release: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release.save(tmp_path / "release")
    told = ["sample", str(tmp_path / "release"), "-n", "900", "--seed", "1", "--json"]
    texts = {}
    for name, more in {"default": [], "on": ["--search"], "off": ["--no-search"]}.items():
        out = tmp_path / f"{name}.csv"
        assert run([*told, "-o", str(out), *more]) == 0
        texts[name] = out.read_text()
        assert f'"search": {"false" if name == "off" else "true"}' in capsys.readouterr().out
    assert texts["default"] == texts["on"] != texts["off"]
    limited = ["-o", str(tmp_path / "limited.csv"), "--max-seconds"]
    assert run([*told, *limited, "-1"]) == 2
    assert not (tmp_path / "limited.csv").exists()
    assert run([*told, *limited, "1000"]) == 0
    assert (tmp_path / "limited.csv").read_text() == texts["on"]


def test_a_limit_of_time_must_be_positive(release: Release) -> None:
    with pytest.raises(UsageError, match="limit of time"):
        release.sample(10, max_seconds=0)
