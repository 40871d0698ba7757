"""A short schema file says the same as a long one."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from admeasure.errors import SchemaError
from admeasure.schema import Schema
from admeasure.schema.ready import READY

HEAD = '[table]\nname = "t"\n[privacy]\nunit = "person"\n'
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"


def column(text: str) -> str:
    return f"[[column]]\n{text}\n"


def test_one_block_stands_for_many_columns_and_one_column_for_others():
    short = Schema.loads(
        HEAD
        + column('name = "a"\ntype = "integer"\nminimum = 0\nmaximum = 9\nmissing_values = ["?"]')
        + column('names = ["b", "c"]\nlike = "a"\nmaximum = 5')
        + column('name = "d"\nlike = "c2"\nother = true\ntitle = "last"')
        + column('name = "c2"\nlike = "a"\nedges = [0, 2, 5]\ntitle = "not d\'s"')
    )
    long = Schema.loads(
        HEAD
        + column('name = "a"\ntype = "integer"\nminimum = 0\nmaximum = 9\nmissing_values = ["?"]')
        + column('name = "b"\ntype = "integer"\nminimum = 0\nmaximum = 5\nmissing_values = ["?"]')
        + column('name = "c"\ntype = "integer"\nminimum = 0\nmaximum = 5\nmissing_values = ["?"]')
        + column(
            'name = "d"\ntype = "integer"\nedges = [0, 2, 5]\nmissing_values = ["?"]\n'
            'other = true\ntitle = "last"'
        )
        + column(
            'name = "c2"\ntype = "integer"\nedges = [0, 2, 5]\nmissing_values = ["?"]\n'
            'title = "not d\'s"'
        )
    )
    assert short == long
    assert Schema.loads(short.dumps()) == long


def test_a_column_may_be_like_one_of_several_that_a_block_names(tmp_path: Path):
    """The example of the documentation, "Writing less"."""
    page = (DOCS / "schema.md").read_text("utf-8").partition("## Writing less")[2]
    block = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    (tmp_path / "chapters.txt").write_text("I\nII\n")
    (tmp_path / "schema.toml").write_text(HEAD + block[1])
    schema = Schema.load(tmp_path / "schema.toml")
    assert schema.names[:4] == ("diag_1", "diag_2", "diag_3", "diag_4")
    assert schema.column("diag_4").labels == (*schema.column("diag_1").labels, "other")


def test_a_list_may_lie_in_a_file_beside_the_schema(tmp_path: Path):
    (tmp_path / "wards.txt").write_text("A\nB\n\nC d\n", encoding="utf-8")
    (tmp_path / "codes.csv").write_text('text,code\n"one, two",1\nthree,3\nthree,3\n')
    path = tmp_path / "schema.toml"
    path.write_text(
        HEAD
        + column('name = "ward"\ntype = "string"\nenum_file = "wards.txt"')
        + column('name = "text"\ntype = "string"\nenum_file = "codes.csv"')
        + column('name = "other"\ntype = "string"\nenum_file = "codes.csv"')
    )
    schema = Schema.load(path)
    assert schema.column("ward").listed == ("A", "B", "C d")
    assert schema.column("text").listed == ("one, two", "three")
    assert schema.column("other").listed == ("1", "3")
    with pytest.raises(SchemaError, match="beside a schema file"):
        Schema.loads(path.read_text())  # a text that anybody may have written reads no file


def test_every_ready_block_is_a_column():
    blocks = "".join(column(f'name = "{name}"\nready = "{name}"') for name in READY)
    schema = Schema.loads(HEAD + blocks)
    assert schema.names == tuple(READY)
    own = Schema.loads(HEAD + column('name = "x"\nready = "age"\nmaximum = 99\nbins = 10'))
    assert own.column("x").levels == 10
    assert own.column("x").bounds_text == "[0, 99]"


def test_the_ready_countries_are_those_of_the_standard():
    """As the maintainers of time zones list them."""
    text = (files("tzdata") / "zoneinfo" / "iso3166.tab").read_text("utf-8")
    listed = {line.split("\t")[0] for line in text.splitlines() if not line.startswith("#")}
    assert set(READY["country"]["enum"]) == listed
    three = READY["country-3"]["enum"]
    assert len(set(three)) == len(listed) == len(three)
    assert {"DEU", "GBR", "ZAF", "XKX"} - set(three) == {"XKX"}  # no official code
    assert len(READY["us-state"]["enum"]) == 51
    assert len(READY["icd10-chapter"]["enum"]) == len(READY["icd10-chapter-codes"]["enum"]) == 22


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('names = ["a", "b"]\nname = "c"\ntype = "boolean"', "both name and names"),
        ('names = []\ntype = "boolean"', "no list of names"),
        ('names = ["a", "a"]\ntype = "boolean"', "described twice"),
        ('name = "a"\nlike = "a"', "is like 'a'"),
        ('name = "a"\nlike = "nobody"', "no column"),
        ('name = "a"\nready = "us-states"', "Did you mean 'us-state'?"),
        ('name = "a"\nready = 3', "There are: age"),
        ('name = "a"\nenum_file = 3', "beside a schema file"),
        ('name = "a"\nready = "age"\nenum = ["x"]', "Column 'a'"),
    ],
)
def test_a_wrong_short_form_says_what_is_wrong(text: str, said: str):
    with pytest.raises(SchemaError) as caught:
        Schema.loads(HEAD + column(text))
    assert said in str(caught.value)


def test_a_small_file_does_not_ask_for_more_than_there_is():
    names = json.dumps([f"c{i}" for i in range(3000)])
    enum = json.dumps([str(i) for i in range(5000)])
    text = column(f'name = "a"\ntype = "string"\nenum = {enum}')
    with pytest.raises(SchemaError, match="together"):
        Schema.loads(HEAD + text + column(f'names = {names}\nlike = "a"'))


def test_the_published_schema_knows_the_short_forms():
    jsonschema = pytest.importorskip("jsonschema")
    published = json.loads((DOCS / "schema.json").read_text("utf-8"))

    def problems(*columns: dict) -> list:
        document = {"table": {"name": "t"}, "privacy": {"unit": "p"}, "column": list(columns)}
        return list(jsonschema.Draft202012Validator(published).iter_errors(document))

    assert not problems({"names": ["a", "b"], "type": "boolean"})
    assert not problems({"name": "a", "like": "b", "other": True}, {"name": "b", "ready": "age"})
    assert problems({"type": "boolean"})
    assert problems({"name": "a", "ready": "nothing"})
