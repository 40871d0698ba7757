"""Reading and writing schema files: what is refused, and in which words."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admeasure.errors import SchemaError
from admeasure.schema import Schema
from admeasure.schema.publish import json_schema
from admeasure.schema.toml import toml_key, toml_value
from admeasure.unit import Neighbours, Unit

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'


def column(fields: str, head: str = HEAD) -> str:
    return f'{head}[[column]]\nname = "x"\n{fields}\n'


def problem_of(text: str) -> str:
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_the_example_of_the_documentation_is_valid():
    example = re.search(r"```toml\n(.*?)```", (DOCS / "schema.md").read_text("utf-8"), re.S)
    assert example is not None
    schema = Schema.loads(example[1])
    assert schema.domain.columns == ("age", "workclass")
    assert schema.domain.levels == (32, 5)
    assert schema.unit == Unit(Neighbours.ADD_REMOVE, 1, "person")
    assert schema.zeros[0].mask.sum() == 1


def test_the_published_json_schema_is_current():
    published = (DOCS / "schema.json").read_text("utf-8")
    assert json.loads(published) == json.loads(json_schema())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            'type = "integer"\nminimum = 0\nbins = 4',
            "Column 'x' has no maximum. Add `maximum = …` to the schema, from the codebook rather "
            "than from the data.",
        ),
        (
            'type = "integer"\nminimum = 0\nmaximun = 9',
            "Column 'x' has an unknown field 'maximun'. Did you mean 'maximum'?",
        ),
        ('type = "int"', "Column 'x' has the unknown type 'int'. Did you mean 'integer'?"),
        ("", "Column 'x' has no type. Add `type = …`: one of integer, number, string,"),
        ('type = "integer"\nminimum = 9\nmaximum = 0', "minimum that is not at most its maximum"),
        ('type = "integer"\nminimum = 0\nmaximum = 9\nbins = 11', "11 bins for 10 values"),
        ('type = "integer"\nminimum = 0\nmaximum = 9\nbins = 0', "greater than or equal to 1"),
        ('type = "integer"\nminimum = 0.5\nmaximum = 9', "must be a whole number"),
        ('type = "integer"\nminimum = true\nmaximum = 9', "must be a whole number"),
        ('type = "integer"\nedges = [0, 5, 5]', "edges that do not ascend"),
        ('type = "integer"\nedges = [0]', "fewer than two edges"),
        ('type = "integer"\nedges = [0, 5]\nbins = 2', "both bins and edges"),
        ('type = "integer"\nedges = [0, 5]\nmaximum = 6', "maximum that is not its outer edge"),
        ('type = "integer"\nenum = [1, 1]', "repeats a value"),
        ('type = "integer"\nenum = [1]\nclamp = true', "both enum and clamp"),
        ('type = "integer"\nenum = [1]\nminimum = 0', "both enum and minimum"),
        (
            'type = "integer"\nminimum = 0\nmaximum = 65536\nbins = 65537',
            "65,537 levels and the limit is 65,536",
        ),
        (
            'type = "integer"\nminimum = 0\nmaximum = 9\nmissing_values = ["9"]',
            "lists a missing value that is one of its levels",
        ),
        ('type = "number"\nminimum = 9\nmaximum = 0', "not below its maximum"),
        ('type = "number"\nminimum = 0\nmaximum = 9\nbins = 3\nscale = "log"', "has a scale"),
        ('type = "number"\nminimum = 1\nmaximum = 1\nbins = 2', "not below its maximum"),
        ('type = "number"\nminimum = 0\nmaximum = inf\nbins = 2', "finite"),
        ('type = "number"\nminimum = 0\nmaximum = nan\nbins = 2', "finite"),
        (
            'type = "number"\nminimum = -1.7e308\nmaximum = 1.7e308\nbins = 2',
            "double precision cannot tell apart",
        ),
        (
            'type = "number"\nminimum = 1e16\nmaximum = 1.0000000000000016e16\nbins = 64',
            "double precision cannot tell apart",
        ),
        ('type = "string"', "has no enum"),
        ('type = "string"\nenum = []', "empty enum"),
        ('type = "string"\nenum = ["a", "a"]', "repeats a value"),
        ('type = "string"\nenum = ["a", "?"]\nmissing_values = ["?"]', "both enum and missing"),
        ('type = "string"\nenum = "a"', "must be a list"),
        ('type = "string"\nenum = [1]', "text in quotes"),
        ('type = "string"\nenum = ["a"]\nbins = 2', "unknown field 'bins'"),
        ('type = "boolean"\nmissing_values = ["0"]', "missing value that is one of its levels"),
        ('type = "date"\nminimum = "2020-01-01"\nmaximum = "2020-02-30"', "must be a date"),
        ('type = "date"\nminimum = 2020-01-01T00:00:00\nmaximum = 2020-01-02', "must be a date"),
        ('type = "boolean"\nother = 1', "must be true or false"),
    ],
)
def test_a_wrong_column_is_refused_in_one_line_that_names_it(fields: str, message: str):
    said = problem_of(column(fields))
    assert message in said
    assert "\n" not in said
    assert said.startswith("Column 'x'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[table", "not valid TOML"),
        ("", "The schema has no [table]."),
        (HEAD, "The schema has no [[column]]. Add one."),
        ("column = 3\n" + HEAD, "The schema's 'column' is not a section. Write it as [[column]]."),
        ("column = []\n" + HEAD, "The schema has no [[column]]. Add one."),
        (
            column('type = "boolean"') + "[tabel]\n",
            "unknown section 'tabel'. Did you mean 'table'?",
        ),
        (
            column('type = "boolean"', HEAD + "max_rows_per_unit = 2\n"),
            "max_rows_per_unit above 1 and no unit_column",
        ),
        (column('type = "boolean"', HEAD + "max_rows_per_unit = 0\n"), "greater than or equal"),
        (column('type = "boolean"', HEAD + 'neighbours = "add"\n'), "'add-remove' or 'replace'"),
        (column('type = "boolean"', HEAD + 'unit_column = "x"\n'), "both the unit_column and"),
        (column('type = "boolean"', HEAD + 'unit_column = "X"\n'), "both the unit_column and"),
        (column('type = "boolean"', '[table]\nname = ""\n[privacy]\nunit = "p"\n'), "[table]"),
        (column('type = "boolean"', '[table]\nname = "t"\nrows = 0\n[privacy]\nunit = "p"\n'), ""),
        (column('type = "boolean"', '[table]\nname = "t"\n[privacy]\n'), "[privacy] has no unit."),
        (
            column('type = "boolean"\n[[column]]\nname = "x"\ntype = "boolean"'),
            "Column 'x' is described twice.",
        ),
        (
            column('type = "boolean"\n[[column]]\nname = "X"\ntype = "boolean"'),
            "Columns 'x' and 'X' differ only in case.",
        ),
        (column('type = "boolean"') + '[[zero]]\ncolumns = ["x"]\n', "has no where"),
        (column('type = "boolean"') + "[[zero]]\nwhere = {}\n", "has no columns"),
    ],
)
def test_a_wrong_section_is_refused(text: str, message: str):
    assert message in problem_of(text)


def test_all_problems_are_named_together_one_a_line():
    said = problem_of(
        HEAD
        + '[[column]]\nname = "a"\ntype = "integer"\nbins = 2\n'
        + '[[column]]\nname = "b"\ntype = "string"\nenun = ["x"]\n'
        + '[[column]]\nname = "c"\ntype = "number"\nbins = 3\n'
        + '[[column]]\nname = "d"\ntype = "number"\nminimum = 0\nmaximum = 1\nbins = "TODO"\n'
        + '[[column]]\nname = "a"\ntype = "boolean"\n'
    ).split("\n")
    assert said[0] == f"schema has {len(said) - 1} problems:"
    about = {name: [line for line in said[1:] if f"Column '{name}'" in line] for name in "abcd"}
    assert [len(about[name]) for name in "abcd"] == [3, 1, 2, 1]


@pytest.mark.parametrize(
    ("fields", "levels"),
    [
        ('type = "integer"\nminimum = 0\nmaximum = 65535', 65536),
        ('type = "date"\nminimum = 2020-01-01\nmaximum = 2020-12-31', 366),
        ('type = "integer"\nminimum = 0\nmaximum = 65536', None),
        ('type = "integer"\nminimum = 0', None),
        ('type = "number"', None),
        ('type = "number"\nminimum = 0\nmaximum = 9', None),
        ('type = "date"', None),
        ('type = "integer"\nenum = [3, 4]', 2),
    ],
)
def test_bins_that_are_not_given_are_private_unless_each_value_may_have_a_level(fields, levels):
    found = Schema.loads(column(fields))
    assert found.column("x").is_open == (levels is None)
    if levels:
        assert found.domain["x"] == levels
    assert Schema.loads(found.dumps()) == found


def test_a_placeholder_is_refused_wherever_a_value_is_due():
    said = problem_of(
        '[table]\nname = "t"\n[privacy]\nunit = "TODO"\n'
        '[[column]]\nname = "age"\ntype = "integer"\nminimum = "TODO"\nmaximum = 9\n'
        '[[column]]\nname = "work"\ntype = "string"\nenum = ["a", "TODO"]\n'
    ).split("\n")
    assert said[0] == "schema has 3 problems:"
    assert [line.split(".")[0] for line in said[1:]] == [
        "[privacy] still has `unit = TODO`",
        "Column 'age' still has `minimum = TODO`",
        "Column 'work' still has `enum = TODO`",
    ]


def test_hostile_names_stay_on_one_line_and_short():
    for name in ["a\nb", "'; DROP TABLE x; --", "\N{SNOWMAN}" * 5, "x" * 10_000, '"""', "\x7f"]:
        text = f'{HEAD}[[column]]\nname = {toml_value(name)}\ntype = "integer"\nbins = 0\n'
        said = problem_of(text)
        assert "\n" not in said
        assert len(said) < 250


def test_a_name_with_a_nul_character_is_refused():
    assert "NUL character" in problem_of(f'{HEAD}[[column]]\nname = "a\\u0000"\ntype = "boolean"\n')


def test_a_file_that_cannot_be_read_is_a_schema_error(tmp_path: Path):
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'[table]\nname = "\xe9"')
    for path in (tmp_path / "absent.toml", tmp_path, latin):
        with pytest.raises(SchemaError) as caught:
            Schema.load(path)
        assert path.name in str(caught.value)


def test_the_error_of_a_file_begins_with_its_name(tmp_path: Path):
    path = tmp_path / "adult.toml"
    path.write_text(column('type = "integer"\nbins = 4'), "utf-8")
    with pytest.raises(SchemaError, match=r"^adult\.toml has 2 problems:"):
        Schema.load(path)


def test_an_unknown_column_is_named_with_the_nearest():
    with pytest.raises(SchemaError, match="Did you mean 'education'"):
        Schema.coded("t", {"education": 2}).column("eduction")


def test_a_schema_cannot_be_changed():
    schema = Schema.coded("t", {"a": 2})
    with pytest.raises(ValueError, match="frozen"):
        schema.columns = ()  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        schema.column("a").other = True


def test_dates_may_be_texts_or_toml_dates():
    day = "2020-01-31"
    texts = Schema.loads(column(f'type = "date"\nminimum = "{day}"\nmaximum = "2020-02-29"'))
    dates = Schema.loads(column(f'type = "date"\nminimum = {day}\nmaximum = 2020-02-29'))
    assert texts == dates
    assert texts.column("x").levels == 30


def test_levels_are_regular_then_other_then_missing():
    found = Schema.loads(
        column('type = "string"\nenum = ["b", "a"]\nother = true\nmissing_values = []')
    )
    x = found.column("x")
    assert x.labels == ("b", "a", "other", "missing")
    assert (x.levels, x.other_code, x.missing_code) == (4, 2, 3)
    plain = Schema.loads(column('type = "boolean"')).column("x")
    assert (plain.labels, plain.other_code, plain.missing_code) == (("false", "true"), None, None)


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
names = texts.filter(lambda t: t not in ("", "TODO") and "\0" not in t)
common = {
    "title": st.none() | texts,
    "description": st.none() | texts,
    "source": st.none() | texts,
    "other": st.booleans(),
}


@st.composite
def columns(draw: st.DrawFn) -> dict:
    """A valid column, as the fields of a schema file."""
    fields = {key: draw(value) for key, value in common.items()}
    kind = draw(st.sampled_from(["integer", "number", "string", "boolean", "date"]))
    if kind == "string":
        enum = draw(st.lists(texts.filter(lambda t: t != "TODO"), min_size=1, unique=True))
        fields["enum"] = enum
        fields["missing_values"] = draw(st.none() | st.just(["never \N{SNOWMAN} listed elsewhere"]))
    elif kind == "integer":
        low = draw(st.integers(-(10**6), 10**6))
        span = draw(st.integers(0, 5000))
        fields |= {"minimum": low, "maximum": low + span, "clamp": draw(st.booleans())}
        fields["bins"] = draw(st.none() | st.integers(1, span + 1))
        fields["missing_values"] = draw(st.none() | st.just([]) | st.just(["-9999999", "?"]))
    elif kind == "number":
        edges = draw(st.lists(st.floats(-1e9, 1e9, width=32), min_size=2, max_size=9, unique=True))
        fields["edges"] = sorted(set(edges))
        fields["clamp"] = draw(st.booleans())
    elif kind == "date":
        low = draw(st.dates(datetime.date(1800, 1, 1), datetime.date(2100, 1, 1)))
        span = draw(st.integers(0, 9000))
        fields |= {"minimum": low, "maximum": low + datetime.timedelta(span)}
        fields["bins"] = draw(st.none() | st.integers(1, span + 1))
    return {"type": kind, **{k: v for k, v in fields.items() if v is not None}}


def two_zeros_differ(found: dict) -> bool:
    edges = found.get("edges")
    return edges is None or all(a < b for a, b in itertools.pairwise(edges))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(names, columns().filter(two_zeros_differ)),
        min_size=1,
        max_size=4,
        unique_by=lambda pair: pair[0].casefold(),
    ),
    st.integers(1, 4),
    texts,
)
def test_a_schema_survives_the_round_trip_through_its_file(found, most, description):
    document = {
        "table": {"name": "t", "description": description, "rows": 7},
        "privacy": {"unit": "person", "max_rows_per_unit": most, "neighbours": "replace"},
        "column": [{"name": name, **fields} for name, fields in found],
    }
    taken = {name.casefold() for name, _ in found}
    document["privacy"]["unit_column"] = next(n for n in "pqrstu" if n not in taken)
    schema = Schema.model_validate(document)
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.dumps() == schema.dumps()
    assert again.domain == schema.domain


@given(st.recursive(texts | st.integers() | st.booleans() | st.dates(), st.lists))
def test_toml_values_read_back_the_same(value):
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


@given(texts)
def test_toml_keys_read_back_the_same(key):
    assert tomllib.loads(f"{toml_key(key)} = 1") == {key: 1}


def test_zeros_survive_the_round_trip():
    schema = Schema.loads(
        HEAD
        + '[[column]]\nname = "a b"\ntype = "integer"\nminimum = 0\nmaximum = 9\n'
        + '[[column]]\nname = "c"\ntype = "date"\nminimum = 2020-01-01\nmaximum = 2020-01-31\n'
        + '[[zero]]\ncolumns = ["c", "a b"]\n'
        + 'where = {"a b" = [1, {from = 3, to = 4}], c = {to = 2020-01-05}}\n'
    )
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.zeros[0].columns == ("a b", "c")
    assert (again.zeros[0].mask == schema.zeros[0].mask).all()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[columns]\nx = 1\n", "not a section. Write it as [[column]]"),
        (
            '[columns]\nx = 1\n[[column]]\nname = "a"\ntype = "boolean"\n',
            "unknown section 'columns'",
        ),
    ],
)
def test_a_section_named_columns_is_refused_in_words(written: str, said: str):
    with pytest.raises(SchemaError) as refused:
        Schema.loads('[table]\nname = "t"\n[privacy]\nunit = "person"\n' + written)
    assert said in str(refused.value)
