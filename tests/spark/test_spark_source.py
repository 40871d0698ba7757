"""What the Spark source promises beyond the contract, with two tasks in one process.

Expected counts are those of the in-memory source on the same values, which is tested against plain
loops elsewhere.
"""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.domain import canonical
from admeasure.errors import DataError, ResourceError, UsageError
from admeasure.schema import Schema
from admeasure.schema.check import check
from admeasure.sources.memory import MemorySource

pytestmark = pytest.mark.spark
MASTER = "local[2]"

ODD_TEXTS = ["a", "A", " a", "", "é", "e\u0301", "日本", "it's", 'q"', "two\nlines", "a\0b", "nan"]
NUMBERS = ["1", "1.0", " 3 ", "1.5", "1e0", "9" * 40, "-" + "9" * 25, "nan", "inf", "x", "", "٣"]
DAYS = ["2020-01-01", "2020-02-30", "0000-01-01", "9999-12-31", "20200101", " 2020-01-05 ", ""]
UTC = datetime.UTC
MOMENTS = [
    datetime.datetime(2020, 1, 1, 23, 30, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime.datetime(2020, 1, 2, 0, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
]
STORED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ODD_TEXTS),
    "numbers as text": (pa.string(), NUMBERS),
    "days as text": (pa.string(), DAYS),
    "byte": (pa.int8(), [-128, -1, 0, 1, 3, 127]),
    "long": (pa.int64(), [-(2**63), -1, 0, 1, 3, 10, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [0.1, 1.0, -0.0, float("inf"), float("nan"), 3.5]),
    "double": (pa.float64(), [0.1, 1.0, -0.0, 9.999999999999998, float("-inf"), float("nan")]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1"), Decimal("0.1"), Decimal("-3.0000000001")]),
    "boolean": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2020, 1, 1), datetime.date.max]),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS),
    "moment without zone": (pa.timestamp("us"), [m.replace(tzinfo=None) for m in MOMENTS]),
    "bytes": (pa.binary(), [b"a", b""]),
    "list": (pa.list_(pa.int32()), [[1], []]),
}
KINDS = [
    'type = "string"\nenum = ["a", "é", "1", "true", "2020-01-01", "it\'s"]',
    'type = "integer"\nminimum = 0\nmaximum = 9\nbins = 4',
    'type = "integer"\nminimum = 0\nmaximum = 9\nclamp = true',
    'type = "number"\nminimum = 0\nmaximum = 10\nbins = 7\nclamp = true',
    'type = "number"\nedges = [0.0, 0.1, 3.5, 10.0]',
    'type = "boolean"',
    'type = "date"\nminimum = 2019-12-01\nmaximum = 2020-03-01\nbins = 5',
]


def schema_of(*described: str, privacy: str = "") -> Schema:
    columns = [f'[[column]]\nname = "x{i}"\n{one}\n' for i, one in enumerate(described)]
    return Schema.loads(
        f'[table]\nname = "t"\n[privacy]\nunit = "person"\n{privacy}\n' + "".join(columns)
    )


@pytest.mark.parametrize("stored", STORED)
def test_odd_values_get_the_levels_and_the_refusals_they_have_in_memory(
    session: Any, tmp_path: Path, stored: str
) -> None:
    """Every kind of column over one kind of storage, lenient and strict; `row` tells rows apart."""
    from admeasure.sources.spark import open_spark
    from admeasure.sources.spark.source import find_problems

    kind, values = STORED[stored]
    values = [*values, None]
    lenient = [f"{k}\nother = true\nmissing_values = []" for k in KINDS]
    rows = f'type = "integer"\nminimum = 0\nmaximum = {len(values)}'
    schema = schema_of(*KINDS, *lenient, rows)
    last = f"x{len(KINDS) * 2}"
    table = {f"x{i}": pa.array(values, kind) for i in range(len(KINDS) * 2)}
    table = pa.table(table | {last: range(len(values))})
    pq.write_table(table, tmp_path / "t.parquet")
    expected = check(table, schema)
    assert find_problems(f"spark://{tmp_path}/t.parquet", schema) == expected
    refused = {problem.column for problem in expected}
    kept = tuple(c for c in schema.columns if c.name not in refused)
    sound = Schema(table=schema.table, privacy=schema.privacy, columns=kept)
    marginals = [canonical((last, name)) for name in sound.names if name != last]
    found = open_spark(f"spark://{tmp_path}/t.parquet", sound).counts(marginals)
    for columns, array, true in zip(
        marginals, found, MemorySource(table, sound).counts(marginals), strict=True
    ):
        assert (array == true).all(), columns


CODED = Schema.coded("toy", {"a": 5, "b": 300, "c": 40, "d": 3})


def coded_rows(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    levels = dict(zip(CODED.domain.columns, CODED.domain.levels, strict=True))
    return {name: rng.integers(0, n, count) ** 2 % n for name, n in levels.items()}


def test_views_managed_tables_and_frames_are_counted_alike(session: Any, tmp_path: Path) -> None:
    from admeasure.sources.open import open_source

    rows = coded_rows(5000)
    frame = session.createDataFrame(pa.table(rows)).repartition(5)
    frame.createOrReplaceTempView("seen")
    frame.write.mode("overwrite").saveAsTable("managed")
    frame.write.mode("overwrite").orc(f"{tmp_path}/rows.orc")
    marginals = [canonical(c) for k in (1, 2, 3) for c in combinations(CODED.names, k)]
    expected = MemorySource(rows, CODED).counts(marginals)
    for data in (frame, "spark:seen", "spark:?table=managed", f"spark://{tmp_path}/rows.orc"):
        found = open_source(data, CODED).counts(marginals)
        assert all((a == b).all() for a, b in zip(found, expected, strict=True)), data


def test_more_cells_than_rows_travel_as_pairs_and_arrive_whole(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rows = coded_rows(2000)
    source = open_spark(session.createDataFrame(pa.table(rows)).repartition(3), CODED)
    everything = canonical(CODED.names)
    assert CODED.domain.cells(everything) > 65_536  # so it is not counted as a whole array
    (found,), (true,) = (s.counts([everything]) for s in (source, MemorySource(rows, CODED)))
    assert (found == true).all()
    (pairs,) = source.sparse([everything])
    assert (pairs.dense(CODED.domain) == true).all()


def test_only_the_columns_that_are_asked_for_are_read(session: Any, tmp_path: Path) -> None:
    from admeasure.sources.spark import open_spark

    pq.write_table(pa.table(coded_rows(50)), tmp_path / "t.parquet")
    source = open_spark(f"spark://{tmp_path}/t.parquet", CODED)
    frame: Any = source._table._values(("b", "d"))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    (read,) = [line for line in plan.splitlines() if "ReadSchema" in line]
    assert "ReadSchema: struct<b:bigint,d:bigint>" in read


LIMITED = schema_of(
    'type = "integer"\nminimum = 0\nmaximum = 9',
    'type = "integer"\nminimum = 0\nmaximum = 3',
    privacy='unit_column = "id"\nmax_rows_per_unit = 2',
)


def visits(count: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(count)
    names = {"id": 60, "x0": 10, "x1": 4}
    return {name: rng.integers(0, most, count).tolist() for name, most in names.items()}


def test_without_an_order_the_rows_kept_of_a_unit_do_not_depend_on_the_layout(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    table = pa.table(visits(400))
    mixed = table.take(np.random.default_rng(1).permutation(400))
    asked = [("x0", "x1"), ("x0",), ("x1",), ()]
    first, again = (
        open_spark(session.createDataFrame(t).repartition(n), LIMITED).counts(asked)
        for t, n in ((table, 1), (mixed, 4))
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    kept = sum(min(2, n) for n in Counter(table["id"].to_pylist()).values())
    assert int(first[3]) == kept
    assert (first[0].sum(axis=1) == first[1]).all()
    assert (first[0].sum(axis=0) == first[2]).all()


def test_without_an_order_other_units_keep_their_rows_when_one_leaves(session: Any) -> None:
    """The sensitivity of every count is that of the unit's own rows, at most two."""
    from admeasure.sources.spark import open_spark

    table = pa.table(visits(300))
    without = table.filter(pa.array(np.asarray(table["id"]) != 7))
    whole, less = (
        open_spark(session.createDataFrame(t), LIMITED).counts([("x0", "x1")])[0]
        for t in (table, without)
    )
    assert (whole >= less).all()
    assert (whole - less).sum() == 2


def test_an_order_that_is_given_says_which_rows_are_kept(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rows = visits(200)
    rows["when"] = np.random.default_rng(0).permutation(200).tolist()
    seen: Counter[int] = Counter()
    expected = np.zeros(10, np.int64)
    for _, unit, value in sorted(zip(rows["when"], rows["id"], rows["x0"], strict=True)):
        seen[unit] += 1
        expected[value] += seen[unit] <= 2
    frame = session.createDataFrame(pa.table(rows)).repartition(3)
    (found,) = open_spark(frame, LIMITED, order_by=["when"]).counts([("x0",)])
    assert found.tolist() == expected.tolist()


def test_a_refused_row_beyond_the_limit_of_its_unit_is_refused(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rows = pa.table({"id": [1] * 9, "x0": [*[0] * 8, 77], "x1": [0] * 9})
    with pytest.raises(DataError, match="'x0' has a value outside"):
        open_spark(session.createDataFrame(rows), LIMITED, order_by=["x0"])


def test_a_unit_that_is_no_number_is_no_unit(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rows = pa.table({"id": [1.0, float("nan")], "x0": [0, 0], "x1": [0, 0]})
    with pytest.raises(DataError, match="'id' has rows without a unit"):
        open_spark(session.createDataFrame(rows), LIMITED)


def test_broken_files_are_refused_without_a_word_of_what_they_hold(
    session: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from admeasure.sources.spark import open_spark

    described = schema_of('type = "string"\nenum = ["a"]\nother = true', 'type = "boolean"')
    for name, content in {
        "more.csv": b"x0,x1\na,1\nsecret,1,secret\n",
        "fewer.csv": b"x0,x1\na,1\nsecret\n",
        "torn.parquet": b"PAR1secret",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as caught:
            open_spark(f"spark://{tmp_path}/{name}", described)
        assert "cannot be read" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    said = capfd.readouterr()
    assert "secret" not in said.out + said.err


def test_what_is_not_there_is_an_error_of_use(session: Any, tmp_path: Path) -> None:
    from admeasure.sources.spark import open_spark

    for address in (f"spark://{tmp_path}/none.parquet", "spark:no_such_table"):
        with pytest.raises(UsageError, match="finds no such table"):
            open_spark(address, CODED)
    with pytest.raises(UsageError, match="another master"):
        open_spark("spark:people?master=local[7]", CODED)
    with pytest.raises(UsageError, match="is no table of Spark"):
        open_spark(3, CODED)


def test_progress_goes_up_to_one(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    seen: list[float] = []
    frame = session.createDataFrame(pa.table(coded_rows(50)))
    open_spark(frame, CODED, progress=seen.append).counts([("a",)])
    assert seen[-1] == 1.0
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_marginals_beyond_memory_are_refused_before_a_job_runs(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    names = [f"c{i}" for i in range(4)]
    schema = Schema.coded("wide", dict.fromkeys(names, 5000))
    source = open_spark(session.createDataFrame(pa.table({n: [0] for n in names})), schema)
    with pytest.raises(ResourceError):
        source.counts([tuple(names)])
