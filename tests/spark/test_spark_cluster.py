"""Counts on a cluster of two workers, each a process of its own, one of which is killed.

Rows lie in sixteen files; the expected counts are those of the in-memory source.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from admeasure.domain import canonical
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.sources.spark import open_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MASTER = "local-cluster[2,1,1024]"
SETTINGS = {"spark.executor.memory": "1024m"}

SCHEMA = Schema.coded("people", {"a": 7, "b": 30, "c": 12, "d": 2, "e": 50})
TRIPLES = [canonical(c) for c in combinations(SCHEMA.names, 3)]
ROWS, FILES = 200_000, 16


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, MemorySource]:
    """The address of some Parquet files, and the same rows in memory."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(5)
    levels = zip(SCHEMA.domain.columns, SCHEMA.domain.levels, strict=True)
    rows = {name: rng.integers(0, count, ROWS) for name, count in levels}
    for i in range(FILES):
        part = {name: values[i::FILES] for name, values in rows.items()}
        pq.write_table(pa.table(part), folder / f"part-{i:02}.parquet")
    return f"spark://{folder}?format=parquet", MemorySource(rows, SCHEMA)


def executors() -> list[int]:
    """The Java processes that run tasks: descendants of this process, and of no other."""
    found = []
    for pid in _descendants(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command:
            found.append(pid)
    return found


def _descendants(root: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{root}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [child, *_descendants(child)]
    return found


def test_two_workers_count_what_memory_counts(session: Any, table: Any) -> None:
    address, memory = table
    source = open_spark(address, SCHEMA)
    for found, true in zip(source.counts(TRIPLES), memory.counts(TRIPLES), strict=True):
        assert found.dtype == np.int64
        assert (found == true).all()
    assert len(executors()) == 2


def test_a_limit_of_rows_a_unit_holds_across_workers(session: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = {"id": rng.integers(0, 400, 3000), "x": rng.integers(0, 9, 3000)}
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet", row_group_size=500)
    schema = Schema.loads(
        '[table]\nname = "v"\n[privacy]\nunit = "person"\nunit_column = "id"\n'
        'max_rows_per_unit = 3\n[[column]]\nname = "x"\n'
        'type = "integer"\nminimum = 0\nmaximum = 8\n'
    )
    (found,) = open_spark(f"spark://{tmp_path}/visits.parquet", schema).counts([("x",)])
    (true,) = MemorySource(rows, schema).counts([("x",)])
    assert found.tolist() == true.tolist()


def test_a_worker_that_is_killed_during_the_job_changes_no_count(session: Any, table: Any) -> None:
    """The executor dies with tasks done and tasks to do: its results are lost and made again."""
    address, memory = table
    frame = session.read.parquet(address.removeprefix("spark://").partition("?")[0])

    def slowly(rows: Any) -> Any:
        time.sleep(0.5)
        yield from rows

    slow = session.createDataFrame(frame.repartition(FILES).rdd.mapPartitions(slowly), frame.schema)
    source = open_spark(slow, SCHEMA, keep=False)
    found: list[Any] = []
    job = threading.Thread(target=lambda: found.append(source.counts(TRIPLES)))
    job.start()
    tracker = session.sparkContext.statusTracker()
    victim = executors()[0]
    while not _is_half_done(tracker):
        assert job.is_alive(), "the job ended before a worker could be killed"
        time.sleep(0.05)
    os.kill(victim, signal.SIGKILL)
    job.join(timeout=300)
    assert victim not in executors()
    (counts,) = found
    for array, true in zip(counts, memory.counts(TRIPLES), strict=True):
        assert (array == true).all()


def test_codes_that_are_lost_with_a_worker_are_made_again(session: Any, table: Any) -> None:
    """Both executors hold codes when one of them dies between two counts."""
    address, memory = table
    source = open_spark(address, SCHEMA)
    source.counts([("a",)])
    holds = session.sparkContext._jsc.sc().getRDDStorageInfo()
    assert any(info.numCachedPartitions() > 1 for info in holds)
    for victim in executors()[:2]:
        os.kill(victim, signal.SIGKILL)
        while victim in executors():
            time.sleep(0.05)
        for array, true in zip(source.counts(TRIPLES), memory.counts(TRIPLES), strict=True):
            assert (array == true).all()


def _is_half_done(tracker: Any) -> bool:
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return any(s and s.numTasks >= FILES and s.numCompletedTasks >= FILES // 3 for s in stages)
