"""The private table in the place of a public file: no error shows a value of it.

A schema names files (`levels_of`, `enum_file`, `[[determines]]`), and so do verbs (`--like`,
`--workload`, questions, conclusions, `run`, `study`). A steward may name the private table there by
mistake. What every error may say is the file and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admeasure
from admeasure.conclusions import load_conclusions
from admeasure.errors import AdmeasureError
from admeasure.release.conditional import sample_like
from admeasure.schema import Schema
from admeasure.studies.plan import load_plan
from admeasure.untrusted import parse_toml
from admeasure.workload import load_questions, parse_workload

CANARY = re.compile(r"canary|9182736|2019", re.IGNORECASE)
CELLS = (
    *("", "Canary-a", "canary-a", "Canary-b", "Canary c ", "Canary'q", 'Canary"q', "Canary\\n"),
    *("9182736", "91827364", "2019-04-23", "x", "y", "Canary" * 30),
)
HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n[[column]]\nname = "code"\n'
BLOCK = '[[determines]]\nfrom = ["code"]\nto = "block"\ntable = "t.csv"\n'
COLUMNS = {
    "levels_of": 'type = "string"\nenum = "private"\nother = true\nlevels_of = "t.csv"\n',
    "levels_of, with levels": 'type = "string"\nenum = ["x"]\nlevels_of = "t.csv"\n',
    "levels_of, any case": 'type = "string"\nignore_case = true\nlevels_of = "t.csv"\n',
    "enum_file": 'type = "string"\nenum_file = "t.csv"\nmissing_values = ["x"]\n',
    "enum_file of lines": 'type = "string"\nenum_file = "t.txt"\n',
    "enum_file of whole numbers": 'type = "integer"\nenum_file = "t.csv"\n',
    "enum_file of days": 'type = "date"\nenum_file = "t.csv"\n',
    "[[determines]]": 'type = "string"\nenum = ["x", "y"]\n' + BLOCK,
    "[[determines]] of numbers": 'type = "integer"\nminimum = 0\nmaximum = 9\nbins = 2\n' + BLOCK,
    "[[determines]] of a list": 'type = "string"\nenum_file = "t.csv"\n' + BLOCK,
}
"""Schemas that name the table."""

KNOWN = Schema.loads(HEAD + 'type = "string"\nenum = ["x", "y"]\n')


@pytest.fixture(scope="module")
def model():
    table = {"code": ["x", "y"] * 50}
    return admeasure.fit(
        table, KNOWN, workload="all-1way", mechanism="independent", epsilon=9, delta=1e-6
    ).model


def rows(header: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    """Tables as CSV, most as wide as their header; some have a quote that is not closed."""
    return header.flatmap(_bodies)


def _bodies(header: list[str]) -> st.SearchStrategy[str]:
    cell = st.sampled_from(CELLS)
    line = st.lists(cell, min_size=len(header), max_size=len(header))
    body = st.lists(line, max_size=6) | st.lists(st.lists(cell, max_size=4), max_size=6)
    ends = st.sampled_from(("", "", '"Canary-open'))
    return st.builds(lambda lines, end: "\n".join([*map(_line, [header, *lines]), end]), body, ends)


def _line(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


KNOWN_HEADERS = st.sampled_from([["code", "block", "chapter"], ["code", "block"], ["code"]])
NO_HEADER = st.lists(st.sampled_from([c for c in CELLS if c]), min_size=1, max_size=3)


def says_no_value(work: Callable[[], object]) -> str:
    """What is said where it fails."""
    said = ""
    try:
        work()
    except AdmeasureError as error:
        said = str(error)
    assert not CANARY.search(said), said
    return said


@pytest.mark.parametrize("fields", COLUMNS.values(), ids=list(COLUMNS))
@settings(deadline=None, max_examples=30)
@given(text=rows(KNOWN_HEADERS) | rows(NO_HEADER))
def test_a_schema_that_names_the_table_shows_nothing_of_it(tmp_path_factory, fields, text):
    folder = tmp_path_factory.getbasetemp()
    (folder / "schema.toml").write_text(HEAD + fields)
    for name in ("t.csv", "t.txt"):
        (folder / name).write_text(text)
    says_no_value(lambda: Schema.load(folder / "schema.toml").computed)


@settings(deadline=None, max_examples=30)
@given(text=rows(st.sampled_from([["code", "rows"], ["code"]])) | rows(NO_HEADER))
def test_conditions_that_are_the_table_show_nothing_of_it(tmp_path_factory, model, text):
    path = tmp_path_factory.getbasetemp() / "like.csv"
    path.write_text(text)
    says_no_value(lambda: sample_like(model, KNOWN, path, np.random.default_rng(0)))


READERS: dict[str, Callable[[Path], object]] = {
    "schema": Schema.load,
    "workload": lambda path: parse_workload(str(path), KNOWN.domain),
    "questions": lambda path: load_questions(path, KNOWN),
    "conclusions": lambda path: load_conclusions(path, KNOWN),
    "run": admeasure.run_file,
    "study": load_plan,
}


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None, max_examples=10)
@given(text=rows(KNOWN_HEADERS) | rows(NO_HEADER))
def test_a_file_of_ours_that_is_the_table_shows_nothing_of_it(tmp_path_factory, name, text):
    path = tmp_path_factory.getbasetemp() / f"{name}.toml"
    path.write_text(text)
    assert says_no_value(lambda: READERS[name](path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[Canary]\n[Canary]\n", "line 2"),
        ("a = {Canary = 1, Canary = 2}\n", "line 1"),
        ("a = {}\n[a.Canary]\n", "line 2"),
        ("[[a]]\n[a.Canary]\n[a.Canary]\n", "line 3"),
    ],
)
def test_an_error_of_the_parser_names_the_line_alone(text, said):
    assert said in says_no_value(lambda: parse_toml(text, "t.toml"))
