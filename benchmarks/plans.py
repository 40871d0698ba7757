"""What `plan` says of time and memory, beside what a run takes.

    python benchmarks/plans.py --mechanisms mst,aim-plus [--tables gen100] [--workload all-3way]
    python benchmarks/plans.py --table                  # what was run so far

Ten tables: seven of the papers', and generated ones of 50, 100 and 200 columns of 4 levels, a tree
of dependent columns; and `CHECKS`, by which no constant of a plan was chosen (but of `privbayes` by
`fire_aim`). `gen30x8r30000` has 30 columns of 8 levels and 30,000 rows. Each run is a process of
its own, one thread, epsilon 1, delta 1e-9; CPU seconds are those of `fit` without reading tables.
Lines of JSON in benchmarks/results/plans.jsonl. Noise is seeded: NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TABLES = (
    *("titanic_aim", "adult_aim", "adult_gem", "msnbc", "nltcs", "fire_wide", "loans_rap"),
    *("gen50", "gen100", "gen200"),
)
CHECKS = ("adult_rap", "fire_aim", "gen30x8r30000", "gen70r8000")
RESULTS = Path(__file__).resolve().parent / "results" / "plans.jsonl"


def generated(columns: int, rows: int = 5000, levels: int = 4) -> dict[str, np.ndarray]:
    """Every column but the first depends on an earlier one, in two rows of three."""
    rng = np.random.default_rng(columns)
    codes = [rng.integers(0, levels, rows)]
    for i in range(1, columns):
        parent = codes[int(rng.integers(max(0, i - 10), i))]
        codes.append(np.where(rng.random(rows) < 2 / 3, parent, rng.integers(0, levels, rows)))
    return {f"c{i:03}": code for i, code in enumerate(codes)}


def table_of(name: str) -> tuple[Any, dict[str, int]]:
    if found := re.fullmatch(r"gen(\d+)(?:x(\d+))?(?:r(\d+))?", name):
        levels = int(found[2] or 4)
        columns = generated(int(found[1]), int(found[3] or 5000), levels)
        return columns, dict.fromkeys(columns, levels)
    from common import data_folder, levels_of

    return str(data_folder() / f"{name}.parquet"), levels_of(name)


def one(table: str, mechanism: str, workload: str) -> dict[str, Any]:
    from admeasure.limits import peak
    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.sources.open import open_source
    from admeasure.verbs.fit import fit
    from admeasure.verbs.plan import plan
    from admeasure.workload import parse_workload

    data, levels = table_of(table)
    schema = Schema.coded(table, levels)
    asked = parse_workload(workload, schema.domain)
    source = open_source(data, schema)
    rows = int(source.counts([()])[0])
    started = time.process_time()
    found = plan(schema, workload=asked, epsilon=1, mechanism=mechanism, rows=rows).plan
    planning = time.process_time() - started
    started = time.process_time()
    release = fit(
        data,
        schema,
        workload=asked,
        mechanism=build(mechanism),
        epsilon=1,
        delta=1e-9,
        seed=0,
        progress=False,
    )
    taken = time.process_time() - started
    return {
        "table": table,
        "mechanism": mechanism,
        "workload": workload,
        "columns": len(levels),
        "rows": rows,
        "plan_seconds": planning,
        "seconds_said": found.seconds,
        "seconds": taken,
        "megabytes_said": found.megabytes,
        "megabytes": peak(),
        "rounds": release.facts["rounds"],
    }


def show(records: list[dict[str, Any]]) -> None:
    """The newest run of each case, and how many kept to a factor of two."""
    newest = {(r["mechanism"], r["workload"], r["table"]): r for r in records}
    print("| mechanism | table | s said | taken | factor | MB said | taken | factor |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    within = {"seconds": 0, "megabytes": 0}
    for (mechanism, _, table), r in sorted(newest.items()):
        cells = [mechanism, table]
        for what, digits in (("seconds", 1), ("megabytes", 0)):
            said, taken = r[f"{what}_said"], r[what]
            # A fifth of a second is within what starting takes.
            within[what] += 0.5 <= taken / said <= 2 or (what == "seconds" and taken < 0.2)
            cells += [f"{said:.{digits}f}", f"{taken:.{digits}f}", f"{taken / said:.2f}"]
        print(f"| {' | '.join(cells)} |")
    print(f"Within a factor of 2, of {len(newest)}: time {within['seconds']}, ", end="")
    print(f"memory {within['megabytes']}.")


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--tables", default=",".join((*TABLES, *CHECKS)))
    given.add_argument("--mechanisms", default="independent,mst,gaussian,residual,aim-plus")
    given.add_argument("--workload", default="all-2way")
    given.add_argument("--one", nargs=3)
    given.add_argument("--table", action="store_true", help="show what was run so far")
    asked = given.parse_args()
    if asked.table:
        show([json.loads(line) for line in RESULTS.read_text().splitlines()])
        return
    if asked.one:
        print(json.dumps(one(*asked.one)))
        return
    RESULTS.parent.mkdir(exist_ok=True)
    for mechanism in asked.mechanisms.split(","):
        for table in asked.tables.split(","):
            command = [sys.executable, __file__, "--one", table, mechanism, asked.workload]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{mechanism:12} {table:12} {done.stderr.strip().splitlines()[-1]}")
                continue
            found = json.loads(done.stdout)
            with RESULTS.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(
                f"{mechanism:12} {table:12} said {found['seconds_said']:8.1f} s, took "
                f"{found['seconds']:8.1f}; said {found['megabytes_said']:7.0f} MB, took "
                f"{found['megabytes']:7.0f}; planned in {found['plan_seconds']:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
