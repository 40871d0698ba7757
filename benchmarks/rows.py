"""Synthetic rows: how far their answers are from the table, drawn from the model and searched.

    python benchmarks/rows.py --tables adult,fire,nltcs --epsilons 1 --seeds 3000:3005
    python benchmarks/rows.py --table               # what was run so far

Each run fits once and judges three things by the workload error (AIM, Definition 2): the model's
answers, rows as the family draws them, and the same rows after the search. It is a process of its
own and leaves a line in benchmarks/results/rows.jsonl; a case that has one is not run again. NOT
PRIVATE: seeded noise, true errors.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from common import RESULTS, Record, Results, cpu_seconds, parallel, peak_megabytes
from plus import DELTA, STAMP, mean_and_error, open_table, ratio_and_error, workload_rule


def run_job(job: Record) -> Record:
    """One fit and two samples of it."""
    from admeasure.evaluation import compare
    from admeasure.mechanisms import build
    from admeasure.sources.memory import MemorySource
    from admeasure.sources.open import open_source
    from admeasure.verbs.fit import fit
    from admeasure.workload import parse_workload

    schema, data = open_table(job["table"])
    rule = workload_rule(job["workload"], job["table"], schema.domain.columns)
    workload = parse_workload(rule, schema.domain)
    settings: Record = {"epsilon": job["epsilon"], "delta": DELTA, "seed": job["seed"]}
    started = cpu_seconds()
    release = fit(data, schema, workload=workload, mechanism=build(job["mechanism"]), **settings)
    fitted = cpu_seconds()
    drawn = release.sample_codes(seed=job["seed"], search=False)
    sampled = cpu_seconds()
    searched = release.sample_codes(seed=job["seed"], search=True)
    ended = cpu_seconds()
    record: Record = {
        "fit_seconds": round(fitted - started, 2),
        "sample_seconds": round(sampled - fitted, 2),
        "search_seconds": round(ended - sampled, 2),
        "peak_megabytes": round(peak_megabytes()),
        "by_default": release.searches(),
    }
    truth = (
        open_source(data, schema)
        if isinstance(data, Path)
        else MemorySource.from_codes(data, schema)
    )
    answers = {
        "model": release.model.marginals,
        "drawn": MemorySource.from_codes(drawn, schema).counts,
        "searched": MemorySource.from_codes(searched, schema).counts,
    }
    for name, counts in answers.items():
        judged = compare(truth.counts, counts, workload, schema.domain)
        record[f"{name}_error"] = judged.workload_error
    return record


def show(results: Results) -> None:
    """Means with standard errors, and how much of the gap between rows and model was closed."""
    runs: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in results.read().values():
        if "error" not in record:
            cell = (record["workload"], record["epsilon"], record["table"], record["mechanism"])
            runs[cell].append(record)
    print(STAMP)
    print(
        "workload   eps   table    mechanism    model   drawn   searched  s.e.    seeds  "
        "searched/drawn  s.e.   gap closed  CPU s: fit, search   MB"
    )
    for (workload, epsilon, table, mechanism), found in sorted(runs.items()):
        errors = {
            name: [record[f"{name}_error"] for record in found]
            for name in ("model", "drawn", "searched")
        }
        model, drawn, searched = (statistics.fmean(values) for values in errors.values())
        _, spread = mean_and_error(errors["searched"])
        ratio, ratio_spread = ratio_and_error(errors["searched"], errors["drawn"])
        fit, search = (
            statistics.fmean(record[f"{name}_seconds"] for record in found)
            for name in ("fit", "search")
        )
        peak = max(record["peak_megabytes"] for record in found)
        print(
            f"{workload:9}  {epsilon:<5} {table:8} {mechanism:11}  {model:.4f}  {drawn:.4f}  "
            f"{searched:.4f}    {spread:.4f}  {len(found):5}  {ratio:14.3f}  {ratio_spread:.3f}  "
            f"{(drawn - searched) / (drawn - model):10.2f}  {fit:8.1f}, {search:.1f}  {peak:7}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="adult,fire,nltcs,titanic")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--mechanisms", default="aim-plus")
    parser.add_argument("--workloads", default="all-3way")
    parser.add_argument("--seeds", default="3000:3005", help="from:to, the last one left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "rows.jsonl")
    parser.add_argument("--table", action="store_true", help="show what was run so far")
    given = parser.parse_args()
    results = Results(given.results)
    if not given.table:
        first, last = map(int, given.seeds.split(":"))
        # Seeds outermost: whenever it is stopped, every cell has about as many.
        cases = product(
            range(first, last),
            given.workloads.split(","),
            map(float, given.epsilons.split(",")),
            given.tables.split(","),
            given.mechanisms.split(","),
        )
        names = ("seed", "workload", "epsilon", "table", "mechanism")
        jobs: list[Record] = [dict(zip(names, case, strict=True)) for case in cases]
        for record in parallel(jobs, run_job, given.jobs, results=results):
            print(record["table"], record["epsilon"], record.get("searched_error", "failed"))
    show(results)


if __name__ == "__main__":
    main()
