"""Levels that a run finds: the threshold, the audits, the charge, the resumed run, bad schemas."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import admeasure
from admeasure.auditing.release import audit_release
from admeasure.auditing.replay import compare
from admeasure.auditing.thresholds import chance
from admeasure.errors import AdmeasureError, BudgetError, DataError, SchemaError
from admeasure.mechanisms import build
from admeasure.planning import bought
from admeasure.planning.mechanism import Mechanism, Outcome
from admeasure.privacy.book import Book
from admeasure.privacy.cost import Zcdp
from admeasure.privacy.curator import Curator
from admeasure.privacy.found_levels import FoundLevels, tail, threshold
from admeasure.privacy.journal import without_values
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.schema import Schema
from admeasure.schema.found_levels import LONGEST_LEVEL, MOST_FOUND, may_be_level
from admeasure.sources.open import open_to_buy
from admeasure.sparse import TextCounts
from admeasure.unit import Neighbours, Unit
from admeasure.workload import parse_workload
from factories import loaded

BROKEN = sorted((Path(__file__).parent / "broken" / "levels").glob("*.py"))
FALSE_ALARM = 1e-7

TEXT = """
[table]
name = "stays"
[privacy]
unit = "person"
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


# The threshold.


@given(st.floats(0.3, 60), st.integers(1, 200))
def test_the_tail_is_that_of_the_discrete_gaussian_and_never_less(sigma, least):
    """Against the weights themselves, added up in decimal digits."""
    exact, found = chance(sigma, least), tail(sigma, least)
    assert Decimal(found) >= exact
    if exact > Decimal("1e-200"):
        assert found == pytest.approx(float(exact), rel=1e-8)


def test_beyond_what_is_summed_the_tail_is_bounded_as_closely():
    for sigma in (70_000.0, 1e6, 1e9):
        least = int(6 * sigma)
        normal = math.erfc(6 / math.sqrt(2)) / 2
        assert normal <= tail(sigma, least) <= normal * (1 + 20 / sigma + 1e-6)


@settings(max_examples=60)
@given(
    st.floats(0.5, 40),
    st.sampled_from([0.3, 0.05, 1e-3, 1e-6, 1e-10, 1e-15]),
    st.integers(1, 8),
)
def test_the_threshold_is_the_least_that_is_worth_its_share(sigma, share, texts):
    found = threshold(sigma, Fraction(share), texts)

    def any_of_them(least: int) -> Decimal:
        return 1 - (1 - chance(sigma, least - 1)) ** texts

    assert any_of_them(found) <= Decimal(share)
    assert found == 2 or any_of_them(found - 1) > Decimal(share) * (1 - Decimal("1e-7"))


@pytest.mark.parametrize("share", [0, Fraction(-1, 10), 1, Fraction(1, 10**300)])
def test_what_is_no_share_of_delta_buys_no_threshold(share):
    with pytest.raises(BudgetError, match="delta"):
        threshold(10.0, Fraction(share), 1)


def test_a_level_that_as_many_hold_as_are_needed_is_found_as_often_as_promised():
    """19 of 20; by the exact law of the noise."""
    cost = Zcdp(Fraction(1, 1000), Fraction(1, 10**10))
    for unit in (Unit(), Unit(Neighbours.REPLACE, 3)):
        levels = FoundLevels("x")
        sigma, least = levels.sigma(unit, cost), levels.threshold(unit, cost)
        count = levels.needed(unit, cost)
        assert 1 - chance(sigma, count - least + 1) >= Decimal("0.95")
        assert 1 - chance(sigma, count - least + 1 - math.ceil(sigma / 16)) < Decimal("0.95")


@pytest.mark.parametrize(
    ("relation", "rows", "changed"),
    [("add-remove", 1, 1), ("add-remove", 3, 3), ("replace", 1, 2), ("replace", 3, 6)],
)
def test_what_one_unit_can_move_is_a_text_for_each_of_its_rows_or_twice_as_many(
    relation, rows, changed
):
    unit = Unit(Neighbours(relation), rows)
    assert FoundLevels("x").l2_squared(unit) == changed
    cost = Zcdp(Fraction(1, 100), Fraction(1, 10**6))
    sigma = FoundLevels("x").sigma(unit, cost)
    assert sigma == pytest.approx(math.sqrt(changed * 50))
    assert FoundLevels("x").threshold(unit, cost) == threshold(sigma, cost.delta_share, changed)


# What passes.


def test_blocks_of_texts_are_never_held_together_and_the_largest_are_kept():
    def blocks():
        for start in range(0, 3000, 100):
            texts = [f"{i:05}" for i in range(start, start + 100)]
            yield TextCounts(texts, np.arange(start, start + 100))

    found = SeededNoise(1).passing(blocks(), 0.001, 2000, 50)
    assert found == [f"{i:05}" for i in range(2950, 3000)]
    assert SeededNoise(1).passing(iter(()), 1.0, 2, 50) == []


@given(st.text(max_size=200))
def test_what_can_be_found_can_be_written_into_a_schema(text):
    if may_be_level(text):
        column = ONE.column("drug")
        found = ONE.with_columns({"drug": column.model_copy(update={"enum": (text,)})})
        assert Schema.loads(found.dumps()).column("drug").listed == (text,)
    else:
        assert (
            len(text) > LONGEST_LEVEL
            or text == "other"
            or any(ord(c) < 32 for c in text)
            or ("\x7f" in text or any("\ud800" <= c <= "\udfff" for c in text))
        )


# Audits.

SMALL = """
[table]
name = "toy"
[privacy]
unit = "person"
unit_column = "id"
max_rows_per_unit = {rows}
neighbours = "{relation}"
[[column]]
name = "a"
type = "string"
enum = "private"
missing_values = []
[[column]]
name = "b"
type = "boolean"
"""
BUDGET = Zcdp(Fraction(40), Fraction(1, 10**7))


@dataclass(frozen=True)
class BoughtLevels:
    """A mechanism on levels that it buys, as the replay runs mechanisms."""

    mechanism: Mechanism
    schema: Schema

    def run(self, curator: Any, workload: Any, zeros: Any) -> Outcome:
        return bought.run(self.mechanism, curator, workload, self.schema)[1]


def opened(people: list[list[tuple[Any, bool]]], schema: Schema) -> Any:
    cells = [(*r, f"p{i}") for i, own in enumerate(people) for r in own]
    columns = zip(*cells, strict=True)
    return open_to_buy(dict(zip(("a", "b", "id"), map(list, columns), strict=True)), schema)


def replayed(pair: list[Any], schema: Schema, seed: int, name: str = "independent") -> Any:
    tables = [opened(people, schema) for people in pair]
    workload = parse_workload("all-2way", schema.domain)
    mechanism: Any = BoughtLevels(build(name, {}), schema)
    return compare(mechanism, workload, tables[0], tables[1], BUDGET, SeededNoise(seed))


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("name", ["mst", "independent"])
def test_neighbours_differ_only_in_what_is_noised(name, relation, tally, times):
    """Also by a person who holds a text, or is missing one, as nobody else does."""
    seen = []

    @settings(
        max_examples=times(15, 200),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        database=None,
    )
    @given(st.data())
    def check(data):
        rows = data.draw(st.integers(1, 3))
        schema = Schema.loads(SMALL.format(rows=rows, relation=relation.value))
        text = st.sampled_from(["u", "v", "w"]) | st.none()
        person = st.lists(st.tuples(text, st.booleans()), min_size=1, max_size=rows + 1)
        others = data.draw(st.lists(person, min_size=1, max_size=4)) * 5
        new = st.lists(
            st.tuples(text | st.sampled_from(["new", "newer", "newest"]), st.booleans()),
            min_size=1,
            max_size=rows + 2,
        )
        pair = [others, [*others, data.draw(new)]]
        if relation is Neighbours.REPLACE:
            pair[0] = [*others, data.draw(new)]
        found = replayed(pair, schema, rows, name)
        assert not found.faults
        assert any(m.event["event"] == "find" for m in found.moves)
        seen.append(1)

    check()
    tally(f"pairs of neighbours, levels found, {name}", len(seen))


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_search_for_levels_is_caught_by_the_check_that_should(path, monkeypatch, tally):
    module = loaded(path)
    schema = Schema.loads(SMALL.format(rows=2, relation="add-remove"))
    others = [[("v", True)]] * 40 + [[("u", False), ("v", True)]] * 60
    person = [("new", True), ("new", False), ("newer", True), ("newest", True)]
    pair = [others, [*others, person]]
    assert not replayed(pair, schema, 5).faults
    module.apply(monkeypatch.setattr)
    assert replayed(pair, schema, 5).failed | replayed(pair[::-1], schema, 5).failed >= (
        module.CAUGHT_BY
    )
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
    schema = Schema.loads(SMALL.format(rows=rows, relation=relation.value))
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
    schema = Schema.loads(SMALL.format(rows=1, relation="add-remove"))
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
        frame(4000, 1),
        OPEN,
        workload="all-2way",
        mechanism=build(name, {}),
        epsilon=1,
        delta=1e-6,
        out=tmp_path / "out",
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
        workload="all-2way",
        mechanism=build("mst", {}),
        epsilon=1,
        delta=1e-6,
        out=tmp_path / "out",
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
    asked: dict[str, Any] = {"workload": "all-2way", "epsilon": 1, "delta": 1e-6, "seed": 4}
    asked["mechanism"] = build("mst", {})
    found = admeasure.fit(str(tmp_path / "t.csv"), OPEN, **asked)
    expected = admeasure.fit(table, OPEN, **asked)
    assert found.schema == expected.schema
    assert found.log == expected.log


def test_a_release_is_compared_with_the_table_by_the_levels_that_were_found(tmp_path):
    lines = ["drug,age,sex", *(f"alpha,{i % 100},f" for i in range(900)), "rare,5,m"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    asked: dict[str, Any] = {"workload": "all-2way", "epsilon": 20, "delta": 1e-6}
    mechanism, table = build("mst", {}), str(tmp_path / "t.csv")
    release = admeasure.fit(table, ONE, mechanism=mechanism, out=tmp_path / "out", **asked)
    assert release.schema.column("drug").listed == ("alpha",)
    found = admeasure.evaluate(tmp_path / "out", table, ONE, workload="all-2way")
    assert found.errors.workload_error < 0.1
    with pytest.raises(SchemaError, match="private levels, which a fit finds"):
        admeasure.evaluate(table, table, ONE, workload="all-2way")


def test_a_plan_says_what_levels_cost_and_the_run_pays_just_that():
    made = admeasure.plan(OPEN, workload="all-2way", epsilon=1, delta=1e-6, mechanism="independent")
    release = admeasure.fit(
        frame(500, 2),
        OPEN,
        workload="all-2way",
        mechanism=build("independent", {}),
        epsilon=1,
        delta=1e-6,
        seed=1,
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
    asked: dict[str, Any] = {
        "workload": "all-2way",
        "mechanism": build("mst", {}),
        "epsilon": 1,
        "delta": 1e-6,
        "out": tmp_path / "out",
    }
    for stop_at in (2, 3):  # bins, levels; and the first measurement on them
        heard: list[dict[str, Any]] = []

        def stop(event: dict[str, Any], heard: Any = heard, most: int = stop_at) -> None:
            heard.append(event)
            if len(heard) == most:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            admeasure.fit(frame(2000, 4), OPEN, **asked, listeners=(stop,))
        release = admeasure.fit(frame(2000, 4), OPEN, **asked, resume=True)
        results = [e for e in release.log if e["event"] != "intent"]
        assert [without_values(e) for e in heard] == results[:stop_at]
        assert [e["found"] for e in results if "found" in e] == [heard[1]["found"]]
        assert audit_release(tmp_path / "out").holds
        asked["out"] = tmp_path / "again"


def test_a_forged_threshold_or_level_is_found_by_the_audit(tmp_path):
    out = tmp_path / "out"
    asked: dict[str, Any] = {"workload": "all-1way", "epsilon": 1, "delta": 1e-6, "out": out}
    admeasure.fit(frame(2000, 4), ONE, mechanism=build("independent", {}), **asked)
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
        admeasure.fit(
            table,
            OPEN,
            workload="all-2way",
            epsilon=1,
            delta=1e-6,
            out=tmp_path / "out",
        )
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("asked", [{"public": frame(100, 9), "mechanism": build("pmw-pub", {})}])
def test_what_must_know_the_levels_before_is_refused(asked, tmp_path):
    with pytest.raises(AdmeasureError, match="private"):
        admeasure.fit(frame(100, 1), ONE, workload="all-2way", epsilon=1, delta=1e-6, **asked)
