"""Which rows of a unit Spark counts is a function of that unit's own rows alone.

Random tables in partitions of every kind, with and without an order that leaves ties, counted once
and again; one unit is removed, and no count moves by more than the schema declares. DataFrames and
views whose rows may not be the same at every scan are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.errors import DataError
from admeasure.sources.kind import NotFixed
from admeasure.sources.spark import open_spark
from admeasure.sources.spark.plan import check_text
from admeasure.sources.spark.source import find_problems
from visits import (
    MARGINALS,
    Row,
    check_kept,
    check_moved,
    check_same,
    check_sums,
    counts,
    random_rows,
    schema_of,
)

pytestmark = pytest.mark.spark
MASTER = "local[2]"
SETTINGS = {"spark.sql.adaptive.enabled": "true"}
SIZES = (2, 4, 5)
"""Of a row: a day, and the columns a and b."""


def frame_of(session: Any, rows: list[Row], kind: str = "string") -> Any:
    names = ("id", "day", "a", "b")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    frame = session.createDataFrame(pa.table(columns))
    return frame.withColumn("id", frame["id"].cast(kind))


def day_of(row: Row) -> int:
    return row[1]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "as given": lambda f: f,
    "repartition(8)": lambda f: f.repartition(8),
    "repartition by a column": lambda f: f.repartition(5, "b"),
    "coalesce(1)": lambda f: f.coalesce(1),
    "sorted": lambda f: f.orderBy("b", "a"),
    "backwards": lambda f: f.orderBy(f["b"].desc()).repartition(3),
    "union": lambda f: f.where("a < 2").unionByName(f.where("a >= 2").repartition(4)),
    "cached": lambda f: f.repartition(3).cache(),
}


@pytest.mark.parametrize("by_day", [False, True], ids=["by the hash", "by a day with ties"])
def test_no_layout_changes_which_rows_of_a_unit_are_counted_and_no_unit_those_of_another(
    session: Any, by_day: bool, times: Any, record_property: Any
) -> None:
    order = ["day"] if by_day else []
    tables = times(1, 12)
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        most, rows = int(rng.integers(1, 4)), random_rows(rng, 60, *SIZES)
        gone = rows[int(rng.integers(len(rows)))][0]
        first = day_of if by_day else lambda row: 0
        layouts = list(LAYOUTS.values())
        for layout in layouts if tables > 1 else layouts[1::5]:
            keep = bool(rng.integers(2))
            source = open_spark(
                layout(frame_of(session, rows)), schema_of(most), order_by=order, keep=keep
            )
            found = source.counts(MARGINALS)
            source.close()
            check_same(found, counts(source))  # codes are made anew, as after a lost executor
            check_kept(found, rows, most, schema_of(most), first)
        rest = [row for row in rows if row[0] != gone]
        source = open_spark(frame_of(session, rest).repartition(8), schema_of(most), order_by=order)
        check_moved(found, source.counts(MARGINALS), most)
        source.close()
    record_property("audit: units: random tables of Spark", tables)


def test_of_many_people_with_two_visits_on_one_day_nobody_else_moves(session: Any) -> None:
    """The attack that showed it: 71 counts moved with one person."""
    rows = [(f"p{i}", 1, i % 4, (i + j) % 5) for i in range(2000) for j in range(2)]
    schema = schema_of(1)
    found = []
    for given in (rows, rows[2:]):
        frame = frame_of(session, given).repartition(8)
        source = open_spark(frame, schema, order_by=["day"])
        found.append(source.counts([("a", "b")])[0])
        source.close()
    assert np.abs(found[0] - found[1]).sum() <= 1


REFUSED = {
    "sample": "SELECT * FROM visits TABLESAMPLE (50 PERCENT)",
    "limit": "SELECT * FROM visits LIMIT 9",
    "ordered limit": "SELECT * FROM visits ORDER BY b LIMIT 9",
    "offset": "SELECT * FROM visits ORDER BY b OFFSET 2",
    "random": "SELECT * FROM visits WHERE rand() < 0.5",
    "seeded random": "SELECT * FROM visits WHERE rand(7) < 0.5",
    "uuid": "SELECT uuid() AS id, a, b FROM visits",
    "place": "SELECT id, a, CAST(monotonically_increasing_id() % 5 AS INT) AS b FROM visits",
    "partition": "SELECT id, a, spark_partition_id() AS b FROM visits",
    "file": "SELECT id, a, length(input_file_name()) AS b FROM visits",
    "clock": "SELECT id, a, b FROM visits WHERE current_timestamp() > TIMESTAMP'2020-01-01'",
    "date": "SELECT id, a, b FROM visits WHERE current_date() > DATE'2020-01-01'",
    "now": "SELECT id, a, b FROM visits WHERE now() > TIMESTAMP'2020-01-01'",
    "user": "SELECT id, a, b FROM visits WHERE current_user() = 'ann'",
    "first": "SELECT id, first(a) AS a, max(b) AS b FROM visits GROUP BY id",
    "any value": "SELECT id, any_value(a) AS a, max(b) AS b FROM visits GROUP BY id",
    "collected": "SELECT id, collect_list(a)[0] AS a, max(b) AS b FROM visits GROUP BY id",
    "sum of floats": "SELECT id, a, CAST(sum(b / 3) AS INT) AS b FROM visits GROUP BY id, a",
    "window": "SELECT id, a, row_number() OVER (ORDER BY day) % 5 AS b FROM visits",
    "one value of many": "SELECT id, a, (SELECT max(b) FROM visits) AS b FROM visits",
    "below a union": "SELECT * FROM visits UNION ALL (SELECT * FROM visits LIMIT 3)",
    "in a subquery": "SELECT * FROM visits WHERE id IN (SELECT id FROM visits WHERE rand() < 0.5)",
    "in a common table": "WITH v AS (SELECT * FROM visits LIMIT 3) SELECT * FROM v",
    "a view below": "SELECT * FROM limited",
    "units of two types": "SELECT id, a, b FROM visits UNION ALL "
    "SELECT CAST(1.5 AS DOUBLE), a, b FROM visits",
}
ALLOWED = {
    "distinct": "SELECT DISTINCT id, a, b FROM visits",
    "union": "SELECT id, a, b FROM visits WHERE b < 3 UNION SELECT id, a, b FROM visits",
    "group by": "SELECT id, a, max(b) AS b, count(*) AS n FROM visits GROUP BY id, a",
    "join": "SELECT v.id, v.a, w.b FROM visits v JOIN visits w ON v.id = w.id AND v.day = w.day",
    "semi join": "SELECT * FROM visits WHERE id IN (SELECT id FROM visits WHERE b = 1)",
    "case": "SELECT lower(id) AS id, CASE WHEN a > 2 THEN 1 ELSE a END AS a, b FROM visits",
    "texts by choice": "SELECT CAST(day AS STRING) AS id, a, b FROM visits UNION ALL "
    "SELECT id, a, b FROM visits",
}


@pytest.fixture(scope="module")
def views(session: Any) -> Any:
    rows = random_rows(np.random.default_rng(0), 20, *SIZES)
    frame_of(session, rows).createOrReplaceTempView("visits")
    session.sql("CREATE OR REPLACE TEMP VIEW limited AS SELECT * FROM visits LIMIT 3")
    return session


@pytest.mark.parametrize("what", REFUSED)
def test_rows_that_may_not_be_the_same_at_every_scan_are_refused(views: Any, what: str) -> None:
    views.sql(f"CREATE OR REPLACE TEMP VIEW asked AS {REFUSED[what]}")
    for data in (views.sql(REFUSED[what]), "spark:asked"):
        for call in (open_spark, find_problems):
            with pytest.raises(DataError, match="Write it into a table"):
                call(data, schema_of(1))


@pytest.mark.parametrize("what", ALLOWED)
def test_rows_that_are_a_function_of_the_stored_ones_are_read(views: Any, what: str) -> None:
    source = open_spark(views.sql(ALLOWED[what]), schema_of(2), keep=False)
    check_sums(counts(source))


def test_what_pythons_functions_make_of_a_frame_is_refused(views: Any) -> None:
    from pyspark.sql import functions as F

    frame = views.table("visits")
    asked = {
        "sampled": frame.sample(0.5, seed=1),
        "duplicates": frame.dropDuplicates(["id"]),
        "partitions of pandas": frame.mapInPandas(lambda parts: parts, frame.schema),
        "chance": frame.withColumn("b", (F.rand() * 4).cast("int")),
        "split": frame.randomSplit([0.5, 0.5], seed=1)[0],
    }
    for one in asked.values():
        with pytest.raises(DataError, match="Write it into a table"):
            open_spark(one, schema_of(1))
    for order in (F.rand(), F.monotonically_increasing_id(), F.current_timestamp()):
        with pytest.raises(DataError, match="as it stands"):
            open_spark(frame, schema_of(1), order_by=[order])


def explained(frame: Any) -> str:
    """A plan as Spark Connect shows it."""
    execution = frame._jdf.queryExecution()
    return frame.sparkSession._jvm.PythonSQLUtils.explainString(execution, "extended")


# To explain a plan of constants is to run it, and that one fails.
@pytest.mark.parametrize("what", [what for what in REFUSED if what != "units of two types"])
def test_a_plan_that_is_known_by_its_text_alone_is_refused_too(views: Any, what: str) -> None:
    with pytest.raises(NotFixed):
        check_text(explained(views.sql(REFUSED[what])))


def test_a_plain_table_is_read_by_the_text_of_its_plan(views: Any, tmp_path: Path) -> None:
    wide = {f"c{i}": [1, 2] for i in range(60)}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    for frame in (
        views.table("visits"),
        views.read.parquet(str(tmp_path / "wide.parquet")),
        views.table("visits").where("a > 1").select("id", "a", "b").repartition(3),
    ):
        check_text(explained(frame))


@pytest.mark.parametrize(
    "kinds",
    [
        (pa.int64(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.float64(), pa.int32()),
        (pa.string(), pa.int64()),
        (pa.string(), pa.float64()),
        (pa.string(), pa.timestamp("us")),
    ],
    ids=str,
)
def test_files_that_store_units_in_different_types_are_refused(
    session: Any, kinds: tuple, tmp_path: Path
) -> None:
    """Whichever of them Spark takes the types from."""
    for number, swapped in enumerate((kinds, kinds[::-1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for part, kind in enumerate(swapped):
            unit = pa.array([1, 2], pa.int64()).cast(kind)
            table = pa.table({"id": unit, "a": [1, 2], "b": [0, 1]})
            pq.write_table(table, folder / f"part-{part}.parquet")
        with pytest.raises(DataError, match="different types"):
            open_spark(f"spark://{folder}?format=parquet", schema_of(1))


@pytest.mark.parametrize(
    ("kind", "unit", "sound"),
    [
        ("double", "1.5", False),
        ("double", "9007199254740992", False),
        ("double", "-1e300", False),
        ("double", "double('inf')", False),
        ("float", "16777216", False),
        ("float", "16777215", True),
        ("double", "9007199254740991", True),
        ("double", "-0.0", True),
    ],
)
def test_floats_name_units_only_where_they_are_exact(
    session: Any, kind: str, unit: str, sound: bool
) -> None:
    frame = session.sql(f"SELECT CAST({unit} AS {kind}) AS id, 1 AS a, 2 AS b")
    if sound:
        assert int(open_spark(frame, schema_of(1)).counts([()])[0]) == 1
        return
    with pytest.raises(DataError, match="cannot name units exactly"):
        open_spark(frame, schema_of(1))


def test_zero_is_one_unit_whatever_its_sign(session: Any) -> None:
    frame = session.sql("SELECT id, 1 AS a, 2 AS b FROM VALUES (0.0D), (-0.0D) AS t(id)")
    assert int(open_spark(frame, schema_of(1)).counts([()])[0]) == 1


def test_an_error_of_a_view_shows_no_value(session: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Pyspark writes the text of some errors to its own log, with the values in it."""
    frame = session.createDataFrame(pa.table({"id": ["Canary-4711"], "a": [1]}))
    frame.createOrReplaceTempView("texts")
    failing = session.sql("SELECT 'p' AS id, a, CAST(id AS INT) AS b FROM texts")
    with pytest.raises(DataError, match="cannot be read"):
        open_spark(failing, schema_of(1))
    said = capfd.readouterr()
    assert "Canary" not in said.out + said.err
