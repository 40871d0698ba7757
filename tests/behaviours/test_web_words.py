"""The page speaks in the words of its form, and what nobody has filled in yet is no mistake."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")

import admeasure
from admeasure.domain import Domain
from admeasure.schema import Schema
from admeasure.schema.model import LISTS, TYPES
from admeasure.web.checking import checked
from admeasure.web.estimate import estimate
from admeasure.web.forms import document_of, empty_form, form_of, relations_in_words
from admeasure.web.watching import phase
from admeasure.web.wording import in_words, on_page
from admeasure.workload import parse_workload

OF_A_FILE = re.compile(
    r"`|\[\[|\]\]|\[privacy|\[table|TOML|\benum\b|"
    r"\b(" + "|".join({f for t in TYPES.values() for f in t.model_fields if "_" in f}) + r")\b|"
    r"\b(unit_column|max_rows_per_unit|" + "|".join(n for n in LISTS if "_" in n) + r")\b"
)


def started(*names: str) -> dict[str, Any]:
    """A form with its unit."""
    form = empty_form("t", [(n, "VARCHAR") for n in names])
    form["privacy"]["unit"] = "person"
    return form


TEXT = st.sampled_from(
    ["", "", "0", "9", "-3", "x", "1, 2", "2, 1", "2024-01-01", "private", "a\na", "a\nb", "70000"]
)
COLUMN = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["integer", "number", "date", "string", "boolean"]),
        **dict.fromkeys(("minimum", "maximum", "bins", "edges", "enum", "missing"), TEXT),
        **dict.fromkeys(("true_values", "false_values"), TEXT),
        "format": st.sampled_from(["", "%d.%m.%Y", "%q", "%d", "x"]),
        "decimal": st.sampled_from(["", ",", "1", "."]),
        "thousands": st.sampled_from(["", ",", ".", "xx"]),
        **{k: st.booleans() for k in ("has_missing", "other", "clamp", "log", "strip")},
        "ignore_case": st.booleans(),
    }
)
CONDITION = st.fixed_dictionaries({"column": st.sampled_from(["a", "b", "c"]), "text": TEXT})


@settings(max_examples=60, deadline=None)
@given(
    columns=st.lists(COLUMN, min_size=2, max_size=2),
    zeros=st.lists(st.lists(CONDITION, max_size=2), max_size=1),
    orders=st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3), max_size=1),
    rows=TEXT,
    unit_column=st.sampled_from(["", "", "b", "c"]),
)
def test_whatever_is_typed_the_form_never_speaks_of_a_file(
    columns: Any, zeros: Any, orders: Any, rows: str, unit_column: str
) -> None:
    form = started("a", "b")
    for mine, typed in zip(form["columns"], columns, strict=True):
        mine |= typed
    form |= {"zeros": zeros, "orders": orders}
    form["table"]["rows"] = rows
    form["privacy"] |= {"unit_column": unit_column, "max_rows_per_unit": rows}
    schema, problems = checked(form)
    assert (schema is None) == bool(problems)
    assert [p["text"] for p in problems if OF_A_FILE.search(p["text"])] == []


def test_the_users_own_names_are_never_translated() -> None:
    for name in ("enum", "`enum`", "[[zero]]", "missing_values", "it's", 'the "enum"'):
        form = started(name)
        form["columns"][0] |= {"type": "integer", "minimum": "9", "maximum": "0"}
        _, (problem,) = checked(form)
        assert problem["where"] == f"column:{name}"
        assert repr(name) in problem["text"]


def test_what_a_check_of_the_table_says_is_said_in_words_of_the_form() -> None:
    said = (
        "Column 'a' has a value outside [minimum, maximum] = [0, 9]; correct the table, or set "
        "`clamp = true` or `other = true`."
    )
    assert in_words(said) == (
        "Column 'a' has a value outside the bounds [0, 9]; correct the table, or tick “Values "
        "outside count as the nearest” or “Other values may occur”."
    )


SAID_ON_THE_PAGE = ("mechanisms", "parts", "planning", "privacy", "analyses", "workload", "queries")
SAID_TOO = ("limits.py", "run.py", "charges.py", "verbs/given.py", "verbs/plan.py", "verbs/fit.py")
OF_THE_COMMAND_LINE = re.compile(r"(?<![\w-])--[a-z]|`|\[\[|admeasure (?:ledger|fit|answer)")


def sentences(path: Path) -> list[str]:
    """The texts of a file that are raised or told, with {} for what is filled in."""
    tree = ast.parse(path.read_text())
    docs = {id(e.value) for e in ast.walk(tree) if isinstance(e, ast.Expr)}
    pieces = {id(v) for j in ast.walk(tree) if isinstance(j, ast.JoinedStr) for v in j.values}
    found = []
    for node in ast.walk(tree):
        if id(node) in docs or id(node) in pieces:
            continue
        if isinstance(node, ast.JoinedStr):
            values = (v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
            found.append("".join(map(str, values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return [text for text in found if " " in text]


def test_what_a_plan_or_a_run_says_names_no_option_of_the_command_line() -> None:
    """Every sentence that a step of the page may say, found in the code: also those to come."""
    here = Path(admeasure.__file__).parent
    files = [p for package in SAID_ON_THE_PAGE for p in (here / package).rglob("*.py")]
    said = {
        text for file in (*files, *(here / name for name in SAID_TOO)) for text in sentences(file)
    }
    assert sum(bool(re.search("--[a-z]", text)) for text in said) > 20
    left = {text: on_page(text) for text in said if re.search(r"--[a-z]|`", text)}
    assert {k: v for k, v in left.items() if OF_THE_COMMAND_LINE.search(v)} == {}


def test_what_the_page_says_in_place_of_options() -> None:
    for said, told in {
        "aim has no option --x. It takes --rounds.": "aim has no option x. It takes rounds.",
        "The defaults assume 10,000 rows; give --rows.": (
            "The defaults assume 10,000 rows; fill in “About how many rows”."
        ),
        "gem-pub needs one. Give --public DATA (in Python: public=…), or use gem.": (
            "gem-pub needs one. Fill in “A public table to learn from”, or use gem."
        ),
        "It is kept: run again with --resume, with more room, to continue; nothing is lost.": (
            "It is kept: continue this run with more room; nothing is lost."
        ),
        "Lower --queries or --rounds.": (
            "Lower queries or rounds. Write queries=… into “Options of the mechanism”."
        ),
        "There is no data set '--rows' in it; `admeasure ledger create` enters one.": (
            "There is no data set '--rows' in it; the page “Budget book” enters one."
        ),
    }.items():
        assert on_page(said) == told
        assert on_page(told) == told


def test_nothing_is_wrong_before_anything_is_typed() -> None:
    _, problems = checked(empty_form("t", [("a", "VARCHAR"), ("b", "VARCHAR"), ("c", "BIGINT")]))
    assert {p["kind"] for p in problems} == {"todo"}
    assert {p["where"] for p in problems} == {"privacy", "column:a", "column:b"}
    form = empty_form("t", [("a", "VARCHAR"), ("b", "VARCHAR")])
    form["columns"][1] |= {"type": "integer", "minimum": "9", "maximum": "0"}
    kinds = {p["where"]: p["kind"] for p in checked(form)[1]}
    assert kinds == {"privacy": "todo", "column:a": "todo", "column:b": "wrong"}


def test_a_rule_that_is_half_typed_is_neither_wrong_nor_taken() -> None:
    form = started("a", "b")
    for column in form["columns"]:
        column |= {"type": "integer", "minimum": "0", "maximum": "9"}
    for unfinished in (
        {"orders": [["a", ""]]},
        {"zeros": [[{"column": "a", "text": "3"}, {"column": "b", "text": ""}]]},
    ):
        schema, problems = checked({**form, **unfinished})
        assert schema is None
        assert [(p["where"], p["kind"]) for p in problems] == [("zero", "todo")]


def test_the_column_that_names_the_unit_is_no_unfinished_column() -> None:
    form = started("id", "a")
    form["privacy"] |= {"unit_column": "id", "max_rows_per_unit": "3"}
    form["columns"][1]["type"] = "boolean"
    schema, problems = checked(form)
    assert problems == []
    assert schema is not None
    assert schema.names == ("a",)
    assert (schema.privacy.unit_column, schema.privacy.max_rows_per_unit) == ("id", 3)


RELATED = """
[table]
name = "t"
[privacy]
unit = "person"
[[column]]
name = "booked"
type = "date"
minimum = 2024-01-01
maximum = 2024-12-31
bins = 12
format = "%d.%m.%Y"
[[column]]
name = "wait"
type = "integer"
minimum = 0
maximum = 90
bins = 9
thousands = " "
[[column]]
name = "cost"
type = "number"
decimal = ","
scale = "log"
[[column]]
name = "code"
type = "string"
enum = ["x", "y"]
strip = true
[[column]]
name = "paid"
type = "boolean"
true_values = ["Ja"]
false_values = ["Nein"]
[[column]]
name = "low"
type = "integer"
minimum = 0
maximum = 9
[[column]]
name = "high"
type = "integer"
minimum = 0
maximum = 9
[[order]]
columns = ["low", "high"]
[[difference]]
column = "wait"
of = "seen"
minus = "booked"
[[determines]]
from = ["code"]
to = "group"
map = {x = "1", y = "2"}
[[at_least_one]]
of = {low = 0, paid = true}
"""


def test_rules_and_spellings_of_a_schema_file_are_in_the_form_and_kept() -> None:
    header = [(n, "VARCHAR") for n in ("booked", "seen", "cost", "code", "group", "paid")]
    form = form_of(tomllib.loads(RELATED), header)
    by_name = {c["name"]: c for c in form["columns"]}
    assert by_name["booked"]["format"] == "%d.%m.%Y"
    assert (by_name["cost"]["decimal"], by_name["cost"]["log"]) == (",", True)
    assert (by_name["paid"]["true_values"], by_name["paid"]["false_values"]) == ("Ja", "Nein")
    assert by_name["code"]["strip"]
    assert form["orders"] == [["low", "high"]]
    assert {r["computed"] for r in relations_in_words(form)} == {"seen", "group", ""}
    found, problems = checked(form)
    assert problems == []
    assert found is not None
    whole = Schema.loads(RELATED)
    assert {c.name: c for c in found.columns} == {c.name: c for c in whole.columns}
    assert found.model_copy(update={"columns": whole.columns}) == whole


def test_a_form_from_before_these_fields_is_read_as_ever() -> None:
    form = started("a")
    form["columns"][0]["type"] = "boolean"
    old = ("format", "decimal", "thousands", "true_values", "false_values", "log", "strip")
    for key in (*old, "ignore_case"):
        del form["columns"][0][key]
    del form["orders"]
    assert checked(form)[1] == []
    assert document_of(form)["column"] == [{"name": "a", "type": "boolean"}]


def test_all_tables_of_a_large_workload_are_counted() -> None:
    """Against a count by definition."""
    domain = Domain.of({f"c{i:02}": 2 + i % 3 for i in range(40)})
    marginals = parse_workload("all-2way", domain).marginals()
    sets = [("c01", "c02", "c03"), ("c03", "c07"), ("c09",), tuple(f"c{i:02}" for i in range(36))]
    for end in range(1, len(sets) + 1):
        events = [
            {
                "event": "measure",
                "query": {"query": "marginal", "columns": list(columns)},
                "sigma": 5.0,
                "total": 1000,
            }
            for columns in sets[:end]
        ]
        found = estimate(events, marginals, domain)
        covered = [m for m in marginals if any(set(m) <= set(s) for s in sets[:end])]
        assert (found.covered, found.marginals) == (len(covered), 780)


def intent(of: str) -> dict[str, Any]:
    return {"event": "intent", "of": of}


@pytest.mark.parametrize(
    ("events", "spent", "certify", "words"),
    [
        ([], 0.0, 0.05, "reading the table"),
        ([intent("statistic")], 0.0, 0.05, "finding bins"),
        ([intent("find")], 0.0, 0.0, "finding categories"),
        ([intent("measure")], 0.1, 0.0, "measuring"),
        ([{"event": "measure"}], 0.1, 0.0, "fitting the model to what was measured"),
        ([intent("choose")], 0.1, 0.0, "choosing what to measure next"),
        ([{"event": "measure"}], 1.0, 0.0, "fitting the final model"),
        ([{"event": "measure"}], 0.95, 0.05, "fitting the final model"),
        ([intent("statistic")], 0.95, 0.05, "measuring how far the final model is from the table"),
        ([{"event": "statistic"}], 1.0, 0.05, "writing the release"),
    ],
)
def test_every_phase_of_a_run_has_a_name(
    events: list[dict[str, Any]], spent: float, certify: float, words: str
) -> None:
    facts = {"spent": spent, "certify": certify, "mechanism": "aim"}
    assert phase(events, **facts, released=False) == words
    assert phase(events, **facts, released=True) == "writing the report"
