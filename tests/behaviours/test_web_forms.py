"""Forms of the local page: what is typed means what the file would say."""

from __future__ import annotations

import datetime
import math
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")

import admeasure
import spellings
from admeasure.errors import SchemaError, UsageError
from admeasure.queries import Where
from admeasure.schema import Schema
from admeasure.web import actions, asking, budget
from admeasure.web.checking import checked
from admeasure.web.conditions import selection_of, text_of
from admeasure.web.estimate import estimate
from admeasure.web.forms import document_of, empty_form, form_of, relations_in_words
from admeasure.web.workspace import Stale, Workspace
from admeasure.workload.questions import parse_questions

DEMO = files("admeasure.demo")
ALL_KINDS = """
[table]
name = "all kinds"
rows = 100
[privacy]
unit = "household"
unit_column = "id"
max_rows_per_unit = 3
neighbours = "replace"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 59
bins = 6
clamp = true
[[column]]
name = "income"
type = "number"
edges = [0.0, 10.5, 20.0]
missing_values = ["?", "n/a"]
[[column]]
name = "born"
type = "date"
minimum = 1990-01-01
maximum = 1999-12-31
bins = 10
[[column]]
name = "work, paid"
type = "string"
enum = ["yes, often", "no", '"quoted"']
other = true
missing_values = []
[[column]]
name = "smoker"
type = "boolean"
[[zero]]
columns = ["age", "smoker", "work, paid"]
where = {age = {to = 9}, smoker = true, "work, paid" = ["yes, often", {level = "other"}]}
"""


PRIVATE_BINS = ALL_KINDS.replace("bins = 10", 'bins = "private"')


@pytest.mark.parametrize("text", [ALL_KINDS, PRIVATE_BINS, (DEMO / "schema.toml").read_text()])
def test_a_schema_file_goes_into_the_form_and_back_unchanged(text: str) -> None:
    schema = Schema.loads(text)
    header = [(name, "VARCHAR") for name in schema.names]
    form = form_of(tomllib.loads(text), header)
    again, problems = checked(form)
    assert problems == []
    assert again == schema


def test_levels_that_are_to_be_found_are_said_by_one_word() -> None:
    text = ALL_KINDS.split("[[column]]")[0]
    text += '[[column]]\nname = "x"\ntype = "string"\nenum = "private"\n'
    form = form_of(tomllib.loads(text), [("x", "VARCHAR")])
    assert form["columns"][0]["enum"] == "private"
    schema, problems = checked(form)
    assert problems == []
    assert schema == Schema.loads(text)


def test_an_empty_form_asks_for_the_unit_and_for_what_no_run_can_find() -> None:
    schema, problems = checked(empty_form("t", [("a", "VARCHAR"), ("b", "BIGINT")]))
    assert schema is None
    where = {p["where"] for p in problems}
    assert where == {"privacy", "column:a"}  # the bins of b are private unless it is told more
    assert any("whom the guarantee protects" in p["text"] for p in problems)


def test_a_problem_is_shown_at_its_own_column_also_where_names_begin_alike() -> None:
    form = empty_form("t", [("age", "BIGINT"), ("age'", "BIGINT"), ("age 2", "BOOLEAN")])
    form["privacy"]["unit"] = "person"
    form["columns"][0] |= {"minimum": "0", "maximum": "9"}
    form["columns"][1] |= {"minimum": "9", "maximum": "0"}
    _, problems = checked(form)
    assert {p["where"] for p in problems} == {"column:age'"}


def test_what_cannot_be_read_is_named_and_not_guessed() -> None:
    form = empty_form("t", [("a", "BIGINT")])
    form["privacy"]["unit"] = "person"
    form["columns"][0] |= {"minimum": "zero", "maximum": "9"}
    _, problems = checked(form)
    assert any("zero" in p["text"] and "whole number" in p["text"] for p in problems)


def test_a_column_that_is_not_used_is_not_in_the_schema() -> None:
    form = empty_form("t", [("a", "BOOLEAN"), ("b", "BOOLEAN")])
    form["privacy"]["unit"] = "person"
    form["columns"][1]["use"] = False
    schema, _ = checked(form)
    assert schema is not None
    assert schema.names == ("a",)
    assert [c["name"] for c in document_of(form)["column"]] == ["a"]


PLAIN = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20)
VALUES = {
    "string": PLAIN.filter(lambda t: t.strip() and t not in ("(missing)", "(other)")),
    "integer": st.integers(-(10**9), 10**9),
    "number": st.floats(-1e9, 1e9, allow_nan=False) | st.integers(-(10**6), 10**6),
    "date": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    "boolean": st.booleans(),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_a_condition_means_the_same_after_it_was_written_out(kind: str, data: Any) -> None:
    value = VALUES[kind]
    parts = value | st.sampled_from([{"level": "missing"}, {"level": "other"}])
    if kind in ("integer", "number", "date"):
        parts |= st.fixed_dictionaries({"from": value}, optional={"to": value})
        parts |= st.fixed_dictionaries({"to": value})
    selection = data.draw(parts | st.lists(parts, min_size=2, max_size=4))
    assert selection_of(kind, text_of(selection)) == selection


@pytest.mark.parametrize(
    ("kind", "text"), [("integer", "x"), ("date", "1.2.2024"), ("integer", ".."), ("string", " ,")]
)
def test_a_condition_that_says_nothing_is_refused(kind: str, text: str) -> None:
    with pytest.raises(SchemaError):
        selection_of(kind, text)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path / "work", tmp_path)
    found.prepare()
    return found


def opened(space: Workspace) -> Any:
    (space.start / "t.csv").write_text("a,b\ntrue,1\n")
    name = actions.open_table(space, {"data": "t.csv"})["next"].split("/")[2]
    return space.table(name)


def test_opening_a_table_reads_its_header_and_keeps_no_value(space: Workspace) -> None:
    (space.start / "t.csv").write_text("name,secret\nMallory,4711\n")
    actions.open_table(space, {"data": "t.csv"})
    kept = "".join(p.read_text() for p in space.folder.rglob("*") if p.is_file())
    assert "secret" in kept
    assert "Mallory" not in kept
    assert "4711" not in kept


def test_a_change_to_what_was_changed_elsewhere_is_refused(space: Workspace) -> None:
    table = opened(space)
    state = table.read()
    changed = {**state["form"], "zeros": [[]]}
    actions.save_schema(table, {"form": changed, "version": state["version"]})
    with pytest.raises(Stale):
        actions.save_schema(table, {"form": state["form"], "version": state["version"]})


def test_the_schema_file_is_there_only_while_the_form_is_valid(space: Workspace) -> None:
    table = opened(space)
    form = table.read()["form"]
    assert not table.schema_path.exists()
    form["privacy"]["unit"] = "person"
    form["columns"][0]["type"] = "boolean"
    form["columns"][1] |= {"type": "integer", "minimum": "0", "maximum": "5"}
    found = actions.save_schema(table, {"form": form, "version": table.read()["version"]})
    assert found["ok"]
    assert Schema.load(table.schema_path).names == ("a", "b")
    form["privacy"]["unit"] = ""
    actions.save_schema(table, {"form": form, "version": table.read()["version"]})
    assert not table.schema_path.exists()
    with pytest.raises(UsageError):
        table.schema()


def test_a_plan_costs_nothing_and_creates_no_book(space: Workspace) -> None:
    name = actions.open_demo(space)["next"].split("/")[2]
    table = space.table(name)
    asked = {"epsilon": "1", "delta": "1e-9", "mechanism": "gaussian", "rows": "", "options": ""}
    asked |= {"public": "", "dataset": "d", "total": "3"}
    found = budget.plan(space, table, {"budget": asked})
    assert sum(i["share"] for i in found["items"]) <= 1 + 1e-9
    assert not space.book.exists()
    assert not list(table.runs.iterdir())


def test_the_estimate_of_a_run_is_that_of_its_noise() -> None:
    """On marginals measured once, sqrt(2/π) σ n / rows; an inner one from the sum of the cells."""
    schema = Schema.coded("t", {"a": 2, "b": 3, "c": 4})
    events = [
        {"event": "intent", "of": "measure"},
        {
            "event": "measure", "query": {"query": "marginal", "columns": ["a", "b"]},
            "sigma": 5.0, "rho": "1/50", "total": 1000,
        },
    ]  # fmt: skip
    root = math.sqrt(2 / math.pi)
    both = estimate(events, [("a", "b")], schema.domain)
    assert both.error == pytest.approx(root * 5.0 * 6 / 1000)
    inner = estimate(events, [("a",), ("a", "c")], schema.domain)
    assert inner.error == pytest.approx(root * 5.0 * math.sqrt(3) * 2 / 1000)
    assert (inner.covered, inner.marginals) == (1, 2)
    assert estimate([], [("a",)], schema.domain).error is None


def test_a_question_of_the_page_has_the_answer_of_the_release(tmp_path: Path) -> None:
    schema = Schema.loads(ALL_KINDS.replace('unit_column = "id"\nmax_rows_per_unit = 3\n', ""))
    rng = np.random.default_rng(0)
    data = {
        "age": [int(x) for x in rng.integers(10, 60, 200)],
        "income": [float(x) for x in rng.uniform(0, 20, 200)],
        "born": [datetime.date(1990 + int(x), 1, 1) for x in rng.integers(0, 10, 200)],
        "work, paid": [("yes, often", "no")[i] for i in rng.integers(0, 2, 200)],
        "smoker": [bool(x) for x in rng.integers(0, 2, 200)],
    }
    release = admeasure.fit(
        data, schema, workload="all-2way", mechanism=admeasure.independent(), epsilon=1.0,
        delta=1e-9, seed=0, out=tmp_path / "r",
    )  # fmt: skip
    typed = [
        {"column": "age", "text": "10..29, 50..59"},
        {"column": "work, paid", "text": '"yes, often"'},
    ]
    found = asking.ask(tmp_path / "r", {"conditions": typed, "at_least": 0, "confidence": 0.9})
    (answer,) = release.answer([Where(["age", "work, paid"], [(1, 2, 5), (0,)])], confidence=0.9)
    assert (found["value"], found["low"], found["high"]) == pytest.approx(
        (answer.value, answer.low, answer.high)
    )
    (question,) = parse_questions(found["toml"], schema)
    assert question.query == answer.query
    cells = asking.marginal(tmp_path / "r", ["smoker", "age"], 0.95)["cells"]
    table = np.asarray(release.marginal(["age", "smoker"])).ravel()
    assert [c["value"] for c in cells] == pytest.approx(list(table))


def test_what_the_form_does_not_show_is_kept():
    """Every field of every type: a schema that is opened in the page and saved is what it was."""
    schema = spellings.schema()
    letters = {"enum": ("a", "B"), "missing_values": ("N/A",)}  # the form has one value a line
    columns = tuple(
        c.model_copy(update=letters) if c.type == "string" else c for c in schema.columns
    )
    table = schema.table.model_copy(update={"encoding": "latin-1"})
    whole = schema.model_copy(update={"table": table, "columns": columns})
    header = [(name, "VARCHAR") for name in whole.names]
    found, problems = checked(form_of(tomllib.loads(whole.dumps()), header))
    assert found == whole, problems
    listed = Schema.loads(
        '[table]\nname = "t"\n[privacy]\nunit = "p"\n[[column]]\nname = "a"\ntype = "integer"\n'
        'enum = [1, 3]\n[[column]]\nname = "b"\ntype = "number"\nminimum = 0\nmaximum = 9\n'
        'bins = 3\ndecimals = 2\ndescription = "what it is"\n'
    )
    found, problems = checked(form_of(tomllib.loads(listed.dumps()), [("a", ""), ("b", "")]))
    assert found == listed, problems


@pytest.mark.parametrize("enum", ["", 'enum = "private"\n', 'enum = ["g", "b"]\n'])
def test_a_hierarchy_is_kept_and_said_in_words(enum):
    text = (
        '[table]\nname = "t"\n[privacy]\nunit = "p"\n[[column]]\nname = "icd"\ntype = "string"\n'
        f'strip = true\nlevels_of = {{a = "g", b = "g"}}\n{enum}'
    )
    form = form_of(tomllib.loads(text), [("icd", "")])
    found, problems = checked(form)
    assert found == Schema.loads(text), problems
    (said,) = relations_in_words(form)
    assert "icd has codes in a public hierarchy" in said["text"]
    damaged = form_of(tomllib.loads(text.replace('{a = "g", b = "g"}', "7")), [("icd", "")])
    relations_in_words(damaged)
    assert checked(damaged)[0] is None


def test_a_kept_field_of_another_type_is_left_out():
    text = '[table]\nname = "t"\n[privacy]\nunit = "p"\n[[column]]\nname = "a"\ntype = "boolean"\n'
    words = 'true_values = ["Yes"]\nfalse_values = ["No"]\n'
    form = form_of(tomllib.loads(text + words), [("a", "")])
    form["columns"][0] |= {"type": "string", "enum": "Yes\nNo"}
    found, problems = checked(form)
    assert found is not None, problems
    assert found.column("a").listed == ("Yes", "No")


def test_a_short_schema_is_taken_into_the_form_whole():
    text = (
        '[table]\nname = "t"\n[privacy]\nunit = "p"\n[[column]]\nnames = ["a", "b"]\n'
        'ready = "us-state"\nstrip = true\n'
    )
    found, problems = checked(form_of(tomllib.loads(text), [("a", ""), ("b", "")]))
    assert found == Schema.loads(text), problems
