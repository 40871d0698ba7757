"""How fast all three-way marginals of a file are counted, against two plain ways of doing it.

    python benchmarks/counting.py [--rows 1000000] [--repeats 5]

The table is generated: 15 columns with the level counts of the Adult table as AIM cuts it, five of
whole numbers that are binned and ten of texts that are matched with an enum, in a Parquet file.

- `file`      open the file, which encodes and validates every row, and count all 455 marginals
- `kept`      count them again from the codes that are kept
- `streamed`  the same with no room for codes: two scans, counted in the second
- `bincount`  plain `numpy.bincount` in blocks of 65,536 rows, on codes made beforehand
- `group by`  one GROUP BY a marginal in DuckDB, on a table of codes made beforehand

`bincount` and `group by` are spared all encoding. Each way is timed in turn, in one process, and
medians are compared; peak memory is that of a process of its own. The targets are ratios, since
times depend on the machine: `file` within 1.5 times `bincount`, and under half of `group by`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.schema import Schema
from admeasure.sources.files.source import DuckDBSource

LEVELS = (32, 9, 32, 16, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
BINNED = (0, 2, 10, 11, 12)
BIN_WIDTH = 100
BLOCK = 65_536
WAYS = ("file", "kept", "streamed", "bincount", "group by")

Codes = dict[str, np.ndarray]
Counts = list[np.ndarray]


def schema() -> Schema:
    described = []
    for i, levels in enumerate(LEVELS):
        column: dict = {"name": f"c{i:02}"}
        if i in BINNED:
            column |= {"type": "integer", "minimum": 0, "maximum": levels * BIN_WIDTH - 1}
            column |= {"bins": levels}
        else:
            column |= {"type": "string", "enum": [f"category {k}" for k in range(levels)]}
        described.append(column)
    return Schema.model_validate(
        {"table": {"name": "generated"}, "privacy": {"unit": "person"}, "column": described}
    )


def generate(path: Path, rows: int) -> Codes:
    """Skewed, independent columns. Returns the codes; writes raw values."""
    rng = np.random.default_rng(0)
    codes, raw, chosen = {}, {}, []
    for i, levels in enumerate(LEVELS):
        name = f"c{i:02}"
        code = rng.choice(levels, size=rows, p=rng.dirichlet(np.full(levels, 0.7)))
        codes[name] = code.astype(np.uint8)
        raw[name] = code * BIN_WIDTH + rng.integers(0, BIN_WIDTH, rows) if i in BINNED else code
        chosen.append(name if i in BINNED else f"'category ' || {name} AS {name}")
    with duckdb.connect() as connection:
        connection.register("raw", raw)
        connection.execute(f"COPY (SELECT {', '.join(chosen)} FROM raw) TO '{path}'")
    return codes


def plain_bincount(codes: Codes, domain: Domain, marginals: list[Columns]) -> Counts:
    """The loop one would write: columns widened once a block, the pair's code shared."""
    counts = [np.zeros(domain.cells(columns), np.int64) for columns in marginals]
    for start in range(0, len(next(iter(codes.values()))), BLOCK):
        block = {c: codes[c][start : start + BLOCK].astype(np.intp) for c in codes}
        last, pair = None, np.zeros(0, np.intp)
        for count, (a, b, c) in zip(counts, marginals, strict=True):
            if last != (a, b):
                last, pair = (a, b), block[a] * domain[b] + block[b]
            count += np.bincount(pair * domain[c] + block[c], minlength=count.size)
    return [c.reshape(domain.shape(m)) for c, m in zip(counts, marginals, strict=True)]


def group_by(
    connection: duckdb.DuckDBPyConnection, domain: Domain, marginals: list[Columns]
) -> Counts:
    counts = []
    for columns in marginals:
        listed = ", ".join(columns)
        query = f"SELECT {listed}, count(*) AS n FROM codes GROUP BY {listed}"
        found = connection.execute(query).fetchnumpy()
        array = np.zeros(domain.shape(columns), np.int64)
        array[tuple(found[c] for c in columns)] = found["n"]
        counts.append(array)
    return counts


def ways(path: Path, codes: Codes, only: str | None = None) -> dict[str, Callable[[], Counts]]:
    described = schema()
    domain = described.domain
    marginals = [canonical(c) for c in itertools.combinations(described.names, 3)]
    kept = DuckDBSource(path, described) if only in (None, "kept") else None
    connection = duckdb.connect()
    if only in (None, "group by"):
        connection.register("arrays", codes)
        connection.execute("CREATE TABLE codes AS SELECT * FROM arrays")

    def streamed() -> Counts:
        return DuckDBSource(path, described, memory_megabytes=0).counts(marginals)

    return {
        "file": lambda: DuckDBSource(path, described).counts(marginals),
        "kept": lambda: kept.counts(marginals) if kept else [],
        "streamed": streamed,
        "bincount": lambda: plain_bincount(codes, domain, marginals),
        "group by": lambda: group_by(connection, domain, marginals),
    }


def peak_megabytes() -> float:
    """Of this program alone: what getrusage says may be the peak of the parent before it."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_memory(path: Path, stored: Path, way: str) -> dict[str, float]:
    """In a process of its own: what is there before the first row, and the peak."""
    command = [sys.executable, __file__, "--memory", way, str(path), str(stored)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def memory_of(way: str, path: Path, stored: Path) -> None:
    needs_codes = way in ("bincount", "group by")
    before = peak_megabytes()
    codes = dict(np.load(stored)) if needs_codes else {}
    ways(path, codes, only=way)[way]()
    print(json.dumps({"before": before, "peak": peak_megabytes()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        way, path, stored = options.memory
        memory_of(way, Path(path), Path(stored))
        return
    with tempfile.TemporaryDirectory() as folder:
        path, stored = Path(folder) / "table.parquet", Path(folder) / "codes.npz"
        codes = generate(path, options.rows)
        np.savez(stored, **codes)  # pyright: ignore[reportArgumentType]
        memory = {way: measure_memory(path, stored, way) for way in WAYS}
        candidates = ways(path, codes)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        expected = candidates["bincount"]()
        for _ in range(options.repeats):
            for way in WAYS:
                start = time.perf_counter()
                found = candidates[way]()
                times[way].append(time.perf_counter() - start)
                assert all((a == b).all() for a, b in zip(found, expected, strict=True)), way
    report(options.rows, options.repeats, times, memory)


def report(rows: int, repeats: int, times: dict, memory: dict) -> None:
    print(f"{rows:,} generated rows, 455 three-way marginals, median of {repeats}")
    print(f"{'way':<10}{'seconds':>9}{'least':>8}{'most':>8}{'peak MB':>9}{'added MB':>10}")
    for way, seconds in times.items():
        peak, before = memory[way]["peak"], memory[way]["before"]
        print(
            f"{way:<10}{statistics.median(seconds):>9.3f}{min(seconds):>8.3f}{max(seconds):>8.3f}"
            f"{peak:>9.0f}{peak - before:>10.0f}"
        )
    for other, target in (("bincount", 1.5), ("group by", 0.5)):
        ratio = statistics.median(a / b for a, b in zip(times["file"], times[other], strict=True))
        verdict = "holds" if ratio <= target else "MISSED"
        print(f"file / {other}: {ratio:.2f} (target {target}: {verdict})")


if __name__ == "__main__":
    main()
