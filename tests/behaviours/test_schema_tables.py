"""Rows out: frames of the caller's type, files, drafts."""

from __future__ import annotations

import datetime
import subprocess
import sys
import tomllib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from admeasure.errors import DataError, SchemaError, UsageError
from admeasure.schema import Schema, encode_frame, to_frame
from admeasure.schema.draft import draft, kind_of
from admeasure.schema.frames import empty_like
from admeasure.schema.write import write_table

SCHEMA = Schema.loads("""
[table]
name = "people"
[privacy]
unit = "person"
[[column]]
name = "age"
type = "integer"
minimum = 0
maximum = 99
bins = 10
missing_values = []
[[column]]
name = "income, \\"gross\\""
type = "number"
minimum = 0
maximum = 1
bins = 8
[[column]]
name = "work"
type = "string"
enum = ["", "plain", "with, comma", "with \\"quotes\\"", "two\\nlines", "carriage\\rreturn", "é☃"]
missing_values = ["?"]
[[column]]
name = "born"
type = "date"
minimum = 1900-01-01
maximum = 2020-12-31
bins = 100
missing_values = []
[[column]]
name = "member"
type = "boolean"
missing_values = []
""")


def rows(count: int = 500) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    codes = {c.name: rng.integers(0, c.levels, count).astype(c.dtype) for c in SCHEMA.columns}
    return codes, SCHEMA.decode(codes, rng)


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return list(a) == list(b) and all((a[name] == b[name]).all() for name in a)


@pytest.mark.parametrize("like", [pd.DataFrame(), pl.DataFrame(), pa.table({}), {}])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_frame_comes_back_in_the_callers_type(like: object, count: int):
    codes, values = rows(count)
    frame = to_frame(values, like)
    assert type(frame) is type(like)
    assert same(encode_frame(frame, SCHEMA), codes)


def test_columns_come_back_as_they_are_where_there_is_no_frame():
    _, values = rows(3)
    assert list(to_frame(values, None)) == list(SCHEMA.names)


def test_types_in_frames_are_those_of_the_values():
    _, values = rows()
    assert [str(t) for t in to_frame(values, pl.DataFrame()).dtypes] == [
        "Int64",
        "Float64",
        "String",
        "Date",
        "Boolean",
    ]
    table = to_frame(values, pa.table({}))
    assert [str(t) for t in table.schema.types] == [
        "int64",
        "double",
        "string",
        "date32[day]",
        "bool",
    ]
    kinds = to_frame(values, pd.DataFrame()).dtypes.astype(str).tolist()
    assert kinds[:2] == ["Int64", "float64"]
    assert kinds[3].startswith("datetime64")
    assert kinds[4] == "boolean"


def test_a_pattern_of_a_frame_holds_no_rows():
    for frame in (pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]})):
        pattern = empty_like(frame)
        assert type(pattern) is type(frame)
        assert len(pattern) == 0
    assert empty_like({"a": [1]}) == {}
    assert empty_like(None) is None


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_a_file_holds_the_rows_it_was_given(tmp_path: Path, suffix: str, count: int):
    codes, values = rows(count)
    path = tmp_path / f"it's rows{suffix}"
    write_table(values, path)
    quoted_path = str(path).replace("'", "''")
    reader = (
        f"read_csv('{quoted_path}', all_varchar=true, header=true, allow_quoted_nulls=false)"
        if suffix.lower() == ".csv"
        else f"read_parquet('{quoted_path}')"
    )
    relation = duckdb.sql(f"SELECT * FROM {reader}")
    found = list(zip(*relation.fetchall(), strict=True)) or [()] * len(SCHEMA.columns)
    frame = dict(zip(relation.columns, map(list, found), strict=True))
    assert same(encode_frame(frame, SCHEMA), codes)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_parquet_types_do_not_depend_on_where_the_first_value_stands(tmp_path: Path):
    late = np.array([None] * 5000 + [7], dtype=object)
    days = np.array([None] * 5000 + [datetime.date(2020, 1, 2)], dtype=object)
    nothing = np.array([None] * 5001, dtype=object)
    write_table({"n": late, "d": days, "x": nothing}, tmp_path / "late.parquet")
    found = duckdb.sql(f"SELECT * FROM '{tmp_path / 'late.parquet'}'")
    assert [str(t) for t in found.types] == ["BIGINT", "DATE", "VARCHAR"]
    assert found.fetchall()[-1] == (7, datetime.date(2020, 1, 2), None)


def test_an_existing_file_stays_whole_when_writing_fails(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("before", "utf-8")
    with pytest.raises(duckdb.Error):
        write_table({"a": np.arange(3), "b": np.arange(4)}, path)
    assert path.read_text("utf-8") == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize(
    ("columns", "name", "message"),
    [
        ({"a": [1]}, "rows.xlsx", "not one of .csv, .parquet"),
        ({"a": [1]}, "absent/rows.csv", "There is no folder"),
        ({}, "rows.csv", "no columns"),
        ({"a": [1], "A": [2]}, "rows.csv", "differ only in case"),
        ({"a": [1]}, ".", "not one of"),
    ],
)
def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path, columns, name, message):
    with pytest.raises(UsageError, match=message):
        write_table(columns, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_files_and_encoding_need_no_frame_library(tmp_path: Path):
    program = """
import sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
import numpy as np
from admeasure.schema import Schema
from admeasure.schema.write import write_table
from admeasure.sources.memory import MemorySource
schema = Schema.coded("t", {"a": 3})
values = schema.decode({"a": np.array([2, 0, 1])}, np.random.default_rng(0))
write_table({**values, "b": np.array(["x", None, "y"], dtype=object)}, sys.argv[1])
assert MemorySource(values, schema).counts([("a",)])[0].tolist() == [1, 1, 1]
"""
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"rows.{suffix}"
        subprocess.run([sys.executable, "-c", program, str(path)], check=True)
        assert path.exists()


HEADER = [
    ("age", "BIGINT"),
    ('q"\n', "VARCHAR"),
    ("when", "TIMESTAMP"),
    ("n", "DOUBLE"),
    ("f", "BOOLEAN"),
]


def test_a_draft_has_names_and_types_and_fails_validation_everywhere_else():
    text = draft(HEADER)
    found = tomllib.loads(text)["column"]
    assert [(c["name"], c["type"]) for c in found] == [
        ("age", "integer"),
        ('q"\n', "string"),
        ("when", "date"),
        ("n", "number"),
        ("f", "boolean"),
    ]
    with pytest.raises(SchemaError) as caught:
        Schema.loads(text)
    lines = str(caught.value).split("\n")
    assert lines[0] == "schema has 9 problems:"
    assert all("TODO" in line for line in lines[1:])


def test_a_draft_that_is_filled_in_is_a_schema():
    text = draft(HEADER, name="people")
    for field, value in (("minimum", "0"), ("maximum", "9"), ("unit", '"person"')):
        text = text.replace(f'{field} = "TODO"', f"{field} = {value}")
    text = text.replace('enum = ["TODO"]', 'enum = ["a"]')
    text = text.replace(
        '"date"\nminimum = 0\nmaximum = 9', '"date"\nminimum = 2020-01-01\nmaximum = 2020-01-02'
    )
    assert [c.name for c in Schema.loads(text).open_columns] == ["n"]
    text = text.replace('type = "number"', 'type = "number"\nbins = 3')
    assert Schema.loads(text).domain.levels == (10, 1, 2, 3, 2)


def test_a_draft_refuses_a_header_with_one_name_twice():
    with pytest.raises(DataError, match="two columns 'a'"):
        draft([("a", "BIGINT"), ("a", "VARCHAR")])


@pytest.mark.parametrize(
    ("storage", "kind"),
    [
        ("HUGEINT", "integer"),
        ("UTINYINT", "integer"),
        ("int64", "integer"),
        ("UInt8", "integer"),
        ("FLOAT", "number"),
        ("DECIMAL(18,3)", "number"),
        ("double", "number"),
        ("VARCHAR", "string"),
        ("ENUM('a')", "string"),
        ("BLOB", "string"),
        ("INTERVAL", "string"),
        ("DATE", "date"),
        ("date32[day]", "date"),
        ("timestamp[us]", "date"),
        ("Datetime", "date"),
        ("bool", "boolean"),
        ("BOOLEAN", "boolean"),
        ("object", "string"),
    ],
)
def test_storage_types_map_to_schema_types(storage: str, kind: str):
    assert kind_of(storage) == kind
