"""Means, sums and quantiles of a release: their values, and intervals that hold the true ones."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from typer.testing import CliRunner

import admeasure
from admeasure.bounds import Answer
from admeasure.bounds.found import IntervalKind
from admeasure.cli.app import app
from admeasure.errors import SchemaError, UsageError, WorkloadError
from admeasure.release.statistics import answer_statistic
from admeasure.schema import Schema, encode_frame
from admeasure.schema.inside import Inside
from admeasure.sources.memory import MemorySource
from admeasure.workload import ColumnStatistic
from admeasure.workload.questions import parse_questions

HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
GROUP = '[[column]]\nname = "g"\ntype = "string"\nenum = ["u", "v"]\n'
DAY = datetime.date(2024, 1, 1)
COLUMNS = {
    "bins": 'type = "integer"\nminimum = -20\nmaximum = 20\nbins = 7\nmissing_values = []',
    "values": 'type = "integer"\nminimum = -20\nmaximum = 20\nmissing_values = []',
    "edges": 'type = "integer"\nedges = [-20, -3, 0, 1, 20]\nmissing_values = []',
    "enum": f'type = "integer"\nenum = {[*range(20, -21, -1)]}\nmissing_values = []',
    "number": 'type = "number"\nminimum = -20\nmaximum = 20.5\nbins = 9\nmissing_values = []',
    "date": 'type = "date"\nminimum = 2023-12-01\nmaximum = 2024-02-01\nbins = 9\n'
    "missing_values = []",
}


def schema_of(kind: str) -> Schema:
    return Schema.loads(f'{HEAD}[[column]]\nname = "x"\n{COLUMNS[kind]}\n{GROUP}')


def stored(kind: str, number: int) -> Any:
    """A whole number as a value of the column."""
    if kind == "date":
        return DAY + datetime.timedelta(number)
    return number / 2 if kind == "number" else number


@dataclass
class Known:
    """What is asked of a release, with counts that are wrong by as much as is told."""

    schema: Schema
    codes: dict[str, np.ndarray]
    slack: Any
    inside: dict[str, Inside] = field(default_factory=dict)
    kind: IntervalKind = "supported"

    @property
    def model(self) -> Known:
        return self

    def marginals(self, wanted: list) -> list[np.ndarray]:
        return MemorySource.from_codes(self.codes, self.schema).counts(wanted)

    def answer(self, questions: list, *, confidence: float) -> list[Answer]:
        found = []
        for q in questions:
            (table,) = self.marginals([q.query.columns])
            true = float(q.query.answer(table))
            low, high = max(0.0, true - self.slack()), true + self.slack()
            found.append(Answer(q.name, q.query, true, low, high, confidence, self.kind))
        return found


def true_value(statistic: ColumnStatistic, numbers: np.ndarray) -> float:
    """By numpy."""
    if statistic.at is not None:
        return float(np.quantile(numbers, statistic.at, method="inverted_cdf"))
    return float(numbers.sum() if statistic.kind == "sum" else numbers.mean())


def as_number(kind: str, value: Any) -> float:
    return (value - DAY).days if kind == "date" else float(value)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(list(COLUMNS)),
    rows=st.lists(
        st.tuples(st.none() | st.integers(-20, 20), st.sampled_from("uv")), min_size=1, max_size=40
    ),
    what=st.sampled_from(
        [("mean", None), ("sum", None), *(("quantile", q) for q in (0.1, 0.5, 0.9))]
    ),
    where=st.sampled_from([{}, {"g": "u"}]),
    most=st.sampled_from([0.0, 1.0, 6.0]),
    stage=st.sampled_from([4, 256]),
    cuts=st.sampled_from([2, 64]),
    seed=st.integers(0, 2**32),
)
def test_where_counts_are_within_their_intervals_so_is_the_statistic(
    kind, rows, what, where, most, stage, cuts, seed
):
    """Whatever the values are inside their bins, and wherever the counts lie in their intervals."""
    schema, rng = schema_of(kind), np.random.default_rng(seed)
    values = [None if n is None else stored(kind, n) for n, _ in rows]
    kept = [
        v
        for v, (_, g) in zip(values, rows, strict=True)
        if v is not None and g in where.get("g", "uv")
    ]
    if not kept or (kind == "date" and what[0] == "sum"):
        return
    codes = encode_frame({"x": values, "g": [g for _, g in rows]}, schema)
    release = Known(schema, codes, lambda: most * (rng.random() < 0.5))
    asked = ColumnStatistic(what[0], "x", what[1], where)
    found = answer_statistic(release, asked, 0.9, most_cuts=cuts, stage=stage)  # type: ignore[arg-type]
    true = true_value(asked, np.array([as_number(kind, v) for v in kept]))
    low, high = as_number(kind, found.low), as_number(kind, found.high)
    assert low - 1e-9 <= true <= high + 1e-9
    assert low - 1e-9 <= as_number(kind, found.value) <= high + 1e-9
    if kind in ("values", "enum"):  # nothing is lost in levels of one value
        assert as_number(kind, found.value) == pytest.approx(true, abs=1e-9)
        if most == 0 and (stage, cuts) == (256, 64):
            assert (low, high) == pytest.approx((true, true), abs=1e-9)


def test_a_mean_of_two_values_is_known_as_far_as_their_counts_allow():
    """Against every pair of counts within the intervals."""
    schema = Schema.loads(f'{HEAD}[[column]]\nname = "x"\ntype = "integer"\nenum = [3, 8]\n')
    codes = {"x": np.repeat([0, 1], [4, 6])}
    for off in ((0, 0, 0, 0), (2, 1, 0, 3), (4, 0, 1, 0), (0, 2, 3, 0)):
        slack = iter(off)  # of the rows below the cut, then of those above it, low end first
        found = answer_statistic(
            Known(schema, codes, lambda slack=slack: next(slack)),  # type: ignore[arg-type]
            ColumnStatistic("mean", "x"),
            0.9,
        )
        few = range(4 - off[0], 4 + off[1] + 1), range(6 - off[2], 6 + off[3] + 1)
        means = [(3 * a + 8 * b) / (a + b) for a, b in itertools.product(*few)]
        assert (found.low, found.high) == pytest.approx((min(means), max(means)))


def test_a_quantile_within_a_bin_is_that_of_its_values_spread_evenly():
    """Against the quantile of every value of every bin, each as often."""
    schema = schema_of("bins")
    grid = schema.column("x").grid
    assert grid is not None
    counts = np.array([30, 0, 60, 0, 0, 12, 90])
    codes = {"x": np.repeat(np.arange(7), counts), "g": np.zeros(counts.sum(), np.int64)}
    spread = []
    for start, end, count in zip(grid.starts, grid.ends, counts, strict=True):
        inside = np.arange(start, end + 1)
        spread += np.repeat(inside, count * 60 // len(inside)).tolist()
    for at in np.linspace(0.01, 0.99, 50):
        found = answer_statistic(
            Known(schema, codes, lambda: 0.0),  # type: ignore[arg-type]
            ColumnStatistic("quantile", "x", float(at)),
            0.9,
        )
        assert found.value == np.quantile(spread, at, method="inverted_cdf")


@pytest.mark.parametrize("tenths", range(1, 10))
def test_a_quantile_at_a_tie_is_the_lower_value(tenths):
    """Of ten rows so many tenths do not pass the first value, exactly."""
    schema = Schema.loads(f'{HEAD}[[column]]\nname = "x"\ntype = "integer"\nenum = [3, 8]\n')
    codes = {"x": np.repeat([0, 1], [tenths, 10 - tenths])}
    found = answer_statistic(
        Known(schema, codes, lambda: 0.0),  # type: ignore[arg-type]
        ColumnStatistic("quantile", "x", tenths / 10),
        0.9,
    )
    assert (found.value, found.low, found.high) == (3, 3, 3)


def test_values_lie_in_bins_as_leaves_say():
    """Against the same rows one by one; the last bin has no share in any leaf."""
    text = f'{HEAD}[[column]]\nname = "x"\ntype = "integer"\nedges = [0, 4, 10, 12]\n'
    schema = Schema.loads(text)
    shares = {0: 3.0, 1: 1.0, 4: 0.0, 5: 6.0, 7: 6.0, 10: 0.0, 11: 0.0}
    inside = Inside(np.array([*shares]), np.array([*shares.values()]))
    known = Known(schema, {"x": np.repeat([0, 1, 2], [24, 12, 6])}, lambda: 0.0, {"x": inside})
    values = [0] * 18 + [1, 2, 3] * 2 + [5, 6] * 3 + [7, 8, 9] * 2 + [10, 11, 12] * 2
    for at in (0.2, 0.5, 0.7, 0.9):
        found = answer_statistic(known, ColumnStatistic("quantile", "x", at), 0.9)  # type: ignore[arg-type]
        assert found.value == np.quantile(values, at, method="inverted_cdf")
    mean = answer_statistic(known, ColumnStatistic("mean", "x"), 0.9)  # type: ignore[arg-type]
    assert mean.value == pytest.approx(np.mean(values))


@pytest.mark.statistical
def test_intervals_hold_the_true_statistics_as_often_as_they_say(times):
    """Each statistic is missed in at most a tenth of the runs. False-alarm rate: below 1e-6, by the
    binomial law at the claimed rate for each of the five."""
    runs = times(40, 400)
    most = binom.isf(1e-7, runs, 0.1)
    schema = Schema.loads(
        f'{HEAD}[[column]]\nname = "x"\ntype = "integer"\nminimum = 0\nmaximum = 9\n{GROUP}'
    )
    rng = np.random.default_rng(0)
    table = {"x": rng.binomial(9, 0.3, 300), "g": rng.choice(["u", "v"], 300).tolist()}
    asked = [
        ColumnStatistic("mean", "x"),
        ColumnStatistic("sum", "x"),
        ColumnStatistic("quantile", "x", 0.8),
    ]
    asked += [
        ColumnStatistic("mean", "x", None, {"g": "u"}),
        ColumnStatistic("quantile", "x", 0.3, {"g": "u"}),
    ]
    missed = np.zeros(len(asked), int)
    for seed in range(runs):
        release = admeasure.fit(
            table,
            schema,
            workload="all-2way",
            mechanism=admeasure.gaussian(),
            epsilon=2,
            delta=1e-6,
            seed=seed,
        )
        for i, one in enumerate(asked):
            chosen = [
                x for x, g in zip(table["x"], table["g"], strict=True) if not one.where or g == "u"
            ]
            found = release.answer(one, confidence=0.9)
            true = true_value(one, np.array(chosen))
            missed[i] += not found.low <= true <= found.high
            assert found.high - found.low < (9 if one.kind != "sum" else 9 * 300)
    assert (missed <= most).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(1)
    table = {
        "x": [DAY + datetime.timedelta(int(d)) for d in rng.integers(-30, 30, 500)],
        "g": ["u"] * 500,
    }
    release = admeasure.fit(
        table,
        schema_of("date"),
        workload="all-2way",
        mechanism=admeasure.aim(),
        epsilon=5,
        delta=1e-9,
    )
    return release.save(tmp_path_factory.mktemp("releases") / "r")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app(["answer"]), ["answer", *arguments])


def test_the_command_line_answers_statistics(folder, tmp_path):
    file = tmp_path / "q.toml"
    file.write_text(
        '[[query]]\nname = "all"\nwhere = {g = "u"}\n[[query]]\nname = "middle"\nmean = "x"\n'
        '[[query]]\nname = "late"\nquantile = {x = 0.9}\nwhere = {g = "u"}\n'
    )
    said = run(str(folder), str(file), "--median", "x", "--where", "g = 'u'")
    assert said.exit_code == 0, said.output
    for word in (
        "all",
        "middle",
        "late",
        "median of x where g = 'u'",
        "2024-01-",
        "within their bins",
    ):
        assert word in said.output
    made = run(str(folder), "--quantile", "0.1", "x", "--json")
    low = admeasure.Release.load(folder).quantile("x", 0.1).low
    assert f'"low": "{low}"' in made.output


def test_python_answers_statistics(folder):
    release = admeasure.Release.load(folder)
    mean, late = release.mean("x"), release.quantile("x", 0.9, {"g": ["u", "v"]})
    assert mean.low <= mean.value <= mean.high  # type: ignore[operator]
    assert mean.high < late.high
    assert late.confidence == 0.95
    both = release.answer([{"g": "u"}, ColumnStatistic("quantile", "x", 0.5), {"g": "v"}])
    assert [a.name for a in both] == ["g = 'u'", "median of x", "g = 'v'"]
    with pytest.raises(WorkloadError, match="holds dates, which have no sum"):
        release.sum("x")
    with pytest.raises(WorkloadError, match="type string, which has no mean"):
        release.mean("g")
    with pytest.raises(UsageError, match="between 0 and 1, such as"):
        release.quantile("x", 90)
    with pytest.raises(SchemaError, match="no column 'y'"):
        release.mean("y")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ('mean = "x"\nsum = "x"', "asks for mean and sum"),
        ('mean = "x"\nat_least = 2', "there is no key 'at_least'"),
        ("mean = 3", "mean must be the name of a column"),
        ("quantile = 0.9", "quantile must be one column with a share"),
        ("quantile = {x = 90}", "lies between 0 and 1"),
        ("quantile = {x = true}", "lies between 0 and 1"),
        ('mean = "x"\nwhere = 3', "where must be a table"),
        ('mean = "x"\nwhere = {g = "w"}', "'w'"),
        ('mean = "y"', "no column 'y'"),
        ('sum = "g"', "type string, which has no sum"),
    ],
)
def test_a_wrong_statistic_in_a_file_is_refused(query, message):
    with pytest.raises(WorkloadError) as caught:
        parse_questions(f'[[query]]\nname = "q"\n{query}\n', schema_of("bins"), name="q.toml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", get_args(IntervalKind))
@pytest.mark.parametrize("asked", [{"mean": "x"}, {"sum": "x"}, {"median": "x"}])
def test_a_statistic_is_as_well_known_as_the_counts_that_it_rests_on(kind, asked):
    schema = schema_of("bins")
    codes = encode_frame({"x": [-7, 3, 3, 12], "g": ["u", "u", "v", "v"]}, schema)
    [(name, column)] = asked.items()
    (statistic,) = parse_questions(f'[[query]]\nname = "q"\n{name} = "{column}"\n', schema)
    known: Any = Known(schema, codes, lambda: 1.0, kind=kind)
    assert answer_statistic(known, statistic, 0.95).kind == kind


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_an_end_that_is_no_number_to_print_is_said_in_words(kind, tmp_path, monkeypatch):
    """Of a column without bounds a few rows may be anywhere: a mean moves with them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(f'{HEAD}[[column]]\nname = "x"\ntype = "{kind}"\n')
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{i % 90}\n" for i in range(3000)))
    release = admeasure.fit("t.csv", "s.toml", workload="all-1way", epsilon=1, delta=1e-6, seed=1)
    release.save("r")
    done = CliRunner().invoke(app(["answer"]), ["answer", "r", "--mean", "x", "--median", "x"])
    assert done.exit_code == 0
    mean, median = (line for line in done.output.splitlines() if " of x" in line)
    assert mean.count("no limit") == 2
    assert "no limit" not in median
    assert "minimum" in done.output
