"""Synthetic rows are spelled as the table is: encoding a file of them gives back their codes."""

from __future__ import annotations

import csv
import datetime
import math
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import admeasure
import spellings
from admeasure.domain import canonical
from admeasure.schema import Schema, encode_frame, to_frame
from admeasure.schema.model import Privacy, Table
from admeasure.schema.ordered import NumberColumn
from admeasure.schema.rows import rows
from admeasure.schema.write import write_table
from admeasure.sources.files.source import DuckDBSource
from admeasure.verbs.sample import sample_file

MESSY = """
[table]
name = "visits"
[privacy]
unit = "person"
[[column]]
name = "seen"
type = "date"
format = "%d/%m/%Y"
minimum = 2020-01-01
maximum = 2020-12-31
bins = 12
missing_values = ["n/a"]
[[column]]
name = "cost"
type = "number"
decimal = ","
thousands = "."
decimals = 2
minimum = 0
maximum = 5000
bins = 10
other = true
missing_values = ["n/a"]
[[column]]
name = "smokes"
type = "boolean"
true_values = ["Yes", "Y"]
false_values = ["No"]
missing_values = ["?"]
[[column]]
name = "stays"
type = "integer"
minimum = 0
maximum = 9
other = true
missing_values = ["-9"]
[[column]]
name = "ward"
type = "string"
enum = ["A", "B", "other"]
ignore_case = true
other = true
missing_values = []
[[column]]
name = "weight"
type = "number"
decimals = 1
minimum = 40
maximum = 140
bins = 20
[[column]]
name = "born"
type = "date"
minimum = 1920-01-01
maximum = 2019-12-31
bins = 10
other = true
missing_values = []
"""


def all_levels(schema: Schema, times: int) -> dict[str, np.ndarray]:
    """Every level of every column."""
    size = times * max(c.levels for c in schema.columns)
    return {c.name: np.arange(size) % c.levels for c in schema.columns}


def test_rows_of_a_file_are_spelled_as_the_table_is(tmp_path: Path):
    schema = Schema.loads(MESSY)
    made = rows(schema, all_levels(schema, 4), np.random.default_rng(0), as_texts=True)
    write_table(made, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["seen", "cost", "smokes", "stays", "ward", "weight", "born"]
    for row in found:
        if row["seen"] != "n/a":
            datetime.datetime.strptime(row["seen"], "%d/%m/%Y")
        whole, _, part = row["cost"].partition(",")
        assert row["cost"] in ("n/a", "other") or (
            len(part) == 2 and whole.replace(".", "").isdigit()
        )
        assert len(row["weight"].partition(".")[2]) == 1
        if row["born"] not in ("", "other"):
            datetime.date.fromisoformat(row["born"])
    said = {name: {row[name] for row in found} for name in found[0]}
    assert said["smokes"] == {"Yes", "No", "?"}
    assert said["stays"] == {*map(str, range(10)), "-9", "other"}
    assert said["ward"] == {"A", "B", "other", "(other)", ""}
    assert {"", "other"} < said["born"]
    assert any("." in text for text in said["cost"])


@pytest.mark.parametrize("schema", [Schema.loads(MESSY), spellings.schema()], ids=["messy", "all"])
def test_encoding_a_file_of_rows_gives_back_their_codes(schema: Schema, tmp_path: Path):
    codes = all_levels(schema, 2)
    made = rows(schema, codes, np.random.default_rng(1), as_texts=True)
    write_table(made, tmp_path / "rows.csv")
    found = DuckDBSource(tmp_path / "rows.csv", schema)
    joints = [(name,) for name in schema.names]
    for (name,), counted in zip(joints, found.counts(joints), strict=True):
        expected = np.bincount(codes[name], minlength=schema.column(name).levels)
        assert (counted == expected).all(), name
    first, second = schema.names[0], schema.names[1]
    (pair,) = found.counts([canonical((first, second))])
    assert pair.sum() == len(codes[first])


@pytest.mark.parametrize(
    "library", [None, pd.DataFrame(), pl.DataFrame()], ids=["dict", "pandas", "polars"]
)
def test_a_frame_of_rows_has_the_codes_but_for_other_in_columns_of_numbers(library):
    schema = Schema.loads(MESSY)
    codes = all_levels(schema, 2)
    frame = to_frame(rows(schema, codes, np.random.default_rng(2), as_texts=False), library)
    found = encode_frame(frame, schema)
    for name in schema.names:
        column = schema.column(name)
        expected = codes[name].copy()
        if column.form is None and column.type != "string" and column.other:
            expected[expected == column.other_code] = column.missing_code
        assert found[name].tolist() == expected.tolist(), name


def test_numbers_keep_their_type_in_a_frame_and_days_with_a_format_are_texts():
    schema = Schema.loads(MESSY)
    frame = to_frame(
        rows(schema, all_levels(schema, 2), np.random.default_rng(3), as_texts=False),
        pd.DataFrame(),
    )
    assert str(frame["stays"].dtype) == "Int64"
    assert frame["weight"].dtype == np.float64
    assert str(frame["born"].dtype).startswith("datetime64")
    assert isinstance(frame["seen"][0], str)


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True).map(sorted),
    st.integers(0, 99),
)
def test_a_number_stays_in_its_bin_and_has_no_more_digits_than_the_bin_can_tell(edges, seed):
    assume(all(b - a > 1e-6 * max(1.0, abs(a), abs(b)) for a, b in pairwise(edges)))
    column = NumberColumn(name="x", type="number", edges=tuple(edges))
    codes = np.repeat(np.arange(column.levels), 5)
    drawn = column.grid.draw(codes, np.random.default_rng(seed))
    made = column.values_of(drawn)
    assert np.array_equal(column.grid.place_all(made), codes)
    widths = np.diff(edges)[codes]
    size = np.minimum(widths, np.abs(drawn))
    assert np.all(np.abs(made - drawn) <= 1.5e-3 * size)
    for value, of in zip(made.tolist(), size.tolist(), strict=True):
        if of < 1e-9:
            continue
        least = 10.0 ** (math.floor(math.log10(of)) - 3)  # the last place that is kept
        assert Decimal(repr(value)) % Decimal(f"{least:.0e}") == 0


@settings(max_examples=200)
@given(
    st.floats(-50, 50),
    st.floats(0.01, 100),
    st.integers(1, 40),
    st.integers(0, 4),
    st.integers(0, 2**32 - 1),
)
def test_a_rounded_number_stays_in_its_bin_and_has_so_few_digits(low, span, bins, decimals, seed):
    column = NumberColumn(
        name="x", type="number", minimum=low, maximum=low + span, bins=bins, decimals=decimals
    )
    schema = Schema(table=Table(name="t"), privacy=Privacy(unit="p"), columns=(column,))
    codes = {"x": np.arange(bins).repeat(3)}
    made = rows(schema, codes, np.random.default_rng(seed), as_texts=True)
    assert encode_frame({"x": made["x"].tolist()}, schema)["x"].tolist() == codes["x"].tolist()
    width = span / bins
    for text in made["x"]:
        if width > 2.1 * 10.0**-decimals:  # then every bin has a number of that kind
            assert len(text.partition(".")[2]) == decimals, text


def test_a_sample_of_a_release_is_a_file_like_the_table(tmp_path: Path):
    schema = Schema.loads(MESSY)
    made = rows(schema, all_levels(schema, 40), np.random.default_rng(4), as_texts=True)
    write_table(made, tmp_path / "table.csv")
    release = admeasure.fit(
        str(tmp_path / "table.csv"),
        schema,
        workload="all-1way",
        mechanism=admeasure.independent(),
        epsilon=5,
        delta=1e-6,
        out=tmp_path / "release",
    )
    sample_file(release, tmp_path / "rows.csv", 200, seed=0)
    assert admeasure.check(str(tmp_path / "rows.csv"), schema) == []
    header = (tmp_path / "rows.csv").read_text().splitlines()[0]
    assert header == (tmp_path / "table.csv").read_text().splitlines()[0]
