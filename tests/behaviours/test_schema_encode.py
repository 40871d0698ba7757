"""How stored values become codes: the rules of docs/reference/schema.md, one by one."""

from __future__ import annotations

import datetime
import hashlib
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from admeasure.errors import DataError
from admeasure.schema import Schema, encode_frame
from admeasure.schema.check import check

DAY = datetime.date


def schema(*fields: str, privacy: str = "") -> Schema:
    columns = "".join(f'[[column]]\nname = "{"xyz"[i]}"\n{f}\n' for i, f in enumerate(fields))
    return Schema.loads(f'[table]\nname = "t"\n[privacy]\nunit = "person"\n{privacy}\n{columns}')


def codes(values: object, fields: str) -> list[int]:
    return encode_frame({"x": values}, schema(fields))["x"].tolist()


def refusal(values: object, fields: str) -> str:
    with pytest.raises(DataError) as caught:
        codes(values, fields)
    return str(caught.value)


TEN = 'type = "integer"\nminimum = 0\nmaximum = 9'
UNIT = 'type = "number"\nminimum = 0\nmaximum = 1\nbins = 4'
WORDS = 'type = "string"\nenum = ["a", " b", "12", "true", "2020-01-31", "0.5"]'
YEAR = 'type = "date"\nminimum = 2020-01-01\nmaximum = 2020-12-31'
FLAG = 'type = "boolean"'
REST = "\nother = true\nmissing_values = []"


@pytest.mark.parametrize(
    ("fields", "values", "expected"),
    [
        (TEN, ["0", "9", "007", "+3", "3.", "3.000", " 4 ", "-0"], [0, 9, 7, 3, 3, 3, 4, 0]),
        (TEN, [3, 3.0, True, Decimal("3.00"), np.int8(3), np.float32(3)], [3, 3, 1, 3, 3, 3]),
        (
            TEN + REST,
            ["3.5", "3e0", "", " ", "x", "1_0", "٣", "10", "-1"],
            [10, 10, 11, 11] + [10] * 5,
        ),
        (TEN + REST, ["1" * 5000, "inf", "nan", "0x3", "3\n", "\t3"], [10] * 6),
        (TEN + REST, [3.5, math.inf, math.nan, None, 2**80, -(2**80)], [10, 10, 11, 11, 10, 10]),
        (
            TEN + "\nclamp = true",
            [math.inf, -math.inf, 10, -1, 2**80, "-99999999999999999999"],
            [9, 0, 9, 0, 9, 0],
        ),
        (TEN + "\nbins = 3", list(range(10)), [i * 3 // 10 for i in range(10)]),
        ('type = "integer"\nedges = [0, 5, 9]', list(range(10)), [0] * 5 + [1] * 5),
        ('type = "integer"\nenum = [7, -1]\nother = true', [7, "-1", 7.0, 0, "x"], [0, 1, 0, 2, 2]),
        (UNIT, [0, 0.25, "0.5", ".75", "1e0", "1", True, Decimal("0.1")], [0, 1, 2, 3, 3, 3, 3, 0]),
        (UNIT + REST, ["nan", "-NaN", "inf", "-Infinity", "1_0", "", "0,5"], [5, 5, 4, 4, 4, 5, 4]),
        (UNIT + "\nclamp = true", [math.inf, "-inf", 7, "-1e999"], [3, 0, 3, 0]),
        ('type = "number"\nedges = [0, 0.1, 5]', [0, 0.0999, 0.1, 5], [0, 0, 1, 1]),
        (WORDS, ["a", " b", 12, True, DAY(2020, 1, 31), 12.0, 0.5], [0, 1, 2, 3, 4, 2, 5]),
        (
            WORDS + REST,
            ["A", "a ", "b", "", None, math.nan, 13, 12.5, "NULL"],
            [6] * 4 + [7, 7, 6, 6, 6],
        ),
        (WORDS + '\nmissing_values = ["", "?"]', ["", "?", None], [6, 6, 6]),
        (FLAG, ["TRUE", "False", "1", "0", True, 0, 1.0, " true "], [1, 0, 1, 0, 1, 0, 1, 1]),
        (FLAG + REST, ["yes", "t", 2, "", None, "1.0", "\u212aue"], [2, 2, 2, 3, 3, 2, 2]),
        (YEAR, ["2020-01-01", DAY(2020, 1, 2), datetime.datetime(2020, 1, 3, 23, 59)], [0, 1, 2]),
        (
            YEAR + REST,
            ["2020-1-1", "2020-02-30", "2019-12-31", "", "20200101", "0000-01-01"],
            [366, 366, 366, 367, 366, 366],
        ),
        (YEAR + "\nclamp = true", ["0001-01-01", "9999-12-31"], [0, 365]),
        (YEAR + "\nbins = 12", ["2020-01-31", "2020-02-01", "2020-12-31"], [0, 1, 11]),
        (
            'type = "date"\nedges = [2020-01-01, 2020-02-01, 2020-03-01]',
            ["2020-01-31", "2020-02-01", "2020-03-01"],
            [0, 1, 1],
        ),
    ],
)
def test_each_value_has_the_code_of_its_rule(fields: str, values: list, expected: list[int]):
    assert codes(values, fields) == expected
    assert [codes([v], fields)[0] for v in values] == expected


@pytest.mark.parametrize("value", ["-9", "-9.0", " -9", -9, -9.0, Decimal(-9), "?", "? "])
def test_a_listed_missing_value_is_missing_in_every_storage(value: object):
    listed = '\nmissing_values = ["-9", " ?"]'
    assert codes([value], TEN + listed) == [10]
    assert codes([value], UNIT + listed) == [4]
    assert codes([value], FLAG + listed) == [2]


def test_a_listed_missing_day_is_missing_in_every_storage():
    fields = YEAR + '\nmissing_values = ["1900-01-01"]'
    stored = ["1900-01-01", DAY(1900, 1, 1), np.datetime64("1900-01-01T05")]
    assert codes(stored, fields) == [366] * 3
    assert codes(np.array(stored, dtype="datetime64[s]"), fields) == [366] * 3


@pytest.mark.parametrize(
    ("fields", "values", "rule"),
    [
        (TEN, [None], "Column 'x' has missing values; declare `missing_values = []`"),
        (TEN, [math.nan], "missing values"),
        (TEN, [""], "missing values"),
        (TEN, [10], "outside [minimum, maximum] = [0, 9]"),
        (TEN, ["3.5"], "not an integer"),
        (TEN, [3.5], "not an integer"),
        (TEN, [DAY(2020, 1, 1)], "stored in a form that type integer cannot read"),
        (TEN + REST, [DAY(2020, 1, 1)], "stored in a form that type integer cannot read"),
        (TEN + REST, [b"3"], "stored in a form that type integer cannot read"),
        (TEN + REST, [[3]], "stored in a form that type integer cannot read"),
        (YEAR + REST, [20200101], "stored in a form that type date cannot read"),
        (YEAR + REST, [True], "stored in a form that type date cannot read"),
        (UNIT, ["x"], "not a number"),
        (UNIT, [math.inf], "outside [minimum, maximum]"),
        (FLAG, ["yes"], "not a boolean"),
        (WORDS, ["c"], "not in enum"),
        ('type = "integer"\nenum = [1]', [math.inf], "not in enum"),
        (YEAR, ["31.1.2020"], "not a date"),
        (YEAR, ["2021-01-01"], "outside [minimum, maximum] = [2020-01-01, 2020-12-31]"),
    ],
)
def test_a_value_without_a_level_is_refused_by_column_and_rule(fields, values, rule):
    said = refusal(values, fields)
    assert rule in said
    assert "\n" not in said


def test_a_refusal_holds_neither_the_value_nor_a_count():
    secret = 73519
    frame = {"x": [secret] * 37, "y": [f"secret-{secret}"] * 37, "z": [None] * 37}
    problems = check(frame, schema(TEN, WORDS, FLAG))
    said = " ".join(map(str, problems))
    assert len(problems) == 3
    assert "73519" not in said
    assert "37" not in said


def test_all_columns_are_checked_at_once():
    found = check(
        {"x": [None, 99, "x"], "y": [5]}.copy() | {"y": [5, 5, 5]}, schema(TEN, FLAG, UNIT)
    )
    assert [(p.column, p.rule.split(" ")[0]) for p in found] == [
        ("z", "is"),
        ("x", "has"),
        ("x", "has"),
        ("x", "has"),
        ("y", "has"),
    ]
    with pytest.raises(DataError, match="breaks 2 rules") as caught:
        encode_frame({"x": [99], "y": [5]}, schema(TEN, FLAG))
    assert len(str(caught.value).split("\n")) == 3


def test_an_empty_table_encodes_and_only_the_check_complains():
    empty = {"x": [], "y": np.array([])}
    found = encode_frame(empty, schema(TEN, UNIT))
    assert [len(c) for c in found.values()] == [0, 0]
    assert [str(p) for p in check(empty, schema(TEN, UNIT))] == [
        "The table has no rows; give a table with at least one row."
    ]
    assert len(encode_frame(pl.DataFrame({"x": [], "y": []}), schema(TEN, UNIT))["x"]) == 0
    assert len(encode_frame(pd.DataFrame({"x": [], "y": []}), schema(TEN, UNIT))["x"]) == 0


def test_one_row_and_one_category_are_enough():
    assert codes(["only"], 'type = "string"\nenum = ["only"]') == [0]


def test_codes_take_one_byte_up_to_256_levels_and_two_beyond():
    wide = 'type = "integer"\nminimum = 0\nmaximum = 255'
    found = encode_frame({"x": [255]}, schema(wide))["x"]
    assert (found.dtype, found.tolist()) == (np.uint8, [255])
    found = encode_frame({"x": [None]}, schema(wide + "\nmissing_values = []"))["x"]
    assert (found.dtype, found.tolist()) == (np.uint16, [256])
    widest = encode_frame({"x": [65535]}, schema('type = "integer"\nminimum = 0\nmaximum = 65535'))
    assert (widest["x"].dtype, widest["x"].tolist()) == (np.uint16, [65535])


def test_other_columns_are_not_read():
    class Explosive(dict):
        def __getitem__(self, key):
            assert key == "x", "a column outside the schema was read"
            return super().__getitem__(key)

    frame = Explosive({"x": [1, 2], "private": [object(), object()]})
    assert encode_frame(frame, schema(TEN))["x"].tolist() == [1, 2]


def test_an_absent_column_is_named_with_the_nearest():
    with pytest.raises(DataError, match="Column 'x' is not in the table"):
        encode_frame({"q": [1]}, schema(TEN))
    named = Schema.coded("t", {"education": 2})
    with pytest.raises(DataError, match="did you mean 'educaton'"):
        encode_frame({"educaton": [1]}, named)


def test_a_column_that_is_there_twice_is_refused():
    frame = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(DataError, match=r"two columns of one name|in the table twice"):
        encode_frame(frame, schema(TEN))
    table = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(DataError, match=r"two columns of one name|in the table twice"):
        encode_frame(table, schema(TEN))


@pytest.mark.parametrize("table", [7, "x", [1, 2], np.zeros((2, 2)), pl.LazyFrame({"x": [1]})])
def test_what_is_no_table_is_refused(table: object):
    with pytest.raises(DataError, match="is not a table that can be read"):
        encode_frame(table, schema(TEN))


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="differ in length"):
        encode_frame({"x": [1], "y": [True, False]}, schema(TEN, FLAG))


UTC = "UTC"
NEW_YORK = "America/New_York"
LATE = [datetime.datetime(2020, 1, 1, 23, 30), None, datetime.datetime(2020, 3, 1)]
ISO = ["2020-01-02", None, "2020-03-01"]


@pytest.mark.parametrize(
    ("fields", "plain", "column"),
    [
        (TEN, [3, None, 9], pd.Series([3, None, 9])),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype="Int8")),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype="UInt64")),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype="Float32")),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype=object)),
        (TEN, [3, None, 9], pd.Series(["3", None, "9"])),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype="category")),
        (TEN, [3, None, 9], pd.Series([3, None, 9], dtype=pd.ArrowDtype(pa.int32()))),
        (TEN, [3, None, 9], pl.Series([3, None, 9], dtype=pl.UInt8)),
        (TEN, [3, None, 9], pl.Series([3, None, 9], dtype=pl.Int128)),
        (TEN, [3, None, 9], pl.Series([3, None, 9], dtype=pl.Decimal(5, 2))),
        (TEN, [3, None, 9], pl.Series([3.0, None, 9.0])),
        (TEN, [3, None, 9], pl.Series([3.0, math.nan, 9.0])),
        (TEN, [3, None, 9], pa.chunked_array([[3, None], [9]])),
        (TEN, [3, None, 9], pa.chunked_array([pa.array([3, None, 9], pa.decimal128(5, 1))])),
        (TEN, [3, None, 9], pa.chunked_array([pa.array([3, None, 9]).dictionary_encode()])),
        (TEN, [None] * 3, pl.Series([None] * 3)),
        (TEN, [None] * 3, pa.chunked_array([pa.nulls(3)])),
        (WORDS, ["a", None, "12"], pd.Series(["a", None, "12"])),
        (WORDS, ["a", None, "12"], pd.Series(["a", None, "12"], dtype="string")),
        (WORDS, ["a", None, "12"], pd.Series(["a", None, "12"], dtype="category")),
        (WORDS, ["a", None, "12"], pd.Series(["a", None, 12], dtype=object)),
        (WORDS, ["a", None, "12"], pl.Series(["a", None, "12"], dtype=pl.Categorical)),
        (WORDS, ["a", None, "12"], pl.Series(["a", None, "12"], dtype=pl.Enum(["12", "a"]))),
        (
            WORDS,
            ["a", None, "12"],
            pa.chunked_array([pa.array(["a", None, "12"], pa.large_string())]),
        ),
        (
            WORDS,
            ["a", None, "12"],
            pa.chunked_array([pa.array(["a", None, "12"]).dictionary_encode()]),
        ),
        (WORDS, ["12", None, "12"], pd.Series([12, None, 12])),
        (WORDS, ["true", None, "true"], pl.Series([True, None, True])),
        (WORDS, ["2020-01-31", None], pl.Series([DAY(2020, 1, 31), None])),
        (FLAG, [True, None, False], pd.Series([True, None, False])),
        (FLAG, [True, None, False], pd.Series([True, None, False], dtype="boolean")),
        (FLAG, [True, None, False], pl.Series([True, None, False])),
        (FLAG, [True, None, False], pa.chunked_array([[True, None, False]])),
        (FLAG, [True, None, False], pd.Series([1.0, None, 0.0])),
        (YEAR, ISO, pl.Series([DAY(2020, 1, 2), None, DAY(2020, 3, 1)])),
        (YEAR, ISO, pl.Series(["2020-01-02", None, "2020-03-01"])),
        (YEAR, ["2020-01-01", None, "2020-03-01"], pl.Series(LATE)),
        (YEAR, ISO, pl.Series(LATE).dt.replace_time_zone(NEW_YORK)),
        (YEAR, ["2020-01-01", None, "2020-03-01"], pd.Series(pd.to_datetime(LATE))),
        (YEAR, ISO, pd.Series(pd.to_datetime(LATE)).dt.tz_localize(NEW_YORK)),
        (YEAR, ISO, pd.Series([DAY(2020, 1, 2), None, DAY(2020, 3, 1)], dtype=object)),
        (
            YEAR,
            ISO,
            pd.Series(["2020-01-02", None, "2020-03-01"], dtype=pd.ArrowDtype(pa.date32())),
        ),
        (
            YEAR,
            ISO,
            pa.chunked_array([pa.array([DAY(2020, 1, 2), None, DAY(2020, 3, 1)], pa.date64())]),
        ),
        (YEAR, ISO, pa.chunked_array([pa.array(LATE, pa.timestamp("ns", UTC))])),
    ],
)
def test_frames_read_as_the_plain_values_do(fields: str, plain: list, column):
    fields = fields + "\nmissing_values = []"
    if isinstance(column, pd.Series):
        frame = pd.DataFrame({"x": column})
    elif isinstance(column, pl.Series):
        frame = pl.DataFrame({"x": column})
    else:
        frame = pa.table({"x": column})
        if column.type == pa.timestamp("ns", UTC):
            plain = ["2020-01-01", None, "2020-03-01"]
    found = encode_frame(frame, schema(fields))["x"].tolist()
    assert found == codes(plain, fields)


def test_a_day_before_1970_is_the_day_it_falls_on():
    late = np.array(["1969-12-31T23:59:59", "1969-12-31T00:00:00"], dtype="datetime64[s]")
    fields = 'type = "date"\nminimum = 1969-12-30\nmaximum = 1970-01-01'
    assert codes(late, fields) == [1, 1]


def test_integers_beyond_doubles_keep_their_last_digit():
    big = 2**53 - 1
    fields = f'type = "integer"\nminimum = {big - 1}\nmaximum = {big + 1}\nmissing_values = []'
    frame = pl.DataFrame({"x": [big, None, big + 1]})
    assert encode_frame(frame, schema(fields))["x"].tolist() == [1, 3, 2]
    assert codes([str(big)], fields) == [1]


UNITS = 'unit_column = "id"\nmax_rows_per_unit = {}'


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("kind", ["numbers", "texts", "floats", "polars", "pandas", "times"])
def test_the_rows_of_each_unit_are_kept_by_their_hash_and_codes(most: int, kind: str):
    rng = np.random.default_rng(most)
    ids = rng.integers(0, 40, 200)
    x = rng.integers(0, 10, 200)
    start = datetime.datetime(2020, 1, 1)
    times = [start + datetime.timedelta(seconds=int(i)) for i in ids]
    column = {
        "numbers": ids,
        "texts": np.array([f"p{i}" for i in ids]),
        "floats": ids.astype(float),
        "polars": ids,
        "pandas": pd.Series(ids.astype(str)),
        "times": times,
    }[kind]
    names = [str(i) for i in {"texts": column, "times": times}.get(kind, ids)]
    units: dict[str, list[tuple[str, int, int]]] = {}
    for i, (name, value) in enumerate(zip(names, x.tolist(), strict=True)):
        hashed = hashlib.md5(f"{name}|{value}".encode()).hexdigest()
        units.setdefault(name, []).append((hashed, value, i))
    kept = sorted(i for rows in units.values() for _, _, i in sorted(rows)[:most])
    frame: object = {"id": column, "x": x}
    if kind in {"polars", "times"}:
        frame = pl.DataFrame(frame)
    found = encode_frame(frame, schema(TEN, privacy=UNITS.format(most)))
    assert list(found) == ["x"]
    assert found["x"].tolist() == x[kept].tolist()


@pytest.mark.parametrize(
    "ids",
    [[1, "1"], [1, 1.0], [True, 1], ["a", b"a"], [datetime.date(2020, 1, 1), "2020-01-01"]],
)
def test_a_unit_column_of_several_kinds_is_refused(ids: list):
    """Some of them are equal to Python and some are not, so that people are merged or split."""
    with pytest.raises(DataError, match="several kinds"):
        encode_frame({"id": ids, "x": [1, 2]}, schema(TEN, privacy=UNITS.format(1)))


@pytest.mark.parametrize(
    "ids",
    [
        np.array([1.5, 2.0]),
        np.array([2.0**53 + 2, 1.0]),
        np.array([2**24 + 2, 1], dtype=np.float32),
        np.array([np.inf, 1.0]),
        pl.Series([2.0**24 + 2, 1.0], dtype=pl.Float32),
        [0.1, 2.0],
    ],
    ids=str,
)
def test_floats_that_cannot_tell_units_apart_are_refused(ids):
    with pytest.raises(DataError, match="cannot name units exactly"):
        encode_frame({"id": ids, "x": [1, 2]}, schema(TEN, privacy=UNITS.format(1)))


def test_zero_is_one_unit_whatever_its_sign():
    found = encode_frame(
        {"id": np.array([0.0, -0.0, 1.0]), "x": [1, 2, 3]}, schema(TEN, privacy=UNITS.format(1))
    )
    assert len(found["x"]) == 2


@pytest.mark.parametrize("none", [None, math.nan])
def test_a_row_without_a_unit_is_refused(none: object):
    for ids in ([1, none], ["a", none], pl.Series([1, none], strict=False)):
        with pytest.raises(DataError, match="Column 'id' has rows without a unit"):
            encode_frame({"id": ids, "x": [1, 2]}, schema(TEN, privacy=UNITS.format(1)))


def test_hostile_column_names_are_read_like_any_other():
    for name in ["a\nb", "'; DROP TABLE x; --", "\N{SNOWMAN}", "x" * 5000, '"q"', "a.b[0]", " "]:
        found = encode_frame(pl.DataFrame({name: [1, 0]}), Schema.coded("t", {name: 2}))
        assert found[name].tolist() == [1, 0]
