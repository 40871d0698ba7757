"""What stays in the executors between counts, and when it goes.

Expected counts are those of the in-memory source on the same rows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from admeasure.domain import canonical
from admeasure.errors import DataError
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource

pytestmark = pytest.mark.spark
MASTER = "local[2]"

SCHEMA = Schema.coded("toy", {"a": 5, "b": 300, "c": 40, "d": 3})
MARGINALS = [canonical(c) for k in range(5) for c in combinations(SCHEMA.names, k)]
LIMITED = Schema.loads(
    '[table]\nname = "v"\n[privacy]\nunit = "person"\nunit_column = "id"\nmax_rows_per_unit = 2\n'
    + "".join(
        f'[[column]]\nname = "{name}"\ntype = "integer"\nminimum = 0\nmaximum = {most}\n'
        for name, most in (("x", 9), ("y", 400))
    )
)


def rows_of(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    return {c.name: rng.integers(0, c.levels, count) for c in SCHEMA.columns}


def kept(session: Any) -> int:
    """How many frames the executors hold, in memory or on disk."""
    return session.sparkContext._jsc.getPersistentRDDs().size()


def comes_true(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def test_kept_or_not_counts_are_those_of_memory(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rows = rows_of(70_000)  # more than one block of a task
    expected = MemorySource(rows, SCHEMA)
    frame = session.createDataFrame(pa.table(rows)).coalesce(1)
    for keep in (True, False):
        source = open_spark(frame, SCHEMA, keep=keep)
        for _ in range(2):
            pairs = zip(source.counts(MARGINALS), expected.counts(MARGINALS), strict=True)
            assert all((found == true).all() for found, true in pairs)
        (found,) = source.sparse([("a", "d")])
        assert (found.dense(SCHEMA.domain) == expected.counts([("a", "d")])[0]).all()


def test_kept_or_not_the_same_rows_of_a_unit_are_counted(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    rng = np.random.default_rng(3)
    levels = {"id": 90, "x": 10, "y": 401}
    table = pa.table({name: rng.integers(0, most, 400) for name, most in levels.items()})
    asked = [("x", "y"), ("x",), ("y",), ()]
    first, again = (
        open_spark(session.createDataFrame(table).repartition(3), LIMITED, keep=keep).counts(asked)
        for keep in (True, False)
    )
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    _, sizes = np.unique(table["id"], return_counts=True)
    assert int(first[3]) == np.minimum(sizes, 2).sum()


def growing(session: Any, rows: dict[str, np.ndarray], flag: Path) -> Any:
    """A frame whose rows are there twice once the flag is."""
    frame = session.createDataFrame(pa.table(rows)).coalesce(1)

    def read(stored: Any) -> Any:
        for row in stored:
            yield row
            if flag.exists():
                yield row

    return session.createDataFrame(frame.rdd.mapPartitions(read), frame.schema)


def test_counts_of_kept_codes_are_of_the_table_that_was_opened(
    session: Any, tmp_path: Path
) -> None:
    from admeasure.sources.spark import open_spark

    rows, flag = rows_of(50), tmp_path / "grown"
    source = open_spark(growing(session, rows, flag), SCHEMA)
    flag.touch()
    pairs = zip(source.counts(MARGINALS), MemorySource(rows, SCHEMA).counts(MARGINALS), strict=True)
    assert all((found == true).all() for found, true in pairs)


def test_a_change_in_the_number_of_rows_is_an_error_once_codes_are_made_again(
    session: Any, tmp_path: Path
) -> None:
    from admeasure.sources.spark import open_spark

    flag = tmp_path / "grown"
    frame = growing(session, rows_of(50), flag)
    lost, closed, never = (open_spark(frame, SCHEMA, keep=keep) for keep in (True, True, False))
    flag.touch()
    closed.close()
    session.catalog.clearCache()
    for source in (lost, closed, never):
        with pytest.raises(DataError, match="The DataFrame changed while it was used"):
            source.counts([("a",)])


def test_codes_leave_the_executors_with_their_source(session: Any) -> None:
    from admeasure.sources.spark import open_spark
    from admeasure.sources.spark.source import find_problems

    rows = rows_of(50)
    frame = session.createDataFrame(pa.table(rows))
    session.catalog.clearCache()
    assert comes_true(lambda: kept(session) == 0)
    first, second = open_spark(frame, SCHEMA), open_spark(frame, SCHEMA)
    assert kept(session) == 2
    first.close()
    assert comes_true(lambda: kept(session) == 1)
    assert (first.counts([("a",)])[0] == MemorySource(rows, SCHEMA).counts([("a",)])[0]).all()
    del second
    gc.collect()
    assert comes_true(lambda: kept(session) == 0)
    third = open_spark(frame, SCHEMA, keep=False)
    third.counts([("a",)])
    assert find_problems(frame, SCHEMA) == []
    assert kept(session) == 0


def test_an_address_can_say_that_nothing_is_to_be_kept(session: Any) -> None:
    from admeasure.sources.open import open_source

    rows = rows_of(50)
    session.createDataFrame(pa.table(rows)).createOrReplaceTempView("unkept")
    session.catalog.clearCache()
    assert comes_true(lambda: kept(session) == 0)
    source = open_source("spark:unkept?keep=no", SCHEMA)
    assert (source.counts([("a",)])[0] == MemorySource(rows, SCHEMA).counts([("a",)])[0]).all()
    assert kept(session) == 0
    kept_too = open_source("spark:unkept?keep=yes", SCHEMA)
    assert kept(session) == 1
    del kept_too


def test_nothing_stays_of_a_table_that_is_refused(session: Any) -> None:
    from admeasure.sources.spark import open_spark

    session.catalog.clearCache()
    assert comes_true(lambda: kept(session) == 0)
    table = pa.table(rows_of(50) | {"a": np.full(50, 77)})
    with pytest.raises(DataError, match="'a' has a value outside"):
        open_spark(session.createDataFrame(table), SCHEMA)
    assert comes_true(lambda: kept(session) == 0)
