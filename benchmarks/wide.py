"""Wide tables: time, memory and error of mechanisms on 50 to 500 columns.

    python benchmarks/wide.py --tables tree100,tree200 --rows 5000,100000 --seeds 100:103
    python benchmarks/wide.py --tables fire_wide,loans_rap --epsilons 0.3,1,3 \\
        --mechanisms aim-plus,aim,mst,privbayes,independent,gem --seeds 100:105
    python benchmarks/wide.py --table                   # what was run so far
    python benchmarks/wide.py --steps tree50,tree100,tree200,tree500

Tables with a known dependence structure are generated. `treeD` has D columns of 4 levels: the first
is free, each later one depends on one earlier column, every fifth on two, by random conditional
tables. `denseD` has D columns of 4 levels that all depend on the same 3 hidden columns, which are
not in the table; `treeDxL` and `denseDxL` have columns of L levels. Of `chainD` each column is the
one before it, but for a fifth of the rows; those of `factorD` are linear in 5 normal factors and
noise, cut into 4 bins; those of `indD` are independent. `NAME%P` is made of a stored table: a
column of yes and no for each level that P to 100 - P per cent of its rows have. A generator has the
seed of its run (`--seeds`): those below 100 are for choosing settings, those from 100 on for
reporting.

Every run is a process of its own and leaves a line in benchmarks/results/wide.jsonl; a case that
has one is not run again. Errors are the mean L1 distance, in shares of the rows, of all pairs (e2)
and of 2,000 random triples (e3). `--steps` says where a fit spends its time. NOT PRIVATE: seeded
noise, true errors.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from common import (
    RESULTS,
    Record,
    Results,
    cpu_seconds,
    data_folder,
    key_of,
    levels_of,
    parallel,
    peak_megabytes,
)

DELTA = 1e-9
LEVELS = 4
TRIPLES = 2_000
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."


def tree_codes(columns: int, rows: int, seed: int, levels: int = LEVELS) -> np.ndarray:
    """(rows, columns): a column depends on one earlier column, every fifth on two."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, columns), dtype=np.uint8)
    for c in range(columns):
        parents = rng.choice(c, size=min(c, 2 if c % 5 == 4 else 1), replace=False)
        codes[:, c] = _drawn(codes[:, parents], rng, levels)
    return codes


def dense_codes(
    columns: int, rows: int, seed: int, levels: int = LEVELS, hidden: int = 3
) -> np.ndarray:
    """(rows, columns): every column depends on the same hidden ones."""
    rng = np.random.default_rng(seed)
    causes = rng.integers(levels, size=(rows, hidden))
    codes = np.empty((rows, columns), dtype=np.uint8)
    for c in range(columns):
        codes[:, c] = _drawn(causes, rng, levels)
    return codes


def chain_codes(columns: int, rows: int, seed: int) -> np.ndarray:
    """(rows, columns): a column is the one before it, but for a fifth of the rows."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(LEVELS, size=(rows, columns), dtype=np.uint8)
    for c in range(1, columns):
        codes[:, c] = np.where(rng.random(rows) < 0.2, codes[:, c], codes[:, c - 1])
    return codes


def factor_codes(columns: int, rows: int, seed: int, factors: int = 5) -> np.ndarray:
    """(rows, columns): linear in normal factors and noise, cut into bins."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(0, 0.4, (factors, columns))
    values = rng.normal(size=(rows, factors)) @ loadings + rng.normal(size=(rows, columns))
    return np.clip(np.round(values / 1.2 + 1.5), 0, LEVELS - 1).astype(np.uint8)


def independent_codes(columns: int, rows: int, seed: int, levels: int = LEVELS) -> np.ndarray:
    """(rows, columns): nothing depends on anything."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, columns), dtype=np.uint8)
    for c in range(columns):
        codes[:, c] = rng.choice(levels, size=rows, p=rng.dirichlet(np.full(levels, 0.7)))
    return codes


def _drawn(parents: np.ndarray, rng: np.random.Generator, levels: int) -> np.ndarray:
    """A column that follows a random conditional table of its parents."""
    cells = levels ** parents.shape[1]
    table = rng.dirichlet(np.full(levels, 0.7), size=cells)
    at = parents.astype(np.int64) @ levels ** np.arange(parents.shape[1], dtype=np.int64)
    ends = np.cumsum(table, axis=1)[:, :-1]
    chance = rng.random(len(at))
    found = np.empty(len(at), dtype=np.uint8)
    for start in range(0, len(at), 10_000):  # rows x levels at a time
        part = slice(start, start + 10_000)
        found[part] = (chance[part, None] > ends[at[part]]).sum(axis=1)
    return found


GENERATED = {
    "tree": tree_codes,
    "dense": dense_codes,
    "chain": chain_codes,
    "factor": factor_codes,
    "ind": independent_codes,
}
NAME = re.compile(f"({'|'.join(GENERATED)})(\\d+)(?:x(\\d+))?")


def yes_and_no(stored: str, percent: str) -> dict[str, np.ndarray]:
    import duckdb

    least = int(percent) / 100
    table = duckdb.read_parquet(str(data_folder() / f"{stored}.parquet")).fetchnumpy()
    made = {f"{c}_{x}": table[c] == x for c, n in levels_of(stored).items() for x in range(n)}
    return {c: v.astype(np.uint8) for c, v in made.items() if least < v.mean() < 1 - least}


@cache
def open_table(name: str, rows: int, generator: int) -> tuple[Any, Any]:
    """The schema of a table and what `fit` reads it from."""
    from admeasure.schema import Schema

    found = NAME.fullmatch(name)
    if "%" in name:
        codes = yes_and_no(*name.split("%"))
        return Schema.coded(name, dict.fromkeys(codes, 2)), codes
    if not found:
        return Schema.coded(name, levels_of(name)), data_folder() / f"{name}.parquet"
    levels = int(found[3] or LEVELS)
    more = {"levels": int(found[3])} if found[3] else {}
    codes = GENERATED[found[1]](int(found[2]), rows, generator, **more)
    names = [f"c{i:03}" for i in range(codes.shape[1])]
    schema = Schema.coded(name, dict.fromkeys(names, levels))
    return schema, {c: codes[:, i] for i, c in enumerate(names)}


def run_job(job: Record, fitted: Callable[[], None] = lambda: None) -> Record:
    """One fit, judged by the errors of the model's answers. `fitted` is called in between."""
    from admeasure.mechanisms import build
    from admeasure.verbs.fit import fit

    schema, data = open_table(job["table"], job["rows"], job["generator"])
    name, *options = job["mechanism"].split(":")
    mechanism = build(name, dict(option.split("=") for option in options))
    started = cpu_seconds()
    release = fit(
        data,
        schema,
        workload=job["workload"],
        mechanism=mechanism,
        epsilon=job["epsilon"],
        delta=DELTA,
        seed=job["seed"],
    )
    fitted()
    record: Record = {
        "cpu_seconds": round(cpu_seconds() - started, 2),
        "peak_megabytes": round(peak_megabytes()),
        "model_megabytes": round(float(getattr(release.model, "megabytes", 0.0)), 3),
        "model": release.model.kind,
        "rounds": release.facts["rounds"],
        "measured": len({m.query.columns for m in release.measurements}),
    }
    return record | errors(release.model, schema, data)


def errors(model: Any, schema: Any, data: Any) -> Record:
    from admeasure.sources.memory import MemorySource
    from admeasure.sources.open import open_source

    truth = (
        open_source(data, schema)
        if isinstance(data, Path)
        else MemorySource.from_codes(data, schema)
    )
    columns = sorted(schema.domain.columns)
    rng = np.random.default_rng(0)
    triples = {
        tuple(sorted(rng.choice(columns, 3, replace=False).tolist())) for _ in range(TRIPLES)
    }
    small = [t for t in sorted(triples) if schema.domain.cells(t) <= 100_000]
    asked = {"e2": list(combinations(columns, 2)), "e3": small if answers_all(model) else []}
    found: Record = {}
    for which, sets in asked.items():
        distances = []
        for start in range(0, len(sets), 500):
            part = sets[start : start + 500]
            for exact, said in zip(truth.counts(part), model.marginals(part), strict=True):
                distances.append(float(np.abs(said - exact).sum()) / float(exact.sum()))
        if distances:
            found[which] = statistics.fmean(distances)
    return found


def answers_all(model: Any) -> bool:
    """Whether it is a distribution, and not answers to what was asked alone."""
    return model.kind != "answers"


STEPS = {
    "count": ("admeasure.sources.memory", "MemorySource.counts"),
    "score": ("admeasure.privacy.scores.whole", "MarginalError.of_many"),
    "choose": ("admeasure.privacy.curator", "Curator.in_turn"),
    "answer": ("admeasure.families.graphical.model", "MarkovRandomField.answers"),
    "fit": ("admeasure.families.graphical.family", "GraphicalFamily._fitted"),
    "plan fits": ("admeasure.families.graphical.estimation.dual", "Dual.__init__"),
    "grow the tree": ("admeasure.families.graphical.structure.junction_tree", "JunctionTree.grown"),
    "what fits": ("admeasure.families.graphical.structure.room", "Room.left"),
    "last pass": ("admeasure.parts.final_pass", "again"),
    "evidence": ("admeasure.selectors.passed_over", "PassedOver.evidence"),
}
"""What `--steps` takes the time of. Some lie inside others: scores inside choices, plans and trees
inside fits."""


def steps_job(job: Record) -> Record:
    """A fit whose steps are timed."""
    import importlib

    spent: dict[str, float] = dict.fromkeys(STEPS, 0.0)

    def timed(name: str, function: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            started = cpu_seconds()
            try:
                return function(*args, **more)
            finally:
                spent[name] += cpu_seconds() - started

        return call

    for name, (module, path) in STEPS.items():
        *outer, last = path.split(".")
        owner: Any = importlib.import_module(module)
        for part in outer:
            owner = getattr(owner, part)
        setattr(owner, last, timed(name, getattr(owner, last)))
    at_end: dict[str, float] = {}
    # What judges the errors counts and answers too: only what the fit itself took is kept.
    record = run_job(job, lambda: at_end.update(spent))
    return record | {"steps": {k: round(v, 3) for k, v in at_end.items()}}


def fitted_exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds by log columns, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def show(results: Results) -> None:
    runs: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for r in results.read().values():
        if "error" not in r and "steps" not in r:
            cell = r["table"], r["rows"], r["workload"], r["epsilon"], r["mechanism"]
            runs[cell].append(r)
    print(STAMP)
    print("| table | rows | workload | epsilon | mechanism | e2 | e3 | CPU s | MB | seeds |")
    print("| --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for cell, found in sorted(runs.items()):
        shown = [_mean([r[which] for r in found if which in r]) for which in ("e2", "e3")]
        seconds = statistics.fmean(r["cpu_seconds"] for r in found)
        megabytes = max(r["peak_megabytes"] for r in found)
        values = [*map(str, cell), *shown, f"{seconds:.1f}", str(megabytes), str(len(found))]
        print(f"| {' | '.join(values)} |")


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.4f}" + (f" ± {error:.4f}" if error else "")


def show_steps(records: list[Record]) -> None:
    sizes = [int(re.findall(r"\d+", r["table"])[0]) for r in records]
    print(STAMP)
    print(f"| step | {' | '.join(r['table'] for r in records)} | exponent |")
    print(f"| --- |{' ---: |' * (len(records) + 1)}")
    whole = {"all": [r["cpu_seconds"] for r in records]}
    parts = {name: [r["steps"][name] for r in records] for name in STEPS}
    for name, seconds in (whole | parts).items():
        kept = [(n, s) for n, s in zip(sizes, seconds, strict=True) if s >= 0.02]
        slope = f"{fitted_exponent(*map(list, zip(*kept, strict=True))):.1f}" if kept[2:] else ""
        print(f"| {name} | {' | '.join(f'{s:.2f}' for s in seconds)} | {slope} |")
    print(f"| peak MB | {' | '.join(str(r['peak_megabytes']) for r in records)} | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="tree100,tree200")
    parser.add_argument("--rows", default="5000,100000", help="of generated tables")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--mechanisms", default="aim-plus")
    parser.add_argument("--workloads", default="all-2way")
    parser.add_argument("--seeds", default="100:101", help="from:to; generators are alike")
    parser.add_argument("--steps", help="tables whose fits are timed step by step")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--results", type=Path, default=RESULTS / "wide.jsonl")
    parser.add_argument("--table", action="store_true", help="show what was run so far")
    given = parser.parse_args()
    results = Results(given.results)
    if given.table:
        show(results)
        return
    first, last = map(int, given.seeds.split(":"))
    jobs: list[Record] = []
    for seed, table, workload, epsilon, mechanism in product(
        range(first, last),
        (given.steps or given.tables).split(","),
        given.workloads.split(","),
        map(float, given.epsilons.split(",")),
        given.mechanisms.split(","),
    ):
        generated = NAME.fullmatch(str(table))
        for rows in map(int, given.rows.split(",")) if generated else [0]:
            job = {"table": table, "rows": rows, "workload": workload, "epsilon": epsilon}
            job |= {"mechanism": mechanism, "seed": seed, "generator": seed}
            jobs.append(job | ({"timed": True} if given.steps else {}))
    job_of = steps_job if given.steps else run_job
    for record in parallel(jobs, job_of, given.workers, results=results):
        what = [record[k] for k in ("table", "rows", "epsilon", "mechanism", "seed")]
        print(*what, record.get("e2", record.get("error")), record.get("cpu_seconds"))
    if given.steps:
        stored = results.read()
        for rows in given.rows.split(","):
            found = [stored[key_of(j)] for j in jobs if j["rows"] == int(rows)]
            print(f"\n{int(rows):,} rows, CPU seconds")
            show_steps([r for r in found if "steps" in r])


if __name__ == "__main__":
    main()
