"""What it costs to count marginals inside PostgreSQL.

    python benchmarks/warehouse_cost.py [--rows 1000000] [--marginals 50,455] [--joints 16384]

A server is started as in tests/warehouse, with the table of benchmarks/counting.py: 15 columns,
five of whole numbers that are binned and ten of texts that are matched with an enum. Each line is
one step: seconds on the wall, processor seconds of the server (all its processes) and the client.
Server and client share the machine; where it is busy, processor seconds are what to compare.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.domain import canonical
from admeasure.sources.warehouse import source as warehouse
from counting import BIN_WIDTH, BINNED, LEVELS, schema

CHUNK = 20_000
TICKS = os.sysconf("SC_CLK_TCK")


def start() -> Any:
    path = Path(__file__).resolve().parents[1] / "tests" / "warehouse" / "server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["postgres_server"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.running()


def fill(server: Any, rows: int) -> int:
    """Make the table; returns its size in bytes."""
    rng = np.random.default_rng(0)
    types = ", ".join(f"c{i:02} {'integer' if i in BINNED else 'text'}" for i in range(len(LEVELS)))
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE people ({types})")
        with connection.cursor().copy("COPY people FROM STDIN") as copy:
            for first in range(0, rows, CHUNK):
                size = min(CHUNK, rows - first)
                columns = [_column(i, levels, size, rng) for i, levels in enumerate(LEVELS)]
                lines = map("\t".join, zip(*columns, strict=True))
                copy.write("\n".join(lines) + "\n")
        connection.execute("ANALYZE people")
        return connection.execute("SELECT pg_table_size('people')").fetchone()[0]


def _column(i: int, levels: int, size: int, rng: np.random.Generator) -> list[str]:
    codes = (
        np.minimum(rng.geometric(4 / levels, size) - 1, levels - 1)
        if levels > 4
        else (rng.integers(0, levels, size))
    )
    if i in BINNED:
        return [str(v) for v in codes * BIN_WIDTH + rng.integers(0, BIN_WIDTH, size)]
    return [f"category {code}" for code in codes]


class Clock:
    """Processor seconds of a server, by way of its backends' parent."""

    def __init__(self, server: Any) -> None:
        with server.connect() as connection:
            self._parent = _stat(connection.info.backend_pid)[1]

    def seconds(self) -> float:
        total = 0.0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = _stat(int(folder.name))
            except (OSError, ValueError, IndexError):
                continue
            if int(folder.name) == self._parent:
                total += sum(fields[11:15])  # its own, and of those that have ended
            elif fields[1] == self._parent:
                total += sum(fields[11:13])
        return total / TICKS


def _stat(process: int) -> list[int]:
    """The fields of /proc/…/stat after the name and the state; the parent is the second."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, fields[1:])]


@contextmanager
def measured(clock: Clock, step: str, **facts: Any) -> Iterator[None]:
    before = time.perf_counter(), clock.seconds(), time.process_time()
    yield
    after = time.perf_counter(), clock.seconds(), time.process_time()
    wall, server, client = (round(b - a, 2) for a, b in zip(before, after, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = {"wall": wall, "server_cpu": server, "client_cpu": client, "client_megabytes": peak}
    print(json.dumps({"step": step, **facts, **found}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--marginals", default="50,455")
    parser.add_argument("--joints", default=str(warehouse.JOINT_CELLS))
    asked = parser.parse_args()
    server, described = start(), schema()
    clock = Clock(server)
    stored = fill(server, asked.rows)
    triples = [canonical(t) for t in itertools.combinations(described.names, 3)]
    shuffled = np.random.default_rng(1).permutation(len(triples))
    facts = {"rows": asked.rows, "stored_megabytes": stored // 2**20}
    with measured(clock, "open", **facts):
        source = warehouse.open_warehouse(server.url("people"), described)
    for cells in map(int, asked.joints.split(",")):
        warehouse.JOINT_CELLS = cells
        for count in map(int, asked.marginals.split(",")):
            chosen = [triples[i] for i in shuffled[:count]]
            with measured(clock, "count", joint_cells=cells, marginals=len(chosen), **facts):
                source.counts(chosen)
    source.close()


if __name__ == "__main__":
    main()
