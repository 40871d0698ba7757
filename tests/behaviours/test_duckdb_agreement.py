"""The SQL encoder and the in-memory encoder give every value the same level or the same refusal.

Each table has a column `row` of distinct codes, so that the marginal of `row` and a column shows
the level of every single value.
"""

from __future__ import annotations

import datetime
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from admeasure.domain import canonical
from admeasure.errors import DataError
from admeasure.schema.categorical import BooleanColumn, StringColumn
from admeasure.schema.check import check
from admeasure.schema.column import Column
from admeasure.schema.days import DateColumn
from admeasure.schema.forms import THOUSANDS
from admeasure.schema.model import Privacy, Schema, Table
from admeasure.schema.ordered import IntegerColumn, NumberColumn
from admeasure.sources.files.source import DuckDBSource, find_problems
from admeasure.sources.memory import MemorySource

ROWS = 24
# Every example opens files, so shrinking one that fails would take minutes.
fuzz = settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def among(barred: str, *others: str) -> st.SearchStrategy[str]:
    """One of the texts between bars, or of the others."""
    return st.sampled_from([*barred.split("|"), *others])


odd_texts = among(
    "|a|A| |é|e\u0301|日本|\U0001f600|'|\"|,|;|NULL|null|None|NA|?|\\N|tr\u00fce|ſ| a|a ",
    *("a\nb", "a\r\nb", "\t1", "1\t", "a\x00b", "\u00a0", "\u212a", "\u0130"),
)
whole_texts = among(
    "0|1|-1|+1|01|1.|1.0|1.00|1.5|1e0|1E3|1_0|0x1|١|--1|+-1|9|-9|10|-0|-0.0| 3 |3 |99|\t3|3\n"
    "|9223372036854775807|9223372036854775808|.|-|+|e5|.e5|1,5|1 0",
    *("9" * 19, "-" + "9" * 19, "9" * 30, "-" + "9" * 38, "9" * 39, "9" * 60, "0" * 60 + "7"),
)
real_texts = among(
    ".5|5.|0.1|0.30000000000000004|1e-400|1e400|-1e400|inf|-Inf|+INFINITY|nan|NaN|-nan|infinit"
    "|0.7|2.1|1e1|9.999999999999999999|0.25|1e308|4.9e-324",
    *("1" * 320, "0." + "0" * 330 + "1"),
)
date_texts = among(
    "2020-01-01|2020-02-29|2021-02-29|2020-1-1|20200101|2020-01-01 00:00:00|0000-01-01|0001-01-01"
    "|9999-12-31|10000-01-01|infinity|epoch|2020-13-01| 2020-01-05 |2020-01-01T00:00:00|-0001-01-01"
    "|2020-01-01 (BC)|1999-12-31|2020-01-01 23:59|2020-01-01 24:00|2020-01-01T12:00:60"
    "|2020-01-31 23:30:00.5-05:00|2020-02-01T00:15+0530|2020-01-01 00:00:00 UTC|2020-01-01T1:00"
    "|2020-02-30 10:00|0001-01-01 00:00+01|9999-12-31 23:00-02:00|2020-01-01 00:00:00Z|"
    "2020-01-01 00:00 +14:00|2020-01-01 00:00+24:00|2020-01-01 00:00:00.|0000-12-31 23:00-05"
)
spelled_days = among(
    "5/1/2020|05/01/2020|29/02/2020|29/02/2021|1/13/2020|13/1/2020|01/02/20|1/2/69|1/2/68|01.02.2020"
    "|1 Jan 2020|01 JAN 2020|1 January 2020|01 may 20|31 jun 2020|01012020|1012020|20200105"
    "|05/01/2020 9:05|05/01/2020 09:5|05/01/2020 24:00|05/01/2020 12:30 PM|05/01/2020 0:30 am"
    "|05/01/0000|5/1/20200|Wed, 01 Jan 2020|wednesday 1 january 2020|05/01/2020 "
    "|2020年1月5日|05'01'2020|5/ 1/2020|٥/1/2020"
)
spelled_numbers = among(
    "1,5|1.234|1.234,5|1,234.5|1 234|1'000|1'00|12.34|-1.000|1,000,000|,5|5,|.5,|1.2345|12,3e1|1_0"
    "|0.001|+1.000,25|1234,5|1.234.567|1,23,456|inf,|1\u00a0234|7,0|7.000",
    "1\u202f000",
)
spelled_words = among("Yes|No|YES|Y|n|Éa|éA|ÉA| a|A |MAIß|maiß|STRASSE|ǅ|ǆ|ǄŽ|σ|Σ|ς|K|k|İ|i̇")
bool_texts = among("true|TRUE|tRuE|false|False|t|f|yes|1|0| 1 ")
near = st.floats(-12, 12).map(repr) | st.integers(-12, 12).map(str)
standard_texts = odd_texts | whole_texts | real_texts | date_texts | bool_texts | near | near | near
spelled_texts = spelled_days | spelled_numbers | spelled_words
texts = standard_texts | spelled_texts
wild_texts = texts | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)

days = st.dates(datetime.date(2019, 12, 1), datetime.date(2020, 3, 1))
missing = st.none() | st.lists(texts, max_size=3, unique=True).map(tuple)


def edges_of(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(values, min_size=2, max_size=6, unique=True).map(sorted).map(tuple)


def ordered(kind: str, values: st.SearchStrategy, max_bins: int) -> st.SearchStrategy:
    bounds = edges_of(values).map(lambda e: {"minimum": e[0], "maximum": e[-1]})
    bins = st.integers(1, max_bins).map(lambda b: {"bins": b})
    plain = st.just({}) if kind != "number" else bins
    cut = st.builds(lambda b, n: b | n, bounds, bins | plain) | edges_of(values).map(
        lambda e: {"edges": e}
    )
    return st.builds(lambda c, clamp: {"type": kind, "clamp": clamp} | c, cut, st.booleans())


FORMATS = (
    *("%d/%m/%Y", "%m/%d/%y", "%d.%m.%Y", "%d %b %Y", "%d %B %Y", "%d%m%Y", "%Y%m%d", "%d %b %y"),
    *("%d/%m/%Y %H:%M", "%d/%m/%Y %I:%M %p", "%a, %d %b %Y", "%A %d %B %Y", "%Y年%m月%d日"),
    *("%d'%m'%Y", "%Y-%m-%d", "%d/%m/%Y %H:%M:%S.%f"),
)
plainly: st.SearchStrategy[dict] = st.just({})
with_format = plainly | st.sampled_from(FORMATS).map(lambda f: {"format": f})
with_groups = plainly | st.builds(
    lambda decimal, thousands: {"decimal": decimal, "thousands": thousands},
    st.sampled_from([None, ".", ","]),
    st.sampled_from([None, *THOUSANDS]),
)
with_words = plainly | st.lists(texts, min_size=2, max_size=5, unique=True).map(
    lambda words: {"true_values": tuple(words[1:]), "false_values": (words[0],)}
)
with_letters = st.fixed_dictionaries({"strip": st.booleans(), "ignore_case": st.booleans()})
forms = {
    "date": with_format,
    "integer": with_groups,
    "number": with_groups,
    "boolean": with_words,
    "string": plainly | with_letters,
}

small_reals = st.floats(-10, 10) | st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 2.1])
specs = st.one_of(
    ordered("integer", st.integers(-10, 10), 8),
    ordered("integer", st.sampled_from([-(2**53), -(2**40), 0, 7, 2**40, 2**53]), 60_000),
    edges_of(st.integers(-10, 10)).map(lambda e: {"type": "integer", "enum": e}),
    ordered("number", small_reals, 9),
    ordered("number", st.integers(-10, 10).map(float), 9),
    ordered("date", days, 8),
    st.lists(texts, min_size=1, max_size=12, unique=True).map(
        lambda e: {"type": "string", "enum": tuple(e)}
    ),
    # Codes of a hierarchy: two groups, of which one also has its first code as a level.
    st.lists(texts, min_size=3, max_size=12, unique=True).map(
        lambda e: {
            "type": "string",
            "enum": ("group 1", e[2], "group 0"),
            "levels_of": {text: f"group {i % 2}" for i, text in enumerate(e)},
        }
    ),
    st.just({"type": "boolean"}),
)
kinds = {
    "integer": IntegerColumn,
    "number": NumberColumn,
    "date": DateColumn,
    "string": StringColumn,
    "boolean": BooleanColumn,
}


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    for _ in range(8):
        spec = draw(specs)
        # Mostly lenient: a column that refuses hides the levels of all other values.
        other = draw(st.sampled_from([True, True, True, False]))
        try:
            made = kinds[spec["type"]](
                name=name,
                other=other,
                missing_values=draw(st.just(()) | missing),
                **draw(forms[spec["type"]]),
                **spec,
            )
            # One whose bins a run finds is read on the leaves that they are cut from.
            return made.as_read() if made.is_open else made
        except ValidationError:
            continue
    return BooleanColumn(name=name, type="boolean", other=True, missing_values=())


def schema_of(*described: Column) -> Schema:
    rows = IntegerColumn(name="row", type="integer", minimum=0, maximum=ROWS)
    return Schema(
        table=Table(name="fuzz"), privacy=Privacy(unit="person"), columns=(rows, *described)
    )


def assert_agreement(frame: dict[str, list], schema: Schema, path: str | Path) -> None:
    expected = check(frame, schema)
    assert {str(p) for p in find_problems(path, schema)} == {str(p) for p in expected}
    if expected:
        with pytest.raises(DataError):
            DuckDBSource(path, schema)
    refused = {p.column for p in expected}
    schema = schema_of(*(c for c in schema.columns if c.name not in refused | {"row"}))
    marginals = [canonical(("row", name)) for name in schema.names]
    found = DuckDBSource(path, schema).counts(marginals)
    true = MemorySource(frame, schema).counts(marginals)
    for marginal, array, expected_array in zip(marginals, found, true, strict=True):
        assert (array == expected_array).all(), marginal


def csv_field(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


@fuzz
@given(st.data())
def test_texts_in_csv_get_the_levels_they_have_in_memory(data: st.DataObject) -> None:
    described = [data.draw(columns(name)) for name in "abc"]
    schema = schema_of(*described)
    size = data.draw(st.integers(1, ROWS))
    frame: dict[str, list] = {"row": [str(i) for i in range(size)]}
    for name in "abc":
        values = st.lists(st.none() | wild_texts, min_size=size, max_size=size)
        frame[name] = data.draw(values)
    lines = [",".join(map(csv_field, row)) for row in zip(*frame.values(), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text("\n".join([",".join(frame), *lines]) + "\n", encoding="utf-8", newline="")
        assert_agreement(frame, schema, path)


def decimals(precision: int, scale: int) -> st.SearchStrategy:
    top = 10**precision - 1
    whole = st.integers(-top, top) | st.integers(-12, 12).map(lambda i: i * 10**scale)
    fitting = whole.filter(lambda i: abs(i) <= top)
    # Built from digits: arithmetic would round to the context's precision.
    return fitting.map(lambda i: Decimal((int(i < 0), tuple(map(int, str(abs(i)))), -scale)))


moments = st.datetimes(datetime.datetime(2019, 12, 30), datetime.datetime(2020, 3, 1)) | st.just(
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
)
stored: list[tuple[pa.DataType, st.SearchStrategy]] = [
    (pa.string(), wild_texts),
    (pa.dictionary(pa.int32(), pa.string()), texts),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127) | st.integers(-12, 12)),
    (pa.uint16(), st.integers(0, 65535) | st.integers(0, 12)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-12, 12)),
    (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 12)),
    (pa.float32(), st.floats(width=32) | st.integers(-12, 12).map(float)),
    (pa.float64(), st.floats() | small_reals | st.integers(-24, 24).map(lambda i: i / 2)),
    (pa.decimal128(6, 2), decimals(6, 2)),
    (pa.decimal128(18, 0), decimals(18, 0)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.decimal128(38, 37), decimals(38, 37)),
    (pa.date32(), days | st.dates()),
    (
        pa.timestamp("ms"),
        moments.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000)),
    ),
    (pa.timestamp("us"), moments | st.datetimes()),
    (pa.timestamp("us", "America/New_York"), moments.map(lambda m: m.replace(tzinfo=datetime.UTC))),
    (pa.time64("us"), st.times()),
    (pa.binary(), st.binary(max_size=4)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
]


@fuzz
@given(st.data())
def test_values_in_parquet_get_the_levels_they_have_in_memory(data: st.DataObject) -> None:
    described = [data.draw(columns(name)) for name in "abc"]
    schema = schema_of(*described)
    size = data.draw(st.integers(1, ROWS))
    frame: dict[str, list] = {"row": list(range(size))}
    arrays: dict[str, Any] = {"row": pa.array(frame["row"])}
    for name in "abc":
        kind, values = data.draw(st.sampled_from(stored))
        drawn = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
        arrays[name] = pa.array(drawn, kind)
        frame[name] = arrays[name].to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(pa.table(arrays), path)
        assert_agreement(frame, schema, path)


wide = [
    ("HUGEINT", st.integers(-(2**127) + 1, 2**127 - 1)),
    ("UHUGEINT", st.integers(0, 2**128 - 1)),
    ("UBIGINT", st.integers(0, 2**64 - 1)),
    ("BIGINT", st.integers(-(2**63), 2**63 - 1)),
    ("DECIMAL(38, 0)", st.integers(-(10**38) + 1, 10**38 - 1)),
]


@fuzz
@given(st.data())
def test_whole_numbers_of_any_size_get_the_levels_they_have_in_memory(data: st.DataObject) -> None:
    described = [data.draw(columns(name)) for name in "abc"]
    schema = schema_of(*described)
    size = data.draw(st.integers(1, ROWS))
    frame: dict[str, list] = {"row": list(range(size))}
    chosen = ["row"]
    for name in "abc":
        kind, values = data.draw(st.sampled_from(wide))
        near_or_far = values | st.integers(0, 12)
        frame[name] = data.draw(st.lists(st.none() | near_or_far, min_size=size, max_size=size))
        chosen.append(f"CAST({name} AS {kind}) AS {name}")
        if kind.startswith("DECIMAL"):
            frame[name] = [None if v is None else Decimal(v) for v in frame[name]]
    texts_only = {n: [None if v is None else str(v) for v in vs] for n, vs in frame.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE raw (row VARCHAR, a VARCHAR, b VARCHAR, c VARCHAR)")
            connection.executemany(
                "INSERT INTO raw VALUES (?, ?, ?, ?)", list(zip(*texts_only.values(), strict=True))
            )
            connection.execute(f"CREATE TABLE t AS SELECT {', '.join(chosen)} FROM raw")
        assert_agreement(frame, schema, f"duckdb://{path}?table=t")
