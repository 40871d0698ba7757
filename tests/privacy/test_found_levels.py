"""Levels that a run finds: the audits, the charge, the resumed run, bad schemas."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.stats import binom

import admeasure
from admeasure.auditing.release import audit_release
from admeasure.auditing.thresholds import chance
from admeasure.errors import AdmeasureError, DataError, SchemaError
from admeasure.mechanisms import build
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.found_levels import FoundLevels
from admeasure.privacy.journal import without_values
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.schema.found_levels import LONGEST_LEVEL, MOST_FOUND
from admeasure.unit import Neighbours, Unit
from bought_domains import HEADER, asked, neighbours_agree, opened, replayed, small, stopping
from factories import loaded

BROKEN = sorted((Path(__file__).parent / "broken" / "levels").glob("*.py"))
FALSE_ALARM = 1e-7

TEXT = (
    HEADER
    + """
[[column]]
name = "drug"
type = "string"
enum = "private"
missing_values = ["?"]
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = "private"
[[column]]
name = "sex"
type = "string"
enum = ["f", "m"]
"""
)
OPEN = Schema.loads(TEXT)
ONE = Schema.loads(TEXT.replace('bins = "private"', "bins = 4"))


def frame(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    drugs = np.array(["beta", "alpha", "été", None, "?", *(f"x{i}" for i in range(rows))], object)
    shares = np.array([0.3, 0.3, 0.2, 0.05, 0.05, *([0.1 / rows] * rows)])
    return {
        "drug": rng.choice(drugs, rows, p=shares / shares.sum()),
        "age": rng.integers(0, 100, rows),
        "sex": rng.choice(["f", "m"], rows),
    }


# Audits.

FIELDS = 'type = "string"\nenum = "private"\nmissing_values = []'
BUDGET = Zcdp(Fraction(40), Fraction(1, 10**7))


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("name", ["mst", "independent"])
def test_neighbours_differ_only_in_what_is_noised(name, relation, tally, times):
    """Also by a person who holds a text, or is missing one, as nobody else does."""
    text = st.sampled_from(["u", "v", "w"]) | st.none()
    seen = neighbours_agree(
        relation,
        times(15, 200),
        FIELDS,
        text,
        new=text | st.sampled_from(["new", "newer", "newest"]),
        event="find",
        name=name,
        budget=BUDGET,
        often=5,
    )
    tally(f"pairs of neighbours, levels found, {name}", seen)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_search_for_levels_is_caught_by_the_check_that_should(path, monkeypatch, tally):
    module = loaded(path)
    schema = small(2, "add-remove", FIELDS)
    others = [[("v", True)]] * 40 + [[("u", False), ("v", True)]] * 60
    person = [("new", True), ("new", False), ("newer", True), ("newest", True)]
    pair = [others, [*others, person]]
    run = partial(replayed, schema=schema, seed=5, name="independent", budget=BUDGET)
    assert not run(pair).faults
    module.apply(monkeypatch.setattr)
    assert run(pair).failed | run(pair[::-1]).failed >= module.CAUGHT_BY
    tally("searches for levels broken on purpose, caught", 1)


def found_in(schema: Schema, people: list[Any], cost: Zcdp, runs: int) -> list[tuple[str, ...]]:
    """What is found in so many runs on the same table."""
    source = opened(people, schema)
    noise, levels = SeededNoise(9), FoundLevels("a")
    return [Curator(source, Ledger(cost), noise).find(levels, cost) for _ in range(runs)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("relation", "rows"), [(Neighbours.ADD_REMOVE, 1), (Neighbours.REPLACE, 3)]
)
def test_the_texts_of_one_person_are_found_no_more_often_than_their_share_of_delta(
    relation, rows, tally, times
):
    """At a share of 0.05, so that it can be seen. A sound search fails with a probability of at
    most 3e-7."""
    runs, share = times(2_000, 100_000), 0.05
    schema = small(rows, relation, FIELDS)
    people = [[("v", True)]] * 30 + [[(f"only {i}", True) for i in range(rows)]]
    cost = Zcdp(Fraction(1, 10), Fraction(share))
    seen = sum(len(set(found) - {"v"}) > 0 for found in found_in(schema, people, cost, runs))
    assert binom.sf(seen - 1, runs, share) > FALSE_ALARM
    # And as often as the law says: a threshold that is too high would waste the share.
    sigma = FoundLevels("a").sigma(schema.unit, cost)
    least = FoundLevels("a").threshold(schema.unit, cost)
    law = float(1 - (1 - chance(sigma, least - 1)) ** rows)
    assert min(binom.sf(seen - 1, runs, law), binom.cdf(seen, runs, law)) > FALSE_ALARM
    tally("searches for the texts of one person", runs)


@pytest.mark.statistical
@pytest.mark.parametrize("low", ["half of the noise", "a low threshold"])
def test_a_search_that_finds_one_persons_text_too_often_is_caught(low, monkeypatch, times):
    """By the test above. The text appears in 13% of the runs and more, so that it would go unseen
    with a probability below 1e-9."""
    runs, share = times(2_000, 100_000), 0.05
    schema = small(1, "add-remove", FIELDS)
    cost = Zcdp(Fraction(1, 10), Fraction(share))
    sigma, least = FoundLevels("a").sigma(Unit(), cost), FoundLevels("a").threshold(Unit(), cost)
    if low == "a low threshold":
        monkeypatch.setattr(FoundLevels, "threshold", lambda *_: least - 2)
    else:
        monkeypatch.setattr(FoundLevels, "sigma", lambda *_: 2 * sigma)
        monkeypatch.setattr(FoundLevels, "threshold", lambda *_: least)
    found = found_in(schema, [[("v", True)]] * 30 + [[("only", True)]], cost, runs)
    seen = sum("only" in texts for texts in found)
    assert binom.sf(seen - 1, runs, share) < FALSE_ALARM


# Whole runs.


@pytest.mark.parametrize("name", ["mst", "aim"])
def test_a_fit_finds_levels_charges_for_them_and_releases_a_schema_that_has_them(name, tmp_path):
    release = admeasure.fit(
        frame(4000, 1), OPEN, **asked(mechanism=build(name, {}), out=tmp_path / "out")
    )
    drug = release.schema.column("drug")
    assert drug.listed == ("alpha", "beta", "été")
    assert drug.labels == ("alpha", "beta", "été", "other", "missing")
    certificate = release.certificate
    assert certificate.delta_spent == pytest.approx(1e-7)
    assert certificate.rho < float(admeasure.privacy.cost.budget_of(1, 1e-6))
    assert certificate.epsilon_spent <= 1
    (line,) = [c for c in certificate.charges if c.what == "levels of drug"]
    assert (line.times, line.delta) == (1, certificate.delta_spent)
    assert "1e-07 of delta" in certificate.promise
    assert any("levels of drug were found" in note for note in certificate.notes)
    assert audit_release(tmp_path / "out").holds
    rows = admeasure.Release.load(tmp_path / "out").sample_columns(2000, seed=1)["drug"]
    assert set(rows) == {"alpha", "beta", "été", "other", "?"}
    assert not any(str(x) in (tmp_path / "out" / "log.jsonl").read_text() for x in ("x1", "x7"))


def test_the_found_column_is_counted_as_one_whose_enum_was_written_down():
    """Texts that are not found are `other`, and missing ones `missing`."""
    table = frame(3000, 3)
    released = admeasure.fit(
        table, ONE, workload="all-1way", mechanism=build("independent", {}), epsilon=50, delta=1e-6
    )
    expected = {
        text: sum(value == text for value in table["drug"]) for text in ("alpha", "beta", "été")
    }
    counts = released.marginal(("drug",))
    missing = sum(value in (None, "?") for value in table["drug"])
    expected |= {"other": 3000 - missing - sum(expected.values()), "missing": missing}
    labels = released.schema.column("drug").labels
    assert dict(zip(labels, counts, strict=True)) == pytest.approx(expected, abs=25)


@pytest.mark.parametrize("table", ["all missing", "all distinct", "one long text", "nobody"])
def test_where_nothing_is_found_all_is_other(table, tmp_path):
    rows = 0 if table == "nobody" else 600
    drugs = {
        "all missing": [None] * rows,
        "all distinct": [f"d{i}" for i in range(rows)],
        "one long text": ["x" * (LONGEST_LEVEL + 1)] * rows,
        "nobody": [],
    }[table]
    release = admeasure.fit(
        {"drug": drugs, "age": [5] * rows, "sex": ["f"] * rows},
        ONE,
        **asked(mechanism=build("mst", {}), out=tmp_path / "out"),
    )
    assert release.schema.column("drug").labels == ("other", "missing")
    loaded_again = admeasure.Release.load(tmp_path / "out")
    assert loaded_again.schema == release.schema
    assert set(loaded_again.sample_columns(30, seed=1)["drug"]) <= {"other", "?"}
    assert audit_release(tmp_path / "out").holds


def test_a_file_finds_what_a_frame_finds(tmp_path):
    table = frame(3000, 5)
    lines = ["drug,age,sex"]
    for drug, age, sex in zip(*table.values(), strict=True):
        lines.append(f"{'?' if drug is None else drug},{age},{sex}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    run = asked(mechanism=build("mst", {}), seed=4)
    found = admeasure.fit(str(tmp_path / "t.csv"), OPEN, **run)
    expected = admeasure.fit(table, OPEN, **run)
    assert found.schema == expected.schema
    assert found.log == expected.log


def test_a_release_is_compared_with_the_table_by_the_levels_that_were_found(tmp_path):
    lines = ["drug,age,sex", *(f"alpha,{i % 100},f" for i in range(900)), "rare,5,m"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    run, table = asked(mechanism=build("mst", {}), epsilon=20), str(tmp_path / "t.csv")
    release = admeasure.fit(table, ONE, out=tmp_path / "out", **run)
    assert release.schema.column("drug").listed == ("alpha",)
    found = admeasure.evaluate(tmp_path / "out", table, ONE, workload="all-2way")
    assert found.errors.workload_error < 0.1
    with pytest.raises(SchemaError, match="private levels, which a fit finds"):
        admeasure.evaluate(table, table, ONE, workload="all-2way")


def test_a_plan_says_what_levels_cost_and_the_run_pays_just_that():
    made = admeasure.plan(OPEN, workload="all-2way", epsilon=1, delta=1e-6, mechanism="independent")
    release = admeasure.fit(
        frame(500, 2), OPEN, **asked(mechanism=build("independent", {}), seed=1)
    )
    (item,) = [item for item in made.plan.items if item.what == "levels of drug"]
    (event,) = [e for e in release.log if e["event"] == "find"]
    assert Zcdp.from_record(event) == item.cost
    assert (event["sigma"], event["l2_squared"]) == (item.sigma, 1)
    assert f"at least {event['threshold']}. " in " ".join(made.plan.notes)
    assert item.cost.delta_share == Fraction(1, 10**7)
    spent = sum((item.total for item in made.plan.items[1:]), made.plan.items[0].total)
    assert spent == made.budget
    assert made.budget.epsilon(1e-6) == pytest.approx(1, rel=1e-9)
    assert made.to_json()["delta_share"] == pytest.approx(1e-7)


def test_a_run_that_was_killed_after_its_levels_were_found_goes_on_with_the_same(tmp_path):
    run = asked(mechanism=build("mst", {}), out=tmp_path / "out")
    for stop_at in (2, 3):  # bins, levels; and the first measurement on them
        heard: list[dict[str, Any]] = []
        with pytest.raises(KeyboardInterrupt):
            admeasure.fit(frame(2000, 4), OPEN, **run, listeners=(stopping(heard, stop_at),))
        release = admeasure.fit(frame(2000, 4), OPEN, **run, resume=True)
        results = [e for e in release.log if e["event"] != "intent"]
        assert [without_values(e) for e in heard] == results[:stop_at]
        assert [e["found"] for e in results if "found" in e] == [heard[1]["found"]]
        assert audit_release(tmp_path / "out").holds
        run["out"] = tmp_path / "again"


def test_a_forged_threshold_or_level_is_found_by_the_audit(tmp_path):
    out = tmp_path / "out"
    run = asked(workload="all-1way", mechanism=build("independent", {}), out=out)
    admeasure.fit(frame(2000, 4), ONE, **run)
    log = (out / "log.jsonl").read_text()
    head = json.loads((out / "release.json").read_text())
    for change in ({"threshold": 2}, {"found": ["alpha"]}):
        lines = [json.loads(line) for line in log.splitlines()]
        changed = [{**e, **change} if "threshold" in e else e for e in lines]
        raw = "".join(json.dumps(e) + "\n" for e in changed).encode()
        head["sha256"]["log.jsonl"] = hashlib.sha256(raw).hexdigest()
        (out / "log.jsonl").write_bytes(raw)
        (out / "release.json").write_text(json.dumps(head))
        checks = {c.name: c.problems for c in audit_release(out).checks}
        assert checks["levels that were found are worth their delta"]


# What is refused.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('enum = "private"', 'enum = "privat"'), "list"),
        (('enum = "private"', 'enum = "private"\nother = false'), "Remove `other = false`"),
        (('enum = "private"', "enum = []"), "empty enum"),
        (('bins = "private"', 'enum = "private"'), "list"),
    ],
)
def test_a_column_whose_levels_cannot_be_found_is_refused(change, said):
    with pytest.raises(SchemaError, match=said):
        Schema.loads(TEXT.replace(*change, 1))


def test_a_zero_of_a_column_whose_levels_are_private_is_refused():
    zero = '[[zero]]\ncolumns = ["drug", "sex"]\nwhere = {drug = "beta", sex = "m"}\n'
    with pytest.raises(SchemaError, match="names a column whose levels are private"):
        Schema.loads(TEXT + zero)


def test_an_open_schema_is_written_and_read_back_and_says_how_large_it_may_become():
    assert Schema.loads(OPEN.dumps()) == OPEN
    assert OPEN.domain["drug"] == MOST_FOUND + 2
    assert OPEN.as_read.domain["drug"] == 2
    with pytest.raises(SchemaError, match="private levels, which a fit finds"):
        _ = OPEN.column("drug").labels


def test_numbers_with_fractions_are_refused_before_anything_is_charged(tmp_path):
    Book.create(tmp_path / "book.db", "stays", epsilon=1, delta=1e-6)
    table = frame(50, 1) | {"drug": [0.5] * 50}
    with pytest.raises(DataError, match="stored as numbers with fractions"):
        admeasure.fit(table, OPEN, **asked(out=tmp_path / "out"))
    assert not list(tmp_path.glob("*out*"))


def test_what_must_know_the_levels_before_is_refused():
    run = asked(public=frame(100, 9), mechanism=build("pmw-pub", {}))
    with pytest.raises(AdmeasureError, match="private"):
        admeasure.fit(frame(100, 1), ONE, **run)


def test_levels_that_differ_in_spaces_and_case_alone_are_found_as_one(tmp_path):
    """Together they pass a threshold that none of them would; rows have the one spelling, and the
    table is read by it."""
    spelled = Schema.loads(
        TEXT.replace('"private"', '"private"\nstrip = true\nignore_case = true', 1)
    )
    table = frame(3000, 6)
    drugs = [" Alpha", "ALPHA", "alpha ", "aLpha", "BETA", "beta", " N/A "]
    table["drug"] = [drugs[i % len(drugs)] for i in range(3000)]
    run = asked(mechanism=build("mst", {}), epsilon=3, out=tmp_path / "out")
    release = admeasure.fit(table, spelled, **run)
    assert release.schema.column("drug").listed == ("alpha", "beta", "n/a")
    assert audit_release(tmp_path / "out").holds
    again = admeasure.Release.load(tmp_path / "out")
    assert set(again.sample_columns(500, seed=1)["drug"]) <= {"alpha", "beta", "n/a", "other", "?"}
    shares = np.asarray(again.marginal(["drug"]))[:3] / 3000
    assert shares == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.05)
