"""Workloads are sets of weighted queries, by rule or from a file."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from math import comb, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi2

import admeasure
from admeasure.analyses import LinearRegression
from admeasure.domain import Domain
from admeasure.errors import ResourceError, UsageError, WorkloadError
from admeasure.queries import Cell, Marginal, Threshold
from admeasure.schema import Schema
from admeasure.workload import FORMS, Workload, parse_workload

DOMAIN = Domain.of({"sex": 2, "age": 10, "race": 5, "income": 2, "hours": 8, "a:b": 3})

names = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=4, unique=True
)
weights = st.floats(1e-6, 1e6) | st.integers(1, 9)
marginals = names.map(Marginal)
thresholds = names.flatmap(
    lambda columns: st.integers(1, len(columns)).map(lambda r: Threshold(columns, r))
)
entries = st.lists(st.tuples(marginals | thresholds, weights), min_size=1, max_size=8)


@given(entries, st.randoms())
def test_a_workload_comes_back_from_toml_and_does_not_depend_on_the_order_of_its_entries(
    entries, random
):
    workload = Workload(entries)
    assert Workload.loads(workload.dumps()) == workload
    random.shuffle(entries)
    assert Workload(entries) == workload
    assert hash(Workload(entries)) == hash(workload)


def test_a_query_named_twice_is_one_query_with_the_sum_of_the_weights():
    workload = Workload(
        [
            (Marginal(["b", "a"]), 2),
            (Marginal(["a", "b"]), 0.5),
            (Threshold(["a", "b"], 1), 3.0),
            Threshold(["a", "b"], 2),
        ]
    )
    assert len(workload) == 3
    assert workload.weight(Marginal(["a", "b"])) == 2.5
    assert workload.weight(Threshold(["a", "b"], 1)) == 3
    assert workload.weight(Threshold(["a", "b"], 2)) == 1
    assert workload.marginals() == (("a", "b"),)
    assert Marginal(["a", "b"]) in workload
    assert Marginal(["a"]) not in workload


@given(entries)
def test_the_closure_holds_every_subset_once_by_size_and_then_by_name(entries):
    workload = Workload(entries)
    expected = {
        subset
        for query in workload
        for subset in chain.from_iterable(
            combinations(query.columns, size) for size in range(1, len(query.columns) + 1)
        )
    }
    closure = workload.closure()
    assert set(closure) == expected
    assert list(closure) == sorted(expected, key=lambda c: (len(c), c))
    assert set(workload.marginals()) == {query.columns for query in workload}


@pytest.mark.parametrize("weight", [0, -1, nan, inf, True, "2"])
def test_a_weight_that_is_no_positive_number_is_refused(weight):
    with pytest.raises(WorkloadError, match="weight must be"):
        Workload([(Marginal(["a"]), weight)])


@pytest.mark.parametrize("weights", [[1e101], [1e-101], [1e308, 1e308], [6e99, 6e99]])
def test_weights_whose_sums_would_be_no_numbers_are_refused_before_a_run_adds_them_up(weights):
    with pytest.raises(WorkloadError, match=r"must lie between 1e-100 and 1e\+100"):
        Workload((Marginal(["a"]), weight) for weight in weights)


@pytest.mark.parametrize(
    ("queries", "message"),
    [([], "at least one query"), ([Cell(["a"], [0])], "not Cell"), ([Marginal(())], "one column")],
)
def test_a_workload_that_could_not_be_run_is_refused(queries, message):
    with pytest.raises(WorkloadError, match=message):
        Workload(queries)


def test_a_column_outside_the_domain_is_refused_with_the_nearest_name():
    with pytest.raises(WorkloadError, match=r"no column 'incom'.*Did you mean 'income'"):
        Workload([Marginal(["sex", "incom"])]).validate(DOMAIN)


@pytest.mark.parametrize("k", range(1, 7))
def test_all_kway_names_every_set_of_k_columns_once(k):
    workload = parse_workload(f"all-{k}way", DOMAIN)
    assert set(workload.marginals()) == set(combinations(sorted(DOMAIN.columns), k))
    assert {workload.weight(query) for query in workload} == {1.0}


@pytest.mark.parametrize("target", ["income", "a:b"])
def test_target_names_every_set_with_the_target_column(target):
    workload = parse_workload(f"target:{target}:3way", DOMAIN)
    everything = combinations(sorted(DOMAIN.columns), 3)
    assert set(workload.marginals()) == {columns for columns in everything if target in columns}


def test_skewed_draws_with_replacement_and_counts_repeats_as_weight():
    workload = parse_workload("skewed:256:3way:seed=3", DOMAIN)
    assert sum(map(workload.weight, workload)) == 256
    assert len(workload) <= comb(6, 3)
    assert {len(columns) for columns in workload.marginals()} == {3}


def test_skewed_columns_have_weights_from_the_squared_exponential_distribution():
    """Two draws from two columns give the same column with probability E[p² + (1-p)²], where p =
    X²/(X²+Y²) for exponential X and Y. With t = X/Y, of density 1/(1+t)², that is an integral
    (0.76; it would be 0.67 without the square). 4,000 fixed seeds: the mean of so many draws has
    a standard deviation of 0.0068; four of them are allowed, so a right implementation would fail
    on 1 in 16,000 choices of the seeds."""
    domain = Domain.of({"a": 2, "b": 2})
    expected, _ = quad(lambda t: (t**4 + 1) / ((1 + t**2) * (1 + t)) ** 2, 0, inf)
    same = [len(parse_workload(f"skewed:2:1way:seed={s}", domain)) == 1 for s in range(4000)]
    assert abs(sum(same) / 4000 - expected) < 4 * (expected * (1 - expected) / 4000) ** 0.5


def test_skewed_sets_are_drawn_by_the_product_of_their_columns_weights():
    """The weights of the columns, read off from one-way draws of the same seed, predict the
    two-way draws. 50,000 draws put every share within 0.0023 (one standard deviation) on either
    side; 0.02 is allowed, so there is no chance of a false alarm worth naming."""
    draws = 50_000
    single = parse_workload(f"skewed:{draws}:1way:seed=5", DOMAIN)
    pairs = parse_workload(f"skewed:{draws}:2way:seed=5", DOMAIN)
    weight = dict.fromkeys(DOMAIN.columns, 0.0)
    weight |= {query.columns[0]: single.weight(query) for query in single}
    product = {(a, b): weight[a] * weight[b] for a, b in combinations(sorted(weight), 2)}
    for columns, value in product.items():
        query = Marginal(columns)
        share = pairs.weight(query) / draws if query in pairs else 0.0
        assert abs(share - value / sum(product.values())) < 0.02


@pytest.mark.parametrize("count", [1, 7, 10, 11, 19, 20])
def test_random_names_different_sets_and_the_same_ones_for_the_same_seed(count):
    one = parse_workload(f"random:{count}:3way:seed=1", DOMAIN)
    assert len(one.marginals()) == count
    assert {one.weight(query) for query in one} == {1.0}
    assert parse_workload(f"random:{count}:3way:seed=1", DOMAIN) == one
    reordered = Domain(DOMAIN.columns[::-1], DOMAIN.levels[::-1])
    assert parse_workload(f"random:{count}:3way:seed=1", reordered) == one


@pytest.mark.parametrize("count", [2, 4])
def test_random_is_uniform_over_the_choices_of_sets(count):
    """Chi-square over the 15 choices of 2 (or 4) of the 6 pairs of 4 columns; 3,000 fixed seeds,
    level 1e-4: a right implementation would fail on 1 in 10,000 choices of the seeds."""
    domain = Domain.of(dict.fromkeys("abcd", 2))
    draws = 3000
    seen = Counter(
        parse_workload(f"random:{count}:2way:seed={seed}", domain).marginals()
        for seed in range(draws)
    )
    expected = draws / comb(6, count)
    assert len(seen) == 15
    assert sum((n - expected) ** 2 / expected for n in seen.values()) < chi2.isf(1e-4, 14)


def test_threshold_names_different_sets_with_the_asked_r():
    workload = parse_workload("threshold:2of3:12:seed=0", DOMAIN)
    assert len(workload) == 12
    assert len(workload.marginals()) == 12
    assert {(len(q.columns), q.at_least) for q in workload if isinstance(q, Threshold)} == {(3, 2)}


def test_a_seed_that_is_left_out_is_zero():
    for rule in ("random:5:2way", "skewed:9:2way", "threshold:1of2:4"):
        assert parse_workload(rule, DOMAIN) == parse_workload(f"{rule}:seed=0", DOMAIN)


@pytest.mark.parametrize(
    "text", ["", "all", "all-3", "every-3way", "random:3way", "skewed:x:3way", "target:3way"]
)
def test_an_unknown_form_is_refused_with_the_forms_there_are(text):
    with pytest.raises(WorkloadError) as error:
        parse_workload(text, DOMAIN)
    assert all(form in str(error.value) for form in FORMS)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("all-7way", WorkloadError, "7 columns.*has 6 columns"),
        ("all-0way", WorkloadError, "from 1 to 6"),
        ("target:incone:3way", WorkloadError, "'incone'.*'income'"),
        ("random:21:3way:seed=0", WorkloadError, "only 20"),
        ("random:0:3way:seed=0", WorkloadError, "at least 1"),
        ("threshold:4of3:2:seed=0", WorkloadError, "at_least = 4 with 3 columns"),
        ("skewed:999999999:3way:seed=0", ResourceError, "1,000,000"),
        ("nowhere.toml", UsageError, "no file nowhere.toml"),
    ],
)
def test_a_rule_that_the_schema_cannot_serve_is_refused_with_the_reason(text, error, message):
    with pytest.raises(error, match=message):
        parse_workload(text, DOMAIN)


def test_a_workload_too_large_to_build_is_refused_before_it_is_built():
    wide = Domain.of({f"c{i}": 2 for i in range(200)})
    with pytest.raises(ResourceError, match="1,000,000"):
        parse_workload("skewed:5:8way:seed=0", wide)
    assert len(parse_workload("random:50:8way:seed=0", wide)) == 50


def test_a_toml_file_is_read_from_a_path(tmp_path):
    path = tmp_path / "questions of 2026"
    path.write_text(
        """
        [[marginal]]
        columns = ["sex", "age"]
        weight = 2
        [[marginal]]
        columns = ["age", "sex"]
        [[threshold]]
        columns = ["sex", "age", "a:b"]
        at_least = 2
        """
    )
    expected = Workload({Marginal(["age", "sex"]): 3, Threshold(["a:b", "age", "sex"], 2): 1})
    assert parse_workload(str(path), DOMAIN) == expected
    assert parse_workload(path, DOMAIN) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no query"),
        ("[[marginal]", "not valid TOML"),
        ("[marginal]\ncolumns = ['age']", "double brackets"),
        ("[[marginals]]\ncolumns = ['age']", "no table 'marginals'"),
        ("[[marginal]]\nweight = 1", r"\[\[marginal\]\] 1: columns is missing"),
        ("[[marginal]]\ncolumns = 'age'", "list of names"),
        ("[[marginal]]\ncolumns = []", "columns is empty"),
        ("[[marginal]]\ncolumns = ['age', 'age']", "named twice"),
        ("[[marginal]]\ncolumns = ['age']\nwieght = 2", "no key 'wieght'.*'weight'"),
        ("[[marginal]]\ncolumns = ['age']\nweight = -1", "positive"),
        ("[[marginal]]\ncolumns = ['age']\n[[marginal]]\ncolumns = ['agee']", "2: .*'agee'.*'age'"),
        ("[[threshold]]\ncolumns = ['age']", "at_least is missing"),
        ("[[threshold]]\ncolumns = ['age']\nat_least = 1.5", "whole number"),
        ("[[threshold]]\ncolumns = ['age']\nat_least = 2", "at_least = 2 with 1 columns"),
    ],
)
def test_a_faulty_file_is_refused_with_file_table_and_rule(tmp_path, text, message):
    path = tmp_path / "w.toml"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=message) as error:
        parse_workload(str(path), DOMAIN)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "w.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        parse_workload(str(path), DOMAIN)


def test_a_regression_asks_for_every_two_of_its_columns_or_for_all_together() -> None:
    domain = Domain(("a", "b", "c", "y"), (2, 3, 4, 5))
    pairs = parse_workload("regression: y ~ c + a", domain)
    assert {q.columns for q in pairs.queries} == {("a", "c"), ("a", "y"), ("c", "y")}
    whole = parse_workload("logistic:y~a+c", domain)
    assert [q.columns for q in whole.queries] == [("a", "c", "y")]
    for wrong in ("regression:y~a+a", "regression:y~y", "logistic:y~d", "regression:y~a+"):
        with pytest.raises(WorkloadError):
            parse_workload(wrong, domain)


def test_a_regression_s_workload_is_enough_for_its_inference() -> None:
    rng = np.random.default_rng(3)
    columns = {"x": ("integer", 9), "z": ("integer", 4), "y": ("integer", 19)}
    schema = Schema.loads(
        '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
        + "".join(
            f'[[column]]\nname = "{name}"\ntype = "{kind}"\nminimum = 0\nmaximum = {most}\n'
            for name, (kind, most) in columns.items()
        )
    )
    x, z = rng.integers(0, 10, 4000), rng.integers(0, 5, 4000)
    y = np.clip(x + z + rng.integers(-2, 3, 4000), 0, 19)
    release = admeasure.fit(
        {"x": x, "z": z, "y": y},
        schema,
        workload="regression:y~x+z",
        mechanism=admeasure.aim(),
        epsilon=100.0,
        delta=1e-9,
        seed=0,
    )
    found = admeasure.infer(release, LinearRegression("y", ["x", "z"]))
    exact, *_ = np.linalg.lstsq(np.column_stack([np.ones(4000), x, z]), y, rcond=None)
    assert [f.value for f in found] == pytest.approx(exact, abs=0.15)
