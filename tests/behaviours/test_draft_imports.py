"""A draft is filled in from public documents, and takes only names from the private table."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import admeasure
from admeasure.cli.run import run
from admeasure.errors import UsageError
from admeasure.schema import Schema
from admeasure.schema.draft import draft
from admeasure.schema.infer import fields_of

PRIVATE = "age,sex,seen,cost,smokes,id\n98765,f,31/12/1999,secret,Yes,1\n"


def place(folder: Path, name: str, content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def filled(text: str) -> Schema:
    """The draft as a steward would complete it."""
    return Schema.loads(text.replace('unit = "TODO"', 'unit = "person"'))


@pytest.fixture
def data(tmp_path: Path) -> str:
    return place(tmp_path, "people.csv", PRIVATE)


def test_a_table_schema_says_types_bounds_lists_and_spellings(data: str, tmp_path: Path):
    fields = [
        {
            "name": "age",
            "type": "integer",
            "constraints": {"minimum": 0, "maximum": 99, "required": True},
        },
        {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}, "title": "Sex"},
        {
            "name": "seen",
            "type": "date",
            "format": "%d/%m/%Y",
            "constraints": {"minimum": "2000-01-01", "maximum": "2000-12-31"},
        },
        {
            "name": "cost",
            "type": "number",
            "decimalChar": ",",
            "groupChar": ".",
            "constraints": {"minimum": 0, "maximum": 10.5},
        },
        {"name": "smokes", "type": "boolean", "trueValues": ["Yes"], "falseValues": ["No"]},
    ]
    table_schema = {"fields": fields, "missingValues": ["", "n/a"]}
    package = {"resources": [{"name": "people", "schema": table_schema}]}
    for name, document in (("schema.json", table_schema), ("datapackage.json", package)):
        text = admeasure.draft(data, public=place(tmp_path, name, document))
        text = text.replace("maximum = 10.5", "maximum = 10.5\nbins = 4")
        text = text.replace('enum = ["TODO"]', 'enum = ["1"]')
        schema = filled(text)
        assert schema.column("age").missing_values is None
        assert schema.column("sex").listed == ("f", "m")
        assert schema.column("sex").missing_values == ("n/a",)
        assert schema.column("seen").code_of("02/01/2000") == 1
        assert schema.column("cost").code_of("10,5") == 3
        assert schema.column("smokes").code_of("No") == 0


def test_metadata_of_sdv_says_types_and_formats(data: str, tmp_path: Path):
    columns = {
        "age": {"sdtype": "numerical", "computer_representation": "Int64"},
        "sex": {"sdtype": "categorical"},
        "seen": {"sdtype": "datetime", "datetime_format": "%d/%m/%Y"},
        "cost": {"sdtype": "numerical"},
        "smokes": {"sdtype": "boolean"},
        "id": {"sdtype": "id"},
    }
    one = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns, "primary_key": "id"}
    many = {"tables": {"people": {"columns": columns}}, "relationships": []}
    for name, document in (("one.json", one), ("many.json", many)):
        text = admeasure.draft(data, public=place(tmp_path, name, document))
        types = [line.split('"')[1] for line in text.splitlines() if line.startswith("type = ")]
        assert types == ["integer", "string", "date", "number", "boolean", "string"]
        assert 'format = "%d/%m/%Y"' in text


def test_a_domain_of_mbi_says_how_many_levels_there_are(data: str, tmp_path: Path):
    domain = {"age": 100, "sex": 2, "seen": 12, "cost": 4, "smokes": 2, "id": 5}
    schema = filled(admeasure.draft(data, public=place(tmp_path, "domain.json", domain)))
    assert {c.name: c.levels for c in schema.columns} == domain


@pytest.mark.parametrize(
    "codebook",
    [
        "name,type,minimum,maximum,values,missing\n"
        "age,integer,0,99,,-1\nsex,string,,,f=female;m=male,n/a\n",
        "Variable,Type,Min,Max,Value\nage,int,0,99,\nsex,factor,,,f\nsex,factor,,,m\n",
    ],
)
def test_a_codebook_has_a_line_for_each_column_or_value(data: str, tmp_path: Path, codebook: str):
    text = admeasure.draft(data, public=place(tmp_path, "codebook.csv", codebook))
    assert "minimum = 0\nmaximum = 99" in text
    assert 'enum = ["f", "m"]' in text
    assert text.count("TODO") > 3  # what it does not say


def test_a_public_table_gives_types_levels_bounds_and_spellings(data: str, tmp_path: Path):
    rows = [
        f"{20 + i % 60},{'fm'[i % 2]},{datetime.date(2000, 1, 1 + i % 28):%d/%m/%Y},"
        f'"{i % 7},50",{"Yes" if i % 3 else "No"},p{i}'
        for i in range(200)
    ]
    rows += ["n/a,f ,n/a,n/a,,p200", '30,F,01/01/2000,"1.000,25",No,p201']
    last_year = place(
        tmp_path, "last.csv", "age,sex,seen,cost,smokes,id\n" + "\n".join(rows) + "\n"
    )
    text = admeasure.draft(data, public=last_year)
    assert 'enum = ["TODO"]' in text  # names of rows are no levels
    schema = filled(text.replace('enum = ["TODO"]', 'enum = ["p1"]'))
    assert schema.column("age").bounds_text == "[20, 79]"
    assert schema.column("age").missing_values == ("n/a",)
    assert schema.column("sex").code_of(" M") == schema.column("sex").code_of("m") >= 0
    assert schema.column("seen").code_of("28/01/2000") == 27
    assert schema.column("cost").is_open  # bins that a run finds
    cost = schema.as_read.column("cost")
    assert cost.bounds_text == "[0.0, 1100.0]"  # of 0.5 to 1000.25, rounded outward
    assert schema.column("smokes").missing_values == ()
    problems = admeasure.check(last_year, schema)
    assert {problem.column for problem in problems} == {"id"}


@pytest.mark.parametrize(
    ("values", "bins"),
    [
        (range(50), None),
        (range(5000), "private"),
        ([f"{i}.5" for i in range(50)], None),
        ([datetime.date(2000, 1, 1), datetime.date(2020, 1, 1)], "private"),
    ],
)
def test_bins_of_many_values_are_left_to_the_run(values: Iterable[Any], bins: str | None):
    """Equal bins, which nobody asked for, are a third worse than those that a run finds."""
    found = fields_of((value, 1) for value in values)
    assert found is not None
    assert found.get("bins") == bins
    assert Schema.loads(draft([("a", "x")], name="t", facts={"a": found}).replace("TODO", "person"))


def test_nothing_of_the_private_table_enters_a_draft(data: str, tmp_path: Path):
    domain = place(tmp_path, "domain.json", {"age": 3})
    for text in (admeasure.draft(data), admeasure.draft(data, public=domain)):
        assert not any(value in text for value in ("98765", "1999", "secret", "Yes"))
    with pytest.raises(UsageError, match="is the private one"):
        admeasure.draft(data, public=data)


@pytest.mark.parametrize("document", ["{", "[]", {}, {"a": "b"}, {"fields": 3}, {"a": -1}])
def test_a_document_that_is_not_known_is_refused_in_a_line(data, tmp_path, document, capsys):
    file = place(tmp_path, "odd.json", document)
    assert run(["draft", data, "--public", file]) != 0
    said = capsys.readouterr().err.strip()
    assert said.startswith("error:")
    assert "\n" not in said


def test_columns_alike_are_one_block_and_the_command_line_writes_the_file(tmp_path: Path):
    data = place(tmp_path, "t.csv", "a,b,c,d\n1,2,3,4\n")
    domain = place(tmp_path, "domain.json", {"a": 3, "b": 3, "c": 3, "d": 4})
    out = tmp_path / "schema.toml"
    assert run(["draft", data, "--public", domain, "-o", str(out)]) == 0
    text = out.read_text()
    assert 'names = ["a", "b", "c"]' in text
    assert filled(text).names == ("a", "b", "c", "d")


def stays(year: int, rows: int) -> str:
    """A messy table of 50 columns."""
    words = {
        "admitted": [f"{datetime.date(year, 1 + i % 12, 1 + i % 28):%d/%m/%Y}" for i in range(99)],
        "state": ["CA", "NY", "TX", "n/a"],
        "ward": ["Cardio", "cardio ", " ORTHO", "Neuro"],
        "age": [str(i) for i in range(99)],
        "cost": [f'"{i},{i:02}"' for i in range(99)] + ['"1.234,50"', "n/a"],
        **{f"diag_{k}": ["I", "IX", "XI", "n/a"] for k in range(12)},
        **{f"drug_{k}": ["No", "Steady", "Up"] for k in range(12)},
        **{f"flag_{k}": ["Yes", "No", "n/a"] for k in range(10)},
        **{f"count_{k}": [str(i) for i in range(10)] for k in range(10)},
    }
    listed = list(enumerate(words.values()))
    drawn = [[texts[(i + k) % len(texts)] for k, texts in listed] for i in range(rows)]
    lines = [",".join([f"p{i}", *row]) for i, row in enumerate(drawn)]
    return "\n".join([",".join(["patient", *words]), *lines]) + "\n"


def test_fifty_columns_are_drafted_checked_fitted_and_sampled_in_three_lines_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The tutorial's path: only the year and the unit are left to be filled in."""
    monkeypatch.chdir(tmp_path)
    place(tmp_path, "stays.csv", stays(2024, 400))
    place(tmp_path, "last.csv", stays(2023, 400))
    assert run(["draft", "stays.csv", "--public", "last.csv", "-o", "schema.toml"]) == 0
    text = (tmp_path / "schema.toml").read_text()
    before, _, after = text.partition('[[column]]\nname = "patient"')
    text = before + after.partition("\n\n")[2]
    text = text.replace('unit = "TODO"', 'unit = "patient"\nunit_column = "patient"')
    text = text.replace("minimum = 2023-01-01", "minimum = 2024-01-01")
    text = text.replace("maximum = 2023-12-31", "maximum = 2024-12-31")
    (tmp_path / "schema.toml").write_text(text)
    schema = Schema.load("schema.toml")
    assert len(schema.columns) == 49
    assert sum(bool(line) for line in text.splitlines()) <= 3 * 49
    given = ["stays.csv", "--schema", "schema.toml"]
    assert run(["check", *given]) == 0
    spent = ["--workload", "all-1way", "--mechanism", "independent", "--epsilon", "1"]
    assert run(["fit", *given, *spent, "--out", "release"]) == 0
    assert run(["sample", "release", "-n", "200", "-o", "rows.csv"]) == 0
    anyone = schema.model_copy(
        update={"privacy": schema.privacy.model_copy(update={"unit_column": None})}
    )
    assert admeasure.check("rows.csv", anyone) == []


TREE = "job,field,branch\n11,farm,land\n12,farm,land\n21,shop,town\n22,bank,town\n"


def test_a_hierarchy_of_codes_is_named_in_the_draft_from_where_the_schema_lies(tmp_path: Path):
    data = place(tmp_path, "people.csv", "age,job\n98765,11\n")
    public = place(tmp_path, "jobs.csv", TREE)
    (tmp_path / "schemas").mkdir()
    for folder, written in (tmp_path, "jobs.csv"), (tmp_path / "schemas", "../jobs.csv"):
        out = folder / "schema.toml"
        assert run(["draft", data, "--public", public, "--out", str(out)]) == 0
        text = out.read_text()
        assert f'name = "job"\ntype = "string"\nlevels_of = "{written}"\n' in text
        ready = text.replace('unit = "TODO"', 'unit = "person"').replace('["TODO"]', '["1", "2"]')
        out.write_text(ready)
        column = Schema.load(out).column("job")
        assert column.is_open
        assert column.span_of("farm") == (0, 2)


@pytest.mark.parametrize(
    "public",
    [
        "job,age\n11,20\n12,30\n",  # a table with columns of this one
        "job,field\n11,farm\n11,shop\n",  # a code twice
        "job,field\n11,a\n12,b\n",  # as many groups as codes
        "job,field,branch\n11,farm,land\n12,farm,town\n",  # a group in two groups
        "job\n11\n12\n",
    ],
)
def test_what_is_no_hierarchy_is_read_as_a_table(tmp_path: Path, public: str):
    data = place(tmp_path, "people.csv", "age,job\n98765,11\n")
    text = admeasure.draft(data, public=place(tmp_path, "jobs.csv", public))
    assert "levels_of" not in text.partition("[table]")[2]
    assert 'name = "job"\ntype = "integer"\nminimum = 11\n' in text


def test_a_hierarchy_whose_first_column_is_no_column_of_the_table_is_said_to_be_so(
    tmp_path: Path,
):
    data = place(tmp_path, "people.csv", "age,job\n98765,11\n")
    other = place(tmp_path, "jobs.csv", TREE.replace("job,", "code,"))
    with pytest.raises(UsageError, match="called like the column whose codes it has"):
        admeasure.draft(data, public=other)
