"""Columns that others determine: they hold exactly in rows and in answers, and cost nothing."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

import admeasure
from admeasure.errors import SchemaError, WorkloadError
from admeasure.queries import AnyCell, Marginal, from_record, to_record
from admeasure.schema import Schema
from admeasure.schema.load import validate
from admeasure.untrusted import parse_toml
from admeasure.verbs.check import check
from admeasure.web.forms import document_of, form_of
from admeasure.workload import Workload, parse_workload, question
from admeasure.workload.questions import query_of

HEAD = '[table]\nname = "stays"\n[privacy]\nunit = "person"\n'
CODES = [f"A{i}" for i in range(6)]
CODE = f'[[column]]\nname = "code"\ntype = "string"\nenum = {CODES}\nmissing_values = ["?"]\n'
AGE = '[[column]]\nname = "age"\ntype = "integer"\nminimum = 0\nmaximum = 99\nbins = 10\n'
SEX = '[[column]]\nname = "sex"\ntype = "string"\nenum = ["F", "M"]\nother = true\n'
GROUP = {"A0": "heart", "A1": "heart", "A2": "lung", "A3": "lung", "A4": "lung", "A5": "skin"}
MAP = ", ".join(f'{k} = "{v}"' for k, v in GROUP.items())
GROUPED = f'[[determines]]\nfrom = ["code"]\nto = "group"\nmap = {{{MAP}}}\n'
CHAPTER = (
    '[[determines]]\nfrom = ["group"]\nto = "chapter"\n'
    'map = {heart = "inner", lung = "inner", skin = "outer"}\n'
)
KIND = (
    '[[determines]]\nfrom = ["sex", "age"]\nto = "kind"\notherwise = "man"\n'
    'table = [[["F", "M", {level = "other"}], {to = 19}, "child"], ["F", {from = 20}, "woman"]]\n'
)
TEXT = HEAD + CODE + AGE + SEX + CHAPTER + GROUPED + KIND


def kind_of(sex: str, age: int) -> str:
    """The function that KIND writes, in Python."""
    return "child" if age < 20 else "woman" if sex == "F" else "man"


def rows_of(count: int, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    codes = rng.choice(CODES, count, p=[0.3, 0.1, 0.2, 0.1, 0.1, 0.2]).tolist()
    return {
        "code": codes,
        "age": rng.integers(0, 100, count).tolist(),
        "sex": rng.choice(["F", "M", "X"], count).tolist(),
        "group": [GROUP[c] for c in codes],
    }


@pytest.fixture(scope="module")
def release() -> admeasure.Release:
    workload = "all-2way"
    return admeasure.fit(
        rows_of(2000),
        Schema.loads(TEXT),
        workload=workload,
        mechanism=admeasure.aim(),
        epsilon=5,
        delta=1e-9,
        seed=1,
    )


def test_rows_hold_the_functions_exactly(release):
    rows = release.sample(1500, seed=3)
    assert set(rows) == {"code", "age", "sex", "group", "chapter", "kind"}
    for code, group, chapter in zip(rows["code"], rows["group"], rows["chapter"], strict=True):
        assert group == (None if code == "?" else GROUP[code])
        assert chapter == (None if code == "?" else "outer" if group == "skin" else "inner")
    for sex, age, kind in zip(rows["sex"], rows["age"], rows["kind"], strict=True):
        assert kind == kind_of(sex, age)


def test_answers_are_sums_of_the_cells_that_decide_them(release):
    """Brute force over the model's whole table."""
    schema, names = release.schema, ("age", "code", "sex")
    table = np.asarray(release.marginal(names))
    labels = [schema.column(c).labels for c in names]
    conditions = {"group": ["heart", "skin"], "kind": "woman", "sex": ["F", "M"]}
    for at_least in (None, 1, 2, 3):
        expected = 0.0
        for place in itertools.product(*map(range, table.shape)):
            _, code, sex = (labels[i][j] for i, j in enumerate(place))
            met = [
                GROUP.get(code) in ("heart", "skin"),
                kind_of(sex, place[0] * 10) == "woman",
                sex in ("F", "M"),
            ]
            expected += table[place] * (sum(met) >= (3 if at_least is None else at_least))
        query = query_of(conditions, schema, at_least)
        found = release.answer(query)
        assert found.value == pytest.approx(expected)
        assert found.low <= found.value <= found.high


def test_a_marginal_of_determined_columns_adds_up_to_its_cells(release):
    table = np.asarray(release.marginal(["kind", "sex", "group"]))
    for kind, group in itertools.product(range(table.shape[0]), range(3)):
        where = {
            "kind": release.schema.column("kind").labels[kind],
            "group": release.schema.column("group").labels[group],
        }
        assert table[kind, :, group].sum() == pytest.approx(release.answer(where).value)
    codes = np.asarray(release.marginal(["code"]))
    groups = np.asarray(release.marginal(["group"]))
    assert groups.tolist() == pytest.approx(
        [codes[0] + codes[1], codes[2:5].sum(), codes[5], codes[6]]
    )


def test_what_cannot_be_is_known_to_be_nothing(release):
    found = release.answer({"group": "heart", "code": "A5"})
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_a_determined_column_is_neither_read_nor_measured(release):
    """Rows without it, and rows in which it is wrong, give the same release."""
    rows = rows_of(2000)
    for changed in ({k: v for k, v in rows.items() if k != "group"}, {**rows, "group": [7] * 2000}):
        again = admeasure.fit(
            changed,
            Schema.loads(TEXT),
            workload="all-2way",
            mechanism=admeasure.aim(),
            epsilon=5,
            delta=1e-9,
            seed=1,
        )
        assert again.log == release.log
    measured = {c for m in release.measurements for c in m.query.columns}
    assert measured <= {"code", "age", "sex"}


def test_workloads_name_determined_columns(release, tmp_path):
    domain = release.schema.domain
    file = tmp_path / "w.toml"
    file.write_text('[[marginal]]\ncolumns = ["chapter", "kind"]\nweight = 3.0\n')
    assert parse_workload(file, domain) == Workload({Marginal(["age", "code", "sex"]): 3.0})
    with pytest.raises(WorkloadError, match="'chapter' is computed from 'code'"):
        Workload([Marginal(["chapter"])]).validate(domain)


def test_a_saved_release_keeps_the_functions(release, tmp_path):
    again = admeasure.Release.load(release.save(tmp_path / "r"))
    assert again.schema == release.schema
    where = {"chapter": "inner", "kind": "man"}
    assert again.answer(where).value == pytest.approx(release.answer(where).value)


def test_a_zero_on_a_determined_column_holds_in_its_cells():
    zero = '[[zero]]\ncolumns = ["group", "kind"]\nwhere = {group = "skin", kind = "child"}\n'
    (found,) = Schema.loads(TEXT + zero).zeros
    assert found.columns == ("age", "code", "sex")
    expected = np.zeros((10, 7, 3), bool)
    expected[:2, 5, :] = True
    assert (found.mask == expected).all()


def test_the_function_may_stand_in_a_file_beside_the_schema(tmp_path):
    with (tmp_path / "groups.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("group", "words", "code"), *((g, "x", c) for c, g in GROUP.items())]
        )
    entry = '[[determines]]\nfrom = ["code"]\nto = "group"\ntable = "groups.csv"\n'
    (tmp_path / "s.toml").write_text(HEAD + CODE + entry)
    schema = Schema.load(tmp_path / "s.toml")
    other = Schema.loads(HEAD + CODE + GROUPED)
    assert (schema.computed["group"].codes == other.computed["group"].codes).all()
    assert Schema.loads(schema.dumps()) == schema
    (tmp_path / "s.toml").write_text(HEAD + CODE + entry.replace('"group"', '"grp"'))
    with pytest.raises(SchemaError, match=r"'groups\.csv' has no column 'grp'"):
        Schema.load(tmp_path / "s.toml")


def test_check_says_where_the_table_contradicts(tmp_path):
    schema, table = Schema.loads(HEAD + CODE + GROUPED), tmp_path / "t.csv"
    table.write_text("code,group\nA0,heart\n?,\nA2,lung\n")
    assert check(str(table), schema) == []
    table.write_text("code\nA0\n")
    assert check(str(table), schema) == []
    for wrong in ("A0,lung", "A0,", "A0,nowhere", "?,lung"):
        table.write_text(f"code,group\nA5,skin\n{wrong}\n")
        (problem,) = check(str(table), schema)
        assert problem.column == "group"
        assert "determines" in str(problem)


def test_the_page_keeps_what_its_form_does_not_show():
    document = parse_toml(TEXT, "schema", SchemaError)
    assert validate(document_of(form_of(document, []))) == Schema.loads(TEXT)


def test_a_question_on_plain_columns_is_what_it_was():
    schema = Schema.loads(TEXT)
    assert type(question({"sex": "F"}, schema).query).__name__ == "Where"
    query = question({"kind": "woman"}, schema).query
    assert isinstance(query, AnyCell)
    assert from_record(to_record(query)) == query


PLAIN = HEAD + CODE + SEX


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAIN + '[[determines]]\nfrom = ["code"]\nto = "group"\n', "has no function. Add `map"),
        (PLAIN + GROUPED + 'table = [["A0", "x"]]\n', "both a map and a table"),
        (PLAIN + GROUPED.replace('A5 = "skin"', "A5 = 5"), "neither all texts nor all whole"),
        (PLAIN + GROUPED.replace(', A5 = "skin"', ""), "does not say what 'A5' determines"),
        (PLAIN + GROUPED.replace("A5", "A6"), "'A6'"),
        (PLAIN + GROUPED.replace('"group"', '"sex"'), "'sex' is both described and determined"),
        (PLAIN + GROUPED.replace('"group"', '"code"'), "names a column twice"),
        (PLAIN + GROUPED + GROUPED, "'group' is determined twice"),
        (PLAIN + GROUPED.replace('["code"]', '["cod"]'), "no column 'cod'. Did you mean 'code'"),
        (PLAIN + GROUPED.replace("map", "maps"), "unknown field 'maps'. Did you mean 'map'"),
        (PLAIN + GROUPED.replace('["code"]', '["code", "sex"]'), "Write it as a `table`"),
        (
            PLAIN + '[[determines]]\nfrom = ["code"]\nto = "g"\notherwise = "x"\n'
            'table = [["A0", "a"], [["A1", "A0"], "b"]]\n',
            "two values for the same",
        ),
        (
            PLAIN + '[[determines]]\nfrom = ["a"]\nto = "b"\nmap = {x = "y"}\n'
            '[[determines]]\nfrom = ["b"]\nto = "a"\nmap = {y = "x"}\n',
            "determine each other in a circle",
        ),
        (PLAIN + '[[determines]]\nfrom = ["code"]\nto = "g"\ntable = [["A0"]]\n', "not as long as"),
        (PLAIN + '[[determines]]\nfrom = ["code"]\nto = "g"\ntable = [["A0", [1]]]\n', "neither"),
        (PLAIN + '[[determines]]\nfrom = ["code"]\nto = "g"\ntable = []\n', "does not say"),
        (
            HEAD
            + AGE.replace("10", '"private"')
            + '[[determines]]\nfrom = ["age"]\nto = "g"\nmap = {1 = "x"}\n',
            "whose bins are private",
        ),
        (
            PLAIN.replace('"person"', '"person"\nunit_column = "group"') + GROUPED,
            "or is the unit_column",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_read(text, message):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    assert message in str(caught.value)
