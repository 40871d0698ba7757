"""The HTML report: complete in itself, true to the release, honest about what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.evaluation import compare
from admeasure.evaluation.side_by_side import side_by_side
from admeasure.privacy.book import Book
from admeasure.queries import Cell
from admeasure.release import Release
from admeasure.reporting import columns, facts, truth
from admeasure.reporting.html import certificate_page, html_report
from admeasure.reporting.summary import summarise
from admeasure.schema import Schema
from admeasure.sources.open import open_source
from admeasure.workload import Question

LIMIT = 2_000_000
HOSTILE = "<script>alert('x')</script>"

SCHEMA = Schema.loads(f"""
[table]
name = "toy {HOSTILE}"
description = "A & B <b>"
[privacy]
unit = "person"
[[column]]
name = "{HOSTILE}"
type = "string"
enum = ["<i>", "&amp;", "עברית"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 59
bins = 20
[[column]]
name = "smoker"
type = "boolean"
[[zero]]
columns = ["age", "smoker"]
where = {{age = {{to = 8}}, smoker = true}}
""")


def rows(count: int = 500) -> dict[str, list[Any]]:
    rng = np.random.default_rng(4)
    ages = [int(a) for a in rng.integers(0, 60, count)]
    return {
        HOSTILE: [("<i>", "&amp;", "עברית")[i] for i in rng.integers(0, 3, count)],
        "age": ages,
        "smoker": [bool(age > 8 and rng.random() < age / 60) for age in ages],
    }


def fitted(seed: int | None = 0, mechanism: Any = None, **more: Any) -> Release:
    return admeasure.fit(
        rows(),
        SCHEMA,
        workload="all-2way",
        mechanism=mechanism or admeasure.mst(),
        epsilon=2.0,
        delta=1e-9,
        seed=seed,
        **more,
    )


@pytest.fixture(scope="module")
def release() -> Release:
    return fitted()


@pytest.fixture(scope="module")
def private() -> Release:
    return fitted(seed=None)


@pytest.fixture(scope="module")
def page(private: Release) -> str:
    return html_report(private)


@pytest.fixture(scope="module")
def internal(private: Release) -> str:
    return html_report(private, private_counts=open_source(rows(), SCHEMA).counts)


class Reader(HTMLParser):
    """Elements with their attributes, the text of each section, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.sections: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._quiet = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._quiet = tag in ("style", "script")
        if tag == "section":
            self._open.append(dict(attrs).get("id") or "")
            self.sections[self._open[-1]] = []

    def handle_endtag(self, tag: str) -> None:
        self._quiet = False
        if tag == "section":
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._quiet:
            self.text.append(data)
            if self._open:
                self.sections[self._open[-1]].append(data)

    def said(self, section: str) -> str:
        return " ".join(" ".join(self.sections[section]).split())


def addresses(text: str) -> Iterator[str]:
    for _, attributes in Reader(text).elements:
        for key in ("src", "href", "action", "data", "poster", "srcset"):
            if attributes.get(key):
                yield str(attributes[key])


@pytest.mark.parametrize("kind", ["page", "internal", "certificate"])
def test_a_report_asks_for_nothing_from_anywhere_and_runs_nothing(
    kind: str, request: pytest.FixtureRequest, private: Release
) -> None:
    text = certificate_page(private) if kind == "certificate" else request.getfixturevalue(kind)
    assert all(address.startswith("#") for address in addresses(text))
    assert not re.search(r"url\(|@import|https?://", text)
    tags = {tag for tag, _ in Reader(text).elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
    assert not [a for _, a in Reader(text).elements for k in a if k.startswith("on")]
    policy = [a for t, a in Reader(text).elements if t == "meta" and a.get("http-equiv")]
    assert "default-src 'none'" in str(policy[0]["content"])
    assert len(text.encode()) < LIMIT


def test_names_and_categories_are_shown_as_they_are_and_never_as_markup(page: str) -> None:
    assert HOSTILE not in page
    words = Reader(page)
    assert sum(HOSTILE in part for part in words.text) > 3
    assert "<i>" in words.text
    assert "A & B <b>" in words.text


def test_the_label_says_what_the_certificate_says(page: str, private: Release) -> None:
    said = Reader(page).said("spent")
    assert "Epsilon 2" in said
    assert "1e-09" in said
    assert "one person" in said
    assert all(text in said for text in private.certificate.unprotected)
    assert "not recorded in a budget book" in said


def test_the_label_shows_what_was_ever_spent_on_the_data_set(tmp_path: Path) -> None:
    book = Book.create(tmp_path / "b.db", "toy", epsilon=5, delta=1e-9)
    charge = admeasure.ChargeTo(tmp_path / "b.db", "toy")
    for name in ("one", "two"):
        fitted(seed=None, charge_to=charge, out=tmp_path / name)
    account = book.account("toy")
    out = tmp_path / "report.html"
    given = ["report", str(tmp_path / "two"), "-o", str(out), "--ledger", str(tmp_path / "b.db")]
    assert run(given) == 0
    said = Reader(out.read_text()).said("spent")
    assert f"epsilon {account.epsilon_spent:.3g} of 5" in said
    assert account.epsilon_spent > 2.1


def test_columns_carry_the_answers_and_intervals_of_the_release(private: Release) -> None:
    gathered = facts.gather(private)
    for column in gathered.columns:
        labels = SCHEMA.column(column.name).labels
        for level in column.shown:
            code = labels.index(level.label)
            (answer,) = private.answer([Cell((column.name,), (code,))])
            assert (level.value, level.low, level.high) == (answer.value, answer.low, answer.high)
    errors = [c.error or 0.0 for c in gathered.columns]
    assert errors == sorted(errors, reverse=True)


def test_bins_are_drawn_on_their_axis_with_the_release_s_intervals(private: Release) -> None:
    (age,) = [c for c in facts.gather(private).columns if c.name == "age"]
    assert age.histogram is not None
    assert age.left_out == 0
    assert age.histogram.edges == tuple(range(0, 61, 3))
    asked = [Cell(("age",), (code,)) for code in range(20)]
    for bin_, answer in zip(age.histogram.bins, private.answer(asked), strict=True):
        assert (bin_.value, bin_.low, bin_.high) == (answer.value, answer.low, answer.high)
    assert age.there == sum(b.value >= 0.5 for b in age.histogram.bins)
    assert age.told == sum(b.value >= 0.5 and b.low > 0 for b in age.histogram.bins)


def test_a_column_without_bounds_is_drawn_where_its_rows_are() -> None:
    head = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
    schema = Schema.loads(f'{head}[[column]]\nname = "cost"\ntype = "number"\n')
    costs = np.random.default_rng(0).lognormal(5, 1, 3000)
    release = admeasure.fit(
        {"cost": costs}, schema, workload="all-1way", epsilon=5.0, delta=1e-9, seed=0
    )
    (cost,) = facts.gather(release).columns
    assert cost.histogram is not None
    assert cost.left_out == 0
    assert cost.histogram.edges[0] > -100
    assert cost.histogram.edges[-1] < 100 * costs.max()
    assert sum(b.value for b in cost.histogram.bins) > 0.9 * len(costs)
    assert "nan" not in html_report(release).split("<main>")[1].split("Certificate")[0]


def test_a_column_whose_levels_reach_zero_is_not_called_well_answered() -> None:
    told, lost = columns.Level("a", 900.0, 800.0, 1000.0), columns.Level("b", 3.0, 0.0, 40.0)
    rare = columns.Level("c", 0.0, 0.0, 30.0)  # not believed to occur: nothing to tell from zero

    def graded(*levels: columns.Level) -> str:
        return columns.ColumnFacts("x", "", "string", 9, 0.01, "supported", levels).grade

    assert graded(told, told, rare) == "good"
    assert graded(told, lost, rare) == "fair"
    assert graded(told, *[lost] * 8) == "poor"


def test_the_summary_names_what_can_be_told_and_what_cannot(private: Release) -> None:
    gathered = facts.gather(private)
    said = summarise(gathered, "person")
    known = sum(r.grade != "poor" for r in gathered.ranked)
    assert f"{known} of {len(gathered.ranked)} tables" in said.safe or not known
    halves = [(v.high - v.low) / 2 for c in gathered.columns for v in c.known]
    assert gathered.smallest == pytest.approx(np.median(halves))
    assert "any one person" in said.unsafe
    nothing = replace(gathered, smallest=None, smallest_together=None)
    assert "No count" in summarise(nothing, "person").trust


def test_the_summary_does_not_take_a_sample_of_a_workload_for_all_of_it(private: Release) -> None:
    gathered = facts.gather(private)
    assert "tables of the workload" in summarise(gathered, "person").safe
    many = replace(gathered, marginals=20_708_500)
    assert "tables drawn from the workload" in summarise(many, "person").safe


def test_the_smallest_count_to_trust_is_that_of_tables_too(private: Release) -> None:
    """One interval of a pair is asked for as a user would ask for it."""
    gathered = facts.gather(private)
    assert gathered.smallest_together is not None
    columns = next(c for c in private.workload.marginals() if len(c) == 2)
    (counts,) = private.model.marginals([columns])
    cell = tuple(int(i) for i in np.unravel_index(int(np.argmax(counts)), counts.shape))
    question = Question("pair", Cell(columns, cell))
    found = facts.together(private, private.evidence, [columns], 0.95)
    (answer,) = private.evidence.answers([question], 0.95)
    assert found == pytest.approx((answer.high - answer.low) / 2)
    said = summarise(replace(gathered, smallest=10.0, smallest_together=70.4), "person")
    assert (said.smallest, said.alone) == (70, 10)
    assert "tables of several columns from about 70" in said.trust
    alone = summarise(replace(gathered, smallest=10.0, smallest_together=None), "person")
    assert (alone.smallest, alone.alone) == (10, None)
    assert facts.together(private, private.evidence, [columns[:1]], 0.95) is None


def test_a_column_with_many_levels_shows_its_largest_and_counts_the_rest(private: Release) -> None:
    (age,) = [c for c in facts.gather(private).columns if c.name == "age"]
    shown, drawn = columns.levels_of(private, private.evidence, "age", 0.95, bins_drawn=19)
    age = replace(age, shown=shown, histogram=drawn)
    counts = private.marginal(["age"])
    smallest = min(level.value for level in age.shown)
    labels = {level.label for level in age.shown}
    left = [
        c for c, name in zip(counts, SCHEMA.column("age").labels, strict=True) if name not in labels
    ]
    assert len(left) == age.left_out > 0
    assert max(left) <= smallest


def test_the_workload_is_ranked_by_the_bounds_of_the_release(private: Release) -> None:
    ranked = facts.rank(private, private.evidence, 0.95)
    bounds = private.bounds()
    assert {r.columns for r in ranked} == set(bounds)
    for r in ranked:
        assert r.error == pytest.approx(min(2.0, bounds[r.columns].error / private.rows))
    assert [r.error for r in ranked] == sorted((r.error for r in ranked), reverse=True)


def test_weights_are_shown_where_they_differ(private: Release, page: str) -> None:
    weights = {r.weight for r in facts.gather(private).ranked}
    assert (">weight</th>" in page) == (len(weights) > 1)


def test_a_long_workload_is_ranked_by_a_sample_that_does_not_follow_its_order() -> None:
    """Of every other kind in turn: at even distances all would be of one kind. By chance 2,500 of
    5,000 are drawn, half of either kind; the standard deviation of the count is 17.7, and the draw
    is the same for every run."""
    marginals = [(f"c{i:04}",) for i in range(5000)]
    found = facts.drawn(marginals, 2500)
    assert found == sorted(set(found))
    assert len(found) == 2500
    assert abs(sum(int(c[1:]) % 2 for (c,) in found) - 1250) < 110
    assert facts.drawn(marginals, 5000) == marginals


def test_of_many_columns_the_map_of_pairs_shows_those_that_go_together() -> None:
    """Two pairs of equal columns among 60; the columns that the map began with were noise."""
    rng = np.random.default_rng(0)
    names = [f"c{i:02}" for i in range(60)]
    data = {name: rng.integers(0, 3, 400) for name in names}
    data["c55"], data["c47"] = data["c50"], data["c59"]
    release = admeasure.fit(
        data,
        Schema.coded("wide", dict.fromkeys(names, 3)),
        workload="all-2way",
        mechanism=admeasure.mst(),
        epsilon=100.0,
        delta=1e-9,
        seed=0,
    )
    found = facts.pairs(release, release.evidence)
    assert len(found.names) == 40
    assert found.left_out == 20
    assert list(found.names) == sorted(found.names)
    ranked = sorted(found.cells, key=lambda place: -(found.cells[place].value or 0.0))
    best = [{found.names[place] for place in pair} for pair in ranked[:2]]
    assert {"c50", "c55"} in best
    assert {"c47", "c59"} in best


def test_rounds_hold_every_draw_and_add_up_to_what_was_spent() -> None:
    release = fitted(mechanism=admeasure.aim())
    rounds = facts.rounds(release.log, release.certificate.rho)
    draws = [e for e in release.log if e["event"] != "intent"]
    assert sum(len(r.steps) for r in rounds) == len(draws)
    spent = sum(s.rho for r in rounds for s in r.steps)
    assert spent == pytest.approx(release.certificate.rho_spent)
    assert rounds[-1].spent == pytest.approx(
        release.certificate.rho_spent / release.certificate.rho
    )
    assert all(r.steps[0].sigma is None for r in rounds if r.number), "a round begins with a choice"
    measured = [s for r in rounds for s in r.steps if s.sigma is not None]
    assert [s.sigma for s in measured] == [m.sigma for m in release.measurements]


def test_a_report_needs_the_release_folder_and_nothing_else(
    private: Release, tmp_path: Path
) -> None:
    private.save(tmp_path / "r")
    assert run(["report", str(tmp_path / "r"), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text() == html_report(Release.load(tmp_path / "r"))


def test_the_suffix_decides_between_html_and_text(private: Release, tmp_path: Path) -> None:
    private.save(tmp_path / "r")
    for name, starts in (("a.html", "<!doctype html>"), ("a.txt", "Release of")):
        assert run(["report", str(tmp_path / "r"), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(starts)


def test_a_seeded_release_is_stamped_in_every_part(release: Release) -> None:
    for text in (html_report(release), certificate_page(release)):
        assert "NOT PRIVATE" in re.findall(r"<title>(.*?)</title>", text)[0]
        words = Reader(text)
        assert all("NOT PRIVATE" in words.said(name) for name in words.sections if name != "spent")
        assert "NOT PRIVATE" in " ".join(words.text)


# The internal report.


def test_every_part_of_the_internal_report_is_stamped(internal: str) -> None:
    words = Reader(internal)
    assert {"truth", "true-marginals", "histograms", "true-pairs"} <= set(words.sections)
    unstamped = [n for n in words.sections if "NOT PRIVATE" not in words.said(n)]
    assert unstamped == ["spent"], "the label alone, which the release has as it is"
    assert ".stamp.running { position: fixed" in internal, "repeated on every printed page"


def test_the_file_of_an_internal_report_says_so_in_its_name(
    private: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private.save(tmp_path / "r")
    pd.DataFrame(rows()).to_csv(tmp_path / "t.csv", index=False)
    given = ["report", str(tmp_path / "r"), "-o", str(tmp_path / "x.html")]
    assert run([*given, "--internal", str(tmp_path / "t.csv")]) == 0
    assert not (tmp_path / "x.html").exists()
    assert (tmp_path / "x.NOT-PRIVATE.html").exists()
    assert "NOT PRIVATE" in capsys.readouterr().err
    assert private.report(tmp_path / "y.html", internal=rows()).name == "y.NOT-PRIVATE.html"


@pytest.fixture(scope="module")
def seen(private: Release) -> truth.TruthFacts:
    gathered = facts.gather(private)
    counts = open_source(rows(), SCHEMA).counts
    return truth.look(private, counts, gathered.ranked, gathered.pairs)


def true_shares(columns: tuple[str, ...]) -> np.ndarray:
    """By counting rows one by one."""
    data, shares = rows(), np.zeros(SCHEMA.domain.shape(columns))
    for i in range(len(data["age"])):
        place = tuple(int(SCHEMA.column(c).code_of(data[c][i])) for c in columns)
        shares[place] += 1 / len(data["age"])
    return shares


def error(release: Release, columns: tuple[str, ...]) -> np.ndarray:
    believed = np.asarray(release.marginal(columns))
    return np.abs(true_shares(columns) - believed / believed.sum())


def test_true_errors_are_those_of_counting_by_hand(
    private: Release, seen: truth.TruthFacts
) -> None:
    names = tuple(sorted(SCHEMA.names))
    for m in seen.marginals:
        assert m.error == pytest.approx(float(error(private, m.columns).sum()))
    for k in seen.by_size:
        by_hand = [float(error(private, c).sum()) for c in combinations(names, k.k)]
        assert k.marginals == len(by_hand)
        assert k.mean == pytest.approx(np.mean(by_hand))
        assert k.worst == pytest.approx(max(by_hand))
    counts = open_source(rows(), SCHEMA).counts
    assert seen.errors == compare(counts, private.model.marginals, private.workload, SCHEMA.domain)


def test_the_worst_cells_are_the_worst(private: Release, seen: truth.TruthFacts) -> None:
    every = np.concatenate([error(private, c).ravel() for c in private.workload.marginals()])
    largest = np.sort(every)[::-1][: truth.CELLS_SHOWN]
    assert [c.error for c in seen.cells] == pytest.approx(largest)


def test_a_bound_that_did_not_hold_is_marked(seen: truth.TruthFacts) -> None:
    assert all(m.broken == (m.bound is not None and m.error > m.bound) for m in seen.marginals)
    assert len(seen.dots) == len(seen.marginals)


def test_structural_zeros_are_counted_on_both_sides(seen: truth.TruthFacts) -> None:
    (violation,) = seen.violations
    assert violation.true_rows == 0
    assert violation.believed_rows == pytest.approx(0, abs=1e-6)


# The certificate, wide tables, other kinds of release.


def test_the_certificate_comes_as_a_page_as_json_and_as_yaml(
    private: Release, tmp_path: Path
) -> None:
    private.save(tmp_path / "r")
    for suffix in ("html", "json", "yaml"):
        out = tmp_path / f"c.{suffix}"
        assert run(["report", str(tmp_path / "r"), "-o", str(out), "--certificate"]) == 0
    stored = json.loads((tmp_path / "r" / "release.json").read_text())["certificate"]
    assert json.loads((tmp_path / "c.json").read_text()) == stored
    yaml = (tmp_path / "c.yaml").read_text()
    assert yaml == (tmp_path / "r" / "certificate.yaml").read_text()
    said = " ".join(Reader((tmp_path / "c.html").read_text()).text)
    assert private.certificate.promise in said
    assert run(["report", str(tmp_path / "r"), "-o", str(tmp_path / "c.txt"), "--certificate"]) == 2


@pytest.mark.slow
def test_a_hundred_columns_stay_below_two_megabytes() -> None:
    rng = np.random.default_rng(0)
    names = [f"column {i} {'long ' * 12}" for i in range(100)]
    schema = Schema.coded("wide", dict.fromkeys(names, 20))
    data = {name: rng.integers(0, 20, 300) for name in names}
    release = admeasure.fit(
        data,
        schema,
        workload="random:400:2way:seed=0",
        mechanism=admeasure.independent(),
        epsilon=1.0,
        delta=1e-9,
        seed=0,
    )
    plain = html_report(release)
    both = html_report(release, private_counts=open_source(data, schema).counts)
    assert len(plain.encode()) < LIMIT
    assert len(both.encode()) < LIMIT
    assert "60 more are left out" in plain


@pytest.mark.parametrize("mechanism", [admeasure.gaussian(), admeasure.all_zero()])
def test_a_release_without_a_model_has_a_report_too(mechanism: Any) -> None:
    release = fitted(mechanism=mechanism)
    counts = open_source(rows(), SCHEMA).counts
    assert "What was measured" in html_report(release)
    assert "True errors" in html_report(release, private_counts=counts)


# Notebooks.


def test_a_release_shows_itself_in_a_notebook(private: Release, release: Release) -> None:
    text = private._repr_html_()
    assert HOSTILE not in text
    assert private.certificate.promise in " ".join(Reader(text).text)
    assert "NOT PRIVATE" in release._repr_html_()


def test_a_marginal_shows_itself_with_its_levels_and_is_an_array(private: Release) -> None:
    table = private.marginal([HOSTILE, "smoker"])
    assert isinstance(table, np.ndarray)
    assert table.shape == (3, 2)
    words = Reader(table._repr_html_()).text
    assert {"<i>", "&amp;", "עברית", "true", "false"} <= set(words)
    assert HOSTILE not in table._repr_html_()
    shown = [int(w.replace(",", "")) for w in words if re.fullmatch(r"[\d,]+", w)]
    assert shown == [round(float(v)) for v in np.asarray(table).ravel()]
    assert type(table.sum()) is np.float64
    assert type(table / 2) is np.ndarray
    assert "array(" in table[0]._repr_html_()


def test_certificate_bounds_and_plan_show_themselves_in_a_notebook(private: Release) -> None:
    certificate = private.certificate._repr_html_()
    words = " ".join(Reader(certificate).text)
    assert private.certificate.promise in words
    assert all(line in words for line in private.certificate.unprotected)
    bounds = private.bounds()
    assert dict(bounds) == private.evidence.bounds(private.workload.marginals(), 0.95)
    planned = admeasure.plan(private.schema, workload="all-2way", epsilon=1, delta=1e-9)
    for shown in (certificate, bounds._repr_html_(), planned._repr_html_()):
        assert HOSTILE not in shown
        assert len(shown) < 50_000


@pytest.mark.parametrize("columns", [["smoker"], [HOSTILE, "smoker"]])
def test_a_marginal_stands_beside_that_of_the_table(private: Release, columns: list[str]) -> None:
    people = rows()
    pair = side_by_side(private, people, columns)
    smokers = pair.true if len(columns) == 1 else pair.true.sum(axis=pair.columns.index(HOSTILE))
    where = pair.labels[pair.columns.index("smoker")].index("true")
    assert smokers[where] * len(people["smoker"]) == pytest.approx(sum(people["smoker"]))
    assert pair.released.sum() == pytest.approx(1)
    html = pair._repr_html_()
    assert "NOT PRIVATE" in html
    assert HOSTILE not in html
