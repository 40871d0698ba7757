"""Digits that the plan gives to values stand for these values and no others.

Expected codes and problems are those of the in-memory encoder on the same values; expected hashes
are Spark's own.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spellings
from admeasure.domain import canonical
from admeasure.schema import Schema
from admeasure.schema.check import check
from admeasure.sources.memory import MemorySource
from admeasure.sources.spark.digits import MOST_TEXTS, Texts, digits_of, murmur3, slots_of

pytestmark = pytest.mark.spark
MASTER = "local[2]"

LEVELS = [
    "a",
    "A",
    "a ",
    " a",
    "é",
    "e\u0301",
    "ﬁ",
    "fi",
    "ß",
    "日本",
    "\U0001f600",
    "1",
    "01",
    "1.0",
    "nan",
    "NaN",
    "null",
    "NULL",
    "None",
    "true",
    "other",
    "missing",
    "\x01",
    "\x7f",
    "ÿ",
    "þ",
    "\ufeff",
    "a\0b",
    "it's",
    'q"',
    "back\\slash",
    "\\n",
    "two\nlines",
    "${a}",
    "%41",
    "x" * 300,
    "category 1",
    "category 10",
]
NEAR = [
    "",
    " ",
    "b",
    "a\0",
    "a\u00a0",
    "E\u0301",
    "FI",
    "ss",
    "１",
    "+1",
    "1e0",
    "nan ",
    "category",
    "ÿÿ",
]


def schema_of(*described: str, privacy: str = "") -> Schema:
    columns = [f'[[column]]\nname = "x{i}"\n{one}\n' for i, one in enumerate(described)]
    return Schema.loads(
        f'[table]\nname = "t"\n[privacy]\nunit = "person"\n{privacy}\n' + "".join(columns)
    )


def quoted(text: str) -> str:
    escaped = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def listed(texts: list[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def same_counts(data: Any, table: Any, schema: Schema) -> None:
    """Problems of all columns, and the codes of every row, which its own number tells apart."""
    from admeasure.sources.spark import open_spark
    from admeasure.sources.spark.source import find_problems

    expected = check(table, schema)
    assert find_problems(data, schema) == expected
    refused = {problem.column for problem in expected}
    kept = tuple(c for c in schema.columns if c.name not in refused)
    sound = Schema(table=schema.table, privacy=schema.privacy, columns=kept)
    row = sound.names[-1]
    marginals = [canonical((row, name)) for name in sound.names if name != row]
    true = MemorySource(table, sound).counts(marginals)
    found = open_spark(data, sound).counts(marginals)
    for columns, ours, theirs in zip(marginals, found, true, strict=True):
        assert (ours == theirs).all(), columns


def numbered(rows: int) -> str:
    return f'type = "integer"\nminimum = 0\nmaximum = {rows}'


def test_every_spelling_gets_the_level_it_has_in_memory(session: Any, tmp_path: Path) -> None:
    """Some of each kind: they are read by the encoder of memory, which is tried on all."""
    frame, schema = spellings.frame(), spellings.schema()
    names = ("d0", "d1", "d9", "n2", "i2", "s3", "b", "row")
    table = pa.table({name: pa.array(frame[name]) for name in names})
    pq.write_table(table, tmp_path / "t.parquet")
    last = tuple(map(schema.column, names))
    ordered = Schema(table=schema.table, privacy=schema.privacy, columns=last)  # type: ignore[arg-type]
    same_counts(session.read.parquet(str(tmp_path / "t.parquet")), table, ordered)


def test_texts_that_look_alike_keep_their_own_levels(session: Any, tmp_path: Path) -> None:
    """Every level and what is near to one, in strict and lenient columns."""
    values = [*LEVELS, *NEAR, None]
    kinds = [
        f'type = "string"\nenum = {listed(LEVELS)}',
        f'type = "string"\nenum = {listed(LEVELS)}\nother = true\nmissing_values = []',
        f'type = "string"\nenum = {listed(LEVELS[:9])}\nother = true\nmissing_values = ["", "nan"]',
        f'type = "string"\nenum = {listed(LEVELS[:1])}\nother = true\nmissing_values = ["b"]',
    ]
    schema = schema_of(*kinds, numbered(len(values)))
    table = {f"x{i}": pa.array(values, pa.string()) for i in range(len(kinds))}
    table = pa.table(table | {f"x{len(kinds)}": range(len(values))})
    pq.write_table(table, tmp_path / "t.parquet")
    same_counts(f"spark://{tmp_path}/t.parquet", table, schema)
    same_counts(session.createDataFrame(table), table, schema)


DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(36)]
FAR = [datetime.date(1, 1, 1), datetime.date(2019, 12, 31), datetime.date(2020, 2, 6)]
FEBRUARY = 'type = "date"\nminimum = 2020-01-01\nmaximum = 2020-02-05'
WHOLE = 'type = "integer"\nminimum = 0\nmaximum = 29'
EXTREME = [-(2**63), -1, 30, 98, 99, 2**62, 2**63 - 1]
POOLS: list[tuple[pa.DataType, list[Any], list[Any], str]] = [
    (pa.string(), LEVELS, NEAR, f'type = "string"\nenum = {listed(LEVELS)}'),
    (pa.string(), ["0", "1", "true", "False"], ["yes", "", "tRue"], 'type = "boolean"'),
    (pa.string(), list(map(str, range(30))), ["3.0", "+4", "007", " 5 ", "30", "99"], WHOLE),
    (pa.int64(), list(range(30)), EXTREME, f"{WHOLE}\nbins = 7"),
    (pa.int64(), list(range(30)), EXTREME, f"{WHOLE}\nclamp = true"),
    (pa.int8(), [0, 5, 127], [-128, -1], 'type = "integer"\nminimum = 0\nmaximum = 300'),
    (pa.int32(), [1, 2], [7, 0, -5, 2**31 - 1], 'type = "string"\nenum = ["1", "2", "07"]'),
    (pa.int16(), [10, 20, 40], [30, -10, 99], 'type = "integer"\nenum = [40, 10, 20]'),
    (pa.int64(), [1, 9, 20], [0, 21], 'type = "number"\nminimum = 0.5\nmaximum = 20.5\nbins = 4'),
    (pa.bool_(), [True], [False], 'type = "string"\nenum = ["true"]'),
    (pa.date32(), DAYS, FAR, FEBRUARY),
    (pa.string(), list(map(str, DAYS)), [*map(str, FAR), "2020-1-1", ""], FEBRUARY),
    (pa.date32(), DAYS, FAR, 'type = "string"\nenum = ["2020-01-01"]'),
    (pa.float64(), [1.0, 3.0], [0.5, float("nan"), -0.0], WHOLE),
    (
        pa.string(),
        [str(k) for k in range(200)],
        ["", "x"],
        'type = "integer"\nminimum = 0\nmaximum = 999',
    ),
    (
        pa.string(),
        [f"t{k}" for k in range(200)],
        ["", "x"],
        f'type = "string"\nenum = {listed([f"t{k}" for k in range(200)])}',
    ),
]


@pytest.mark.parametrize("odd", [0.0, 0.03, 1.0])
def test_rows_are_read_as_memory_reads_them_however_many_are_odd(session: Any, odd: float) -> None:
    """Random tables over all kinds of storage that have digits, and some that have none."""
    rng = np.random.default_rng(int(odd * 100))
    rows, described, table = 2000, [], {}
    for i, (kind, usual, unusual, words) in enumerate(POOLS):
        missing = '["99"]' if "maximum = 29" in words else "[]"
        described.append(f"{words}\nother = true\nmissing_values = {missing}")
        pools = [unusual if rng.random() < odd else usual for _ in range(rows)]
        values = [pool[rng.integers(len(pool))] for pool in pools]
        table[f"x{i}"] = pa.array([None if rng.random() < 0.01 else v for v in values], kind)
    schema = schema_of(*described, numbered(rows))
    whole = pa.table(table | {f"x{len(POOLS)}": range(rows)})
    same_counts(session.createDataFrame(whole).repartition(3), whole, schema)


def test_rules_that_only_odd_rows_break_are_found(session: Any) -> None:
    kinds = [f'type = "string"\nenum = {listed(LEVELS)}', WHOLE, 'type = "boolean"', FEBRUARY]
    schema = schema_of(*kinds, numbered(40))
    rows = [["a"] * 40, [3] * 40, ["1"] * 40, [DAYS[0]] * 40]
    for place, bad in enumerate(["b", 30, "yes", FAR[0]]):
        for value in (bad, None):
            changed = [list(column) for column in rows]
            changed[place][17] = value
            table = pa.table({f"x{i}": column for i, column in enumerate([*changed, range(40)])})
            same_counts(session.createDataFrame(table), table, schema)


def test_a_collation_makes_no_two_texts_equal(session: Any) -> None:
    """To all of these "a" and "A" are one text."""
    values = [*LEVELS, *NEAR, None]
    kind = f'type = "string"\nenum = {listed(LEVELS)}\nother = true\nmissing_values = []'
    names = ["UTF8_LCASE", "UNICODE_CI", "UNICODE_CI_AI"]
    schema = schema_of(*[kind] * (len(names) + 1), numbered(len(values)))
    table = pa.table(
        dict.fromkeys(schema.names[:-1], values) | {schema.names[-1]: range(len(values))}
    )
    frame = session.createDataFrame(table)
    collated = [f"x{i} COLLATE {name} AS x{i}" for i, name in enumerate(names)]
    frame = frame.selectExpr(*collated, *schema.names[len(names) :])
    same_counts(frame, table, schema)


def test_units_whose_names_a_collation_takes_for_one_are_two(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    schema = schema_of(WHOLE, privacy='unit_column = "id"\nmax_rows_per_unit = 1')
    frame = session.createDataFrame(pa.table({"id": ["a", "A", "a"], "x0": [1, 2, 1]}))
    frame = frame.selectExpr("id COLLATE UNICODE_CI AS id", "x0")
    assert int(open_spark(frame, schema).counts([()])[0]) == 2


def test_odd_rows_of_a_unit_are_limited_like_others(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    kind = f'type = "string"\nenum = {listed(LEVELS)}\nother = true\nmissing_values = []'
    schema = schema_of(kind, WHOLE, privacy='unit_column = "id"\nmax_rows_per_unit = 2')
    rng = np.random.default_rng(2)
    pool = [*LEVELS[:5], *NEAR, None]
    rows = 300
    table = pa.table(
        {
            "id": rng.integers(0, 90, rows),
            "x0": [pool[k] for k in rng.integers(0, len(pool), rows)],
            "x1": rng.integers(0, 30, rows),
        }
    )
    frame = session.createDataFrame(table).repartition(3)
    asked = [("x0", "x1"), ("x0",), ()]
    found = open_spark(frame, schema).counts(asked)
    true = MemorySource(table, schema).counts(asked)
    assert all((a == b).all() for a, b in zip(found, true, strict=True))


def test_the_settings_of_a_session_do_not_change_what_a_text_is(session: Any) -> None:
    values = [*LEVELS, *NEAR, None]
    kind = f'type = "string"\nenum = {listed(LEVELS)}\nother = true\nmissing_values = []'
    table = pa.table({"x0": values, "x1": range(len(values))})
    frame = session.createDataFrame(table)
    settings = {
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": "1000",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        same_counts(frame, table, schema_of(kind, numbered(len(values))))
        assert all(session.conf.get(key).removesuffix("b") == settings[key] for key in settings)
    finally:
        for key in settings:
            session.conf.unset(key)


def test_the_hash_is_sparks(session: Any) -> None:
    texts = [*LEVELS, *NEAR, *("x" * n + "é" for n in range(9))]
    frame = session.createDataFrame([(text,) for text in texts], "t string")
    found = [row[0] for row in frame.selectExpr("hash(t)").collect()]
    assert [h % 2**32 for h in found] == [murmur3(text.encode()) for text in texts]


def test_every_text_has_a_slot_of_its_own() -> None:
    for count in (1, 2, 3, 17, MOST_TEXTS):
        texts = [f"level {k}" for k in range(count)]
        found = slots_of(texts)
        assert isinstance(found, Texts)
        assert sorted(slot for slot in found.slots if slot) == sorted(texts)
    assert slots_of([f"level {k}" for k in range(MOST_TEXTS + 1)]) is None


def test_columns_whose_values_the_schema_does_not_list_have_no_digits() -> None:
    columns = schema_of('type = "number"\nminimum = 0\nmaximum = 1\nbins = 3', WHOLE).columns
    assert digits_of(columns[0], "string") is None
    assert digits_of(columns[0], "double") is None
    assert digits_of(columns[1], "decimal") is None
    assert digits_of(columns[1], "date") is None
    assert digits_of(columns[1], "long") is not None
