"""What a row costs in Spark, against DuckDB on the same cores.

    python benchmarks/spark_cost.py [--rows 1000000 10000000] [--cores 2]

The table is that of benchmarks/counting.py: 15 generated columns in one Parquet file, five of whole
numbers that are binned and ten of texts. Counted are all 455 three-way marginals.

- `open`   read, encode and validate every row
- `count`  count all marginals, in one scan
- `again`  the same once more

`spark` and `duckdb` keep the codes of the rows where they encode them first, as they do by default:
Spark in its executors when it opens a table, DuckDB in memory when it counts. `spark, not kept` and
`duckdb, not kept` read and encode the rows again for each count. Spark runs in
local-cluster mode, one executor of one core for each core, so that rows and counts pass through
real processes, sockets and shuffle files. Its session is started, and warmed up on the first table,
before.

CPU seconds are those of all processes taken together (the session's Java and Python processes among
them) and hardly depend on what else the machine does; wall seconds do. The cost a row is the slope
between the first and the last size, which leaves out what a job costs at any size. Target: `open`
and `count` together within 3 times of DuckDB's. Counts of the two are compared cell by cell.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.domain import canonical
from admeasure.sources import Source
from admeasure.sources.files.source import DuckDBSource
from counting import generate, schema

TICKS = os.sysconf("SC_CLK_TCK")
SCHEMA = schema()
TRIPLES = [canonical(c) for c in itertools.combinations(SCHEMA.names, 3)]


def cpu_seconds() -> float:
    """Of this process and all that descend from it, ended ones too."""
    return sum(_ticks(pid) for pid in _tree(os.getpid())) / TICKS


def _tree(root: int) -> Iterator[int]:
    yield root
    for task in Path(f"/proc/{root}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))  # utime, stime, and those of children waited for


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    found = work()
    taken = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    return found, {name: round(seconds, 3) for name, seconds in taken.items()}


def measured(make: Callable[[], Source]) -> tuple[list[np.ndarray], dict[str, Any]]:
    source, opened = timed(make)
    counts, counted = timed(lambda: source.counts(TRIPLES))
    _, again = timed(lambda: source.counts(TRIPLES))
    return counts, {"open": opened, "count": counted, "again": again}


def session(cores: int, folder: Path) -> Any:
    import pyspark
    from pyspark.sql import SparkSession

    home = folder / "home"  # the workers of a local cluster write into Spark's own folder
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local-cluster[{cores},1,1536]")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "1536m",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def spark(path: Path, *, keep: bool) -> Source:
    from admeasure.sources.spark import open_spark

    return open_spark(f"spark://{path}", SCHEMA, keep=keep)


def slope(found: dict[int, dict[str, Any]], way: str, step: str, what: str) -> float:
    """Nanoseconds a row of one step, or of several joined by `+`."""
    first, last = min(found), max(found)
    taken = {n: sum(found[n][way][one][what] for one in step.split("+")) for n in (first, last)}
    if first == last:
        return taken[first] / first * 1e9
    return (taken[last] - taken[first]) / (last - first) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for rows in given.rows:
            generate(folder / f"{rows}.parquet", rows)
        started = timed(lambda: session(given.cores, folder))
        print(f"Spark's session started: {started[1]}")
        for keep in (True, False):
            measured(lambda keep=keep: spark(folder / f"{given.rows[0]}.parquet", keep=keep))
        for rows in given.rows:
            path = folder / f"{rows}.parquet"
            ways: dict[str, Callable[[], Source]] = {
                "duckdb": lambda path=path: DuckDBSource(path, SCHEMA),
                "spark": lambda path=path: spark(path, keep=True),
                "duckdb, not kept": lambda path=path: DuckDBSource(
                    path, SCHEMA, memory_megabytes=0
                ),
                "spark, not kept": lambda path=path: spark(path, keep=False),
            }
            counts, found[rows] = {}, {}
            for way, make in ways.items():
                counts[way], found[rows][way] = measured(make)
                print(f"{rows:>12,} {way:<16} {json.dumps(found[rows][way])}", flush=True)
            for some in counts.values():
                assert all((a == b).all() for a, b in zip(some, counts["duckdb"], strict=True))
        started[0].stop()
    steps = ("open", "count", "open+count", "again")
    for kept, what, step in itertools.product(("", ", not kept"), ("cpu", "wall"), steps):
        ours, theirs = (slope(found, way + kept, step, what) for way in ("spark", "duckdb"))
        print(f"{step + kept:<21} {what:<5} ns a row: Spark {ours:,.0f}", end="")
        print(f", DuckDB {theirs:,.0f}, ratio {ours / theirs:.2f}")
    if given.json is not None:
        given.json.write_text(json.dumps({"cores": given.cores, "sizes": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
