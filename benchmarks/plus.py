"""aim-plus against aim and its relatives: error of the model's answers on seven tables.

    python benchmarks/plus.py --tables adult,fire --epsilons 0.3,1 --seeds 4000:4005
    python benchmarks/plus.py --table               # what was run so far: means, errors, ratios
    python benchmarks/plus.py --mechanisms aim-plus:shrink=end,aim-plus:final-pass=0
    python benchmarks/plus.py --headline            # the table of explanations/aim.md, in as many
                                                    # sittings as it takes; --table --markdown
                                                    # prints it

A mechanism may be followed by options. Every run is a process of its own and leaves a line in
benchmarks/results/plus.jsonl; a case that has one is not run again. `--here` runs all in one
process, which saves the start of each; its memory then is not a run's own. Seeds below 1000 are for
choosing, those from 4000 on for reporting; those between were seen before the settings were what
they are. NOT PRIVATE: seeded noise, true errors.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from common import (
    RESULTS,
    Record,
    Results,
    code_version,
    cpu_seconds,
    data_folder,
    key_of,
    levels_of,
    parallel,
    peak_megabytes,
)

CODED = {
    "adult": "adult_aim",
    "fire": "fire_aim",
    "nltcs": "nltcs",
    "titanic": "titanic_aim",
    "msnbc": "msnbc",
    "pmw": "adult_pmwpub",
}
SURVEYS = {"acs": "acs_ct_2018", "nist": "nist_ma2019"}
TABLES = ("adult", "fire", "nltcs", "titanic", "pmw", "acs", "nist")
STAND_IN = {"pmw": {"age", "education"}}
"""Columns for which another one of the same table stands in."""
TARGETS = {"adult": "income>50K", "titanic": "Survived", "pmw": "income>50K"}
DELTA = 1e-9
REPORTED = range(4000, 5000)
"""Seeds of what is reported, the first five of them unless more are asked for."""
HEADLINE = {
    "mechanisms": "aim-plus,aim,mst,privbayes,mwem-pgm,independent,gaussian,rap-softmax,gem",
    "tables": "titanic,nltcs,adult,pmw,nist,acs,fire,msnbc",
    "epsilons": "0.1,1,0.3,3,10",
}
"""The comparison of AIM's paper, and more; the cheapest and most telling first."""
TWICE = ("titanic", "nltcs")
"""Tables of which the headline has twice as many seeds: they are small, and differ more."""
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."


@cache
def open_table(name: str) -> tuple[Any, Any]:
    """The schema of a table and what `fit` reads it from."""
    from admeasure.schema import Schema

    if name in CODED:
        levels = levels_of(CODED[name])
        levels = {c: n for c, n in levels.items() if c not in STAND_IN.get(name, ())}
        return Schema.coded(name, levels), data_folder() / f"{CODED[name]}.parquet"
    from public_pairs import survey

    levels, codes = survey(SURVEYS[name])
    if name == "acs":  # 31 columns have 4,495 triples: every second one is left
        levels = {c: levels[c] for c in list(levels)[::2]}
    return Schema.coded(name, levels), {c: codes[c] for c in levels}


def workload_rule(name: str, table: str, columns: tuple[str, ...]) -> str:
    if name == "target":
        return f"target:{TARGETS.get(table, min(columns))}:3way"
    return {"skewed": "skewed:256:3way:seed=0"}.get(name, name)


@cache
def open_workload(name: str, table: str) -> Any:
    from admeasure.workload import parse_workload

    domain = open_table(table)[0].domain
    return parse_workload(workload_rule(name, table, domain.columns), domain)


@cache
def true_shares(workload: str, table: str) -> dict[Any, np.ndarray]:
    """The true marginals of a workload in shares of the rows: `compare` would count them anew for
    every run, and compute more from them than this benchmark shows."""
    from admeasure.sources.memory import MemorySource
    from admeasure.sources.open import open_source

    schema, data = open_table(table)
    truth = (
        open_source(data, schema)
        if isinstance(data, Path)
        else MemorySource.from_codes(data, schema)
    )
    marginals = list(open_workload(workload, table).marginals())
    counts = truth.counts(marginals)
    return {r: shares_of(t) for r, t in zip(marginals, counts, strict=True)}


def shares_of(counts: np.ndarray) -> np.ndarray:
    """Of noisy counts that add up to less than nothing, no shares."""
    total = float(counts.sum())
    return counts / total if total > 0 else np.zeros_like(counts, dtype=np.float64)


def run_job(job: Record) -> Record:
    """One fit, judged by the error of the model's answers (AIM, Definition 2)."""
    from admeasure.mechanisms import build
    from admeasure.verbs.fit import fit

    schema, data = open_table(job["table"])
    workload = open_workload(job["workload"], job["table"])
    name, *options = job["mechanism"].split(":")
    mechanism = build(name, dict(option.split("=") for option in options))
    started = cpu_seconds()
    release = fit(
        data,
        schema,
        workload=workload,
        mechanism=mechanism,
        epsilon=job["epsilon"],
        delta=DELTA,
        seed=job["seed"],
    )
    record: Record = {
        "cpu_seconds": round(cpu_seconds() - started, 2),
        "peak_megabytes": round(peak_megabytes()),
        "model_megabytes": round(float(getattr(release.model, "megabytes", 0.0)), 2),
        "rounds": release.facts["rounds"],
    }
    exact = true_shares(job["workload"], job["table"])
    answers = release.model.marginals(list(exact))
    error = {
        r: float(np.abs(share - shares_of(answer)).sum())
        for (r, share), answer in zip(exact.items(), answers, strict=True)
    }
    weights = [workload.weight(query) for query in workload.queries]
    errors = [error[query.columns] for query in workload.queries]
    return record | {"model_error": float(np.average(errors, weights=weights))}


Cell = tuple[str, float, str, str]
"""Workload, epsilon, table, mechanism."""
Runs = dict[Cell, dict[int, Record]]


def in_this_process(jobs: list[Record], results: Results) -> Iterator[Record]:
    """As `parallel`, one after the other and without processes."""
    done = {k for k, r in results.read().items() if "error" not in r}
    version = code_version()
    for job in jobs:
        if key_of(job) not in done:
            record = {"key": key_of(job), **job, "code": version, **run_job(job)}
            results.append(record)
            yield record


def seeds_of(given: str) -> range:
    first, last = map(int, given.split(":"))
    return range(first, last)


def jobs_of(given: argparse.Namespace, seeds: range, tables: Sequence[str]) -> list[Record]:
    """Seeds outermost: whenever it is stopped, every cell has about as many."""
    cases = product(
        seeds,
        given.workloads.split(","),
        map(float, given.epsilons.split(",")),
        tables,
        given.mechanisms.split(","),
    )
    names = ("seed", "workload", "epsilon", "table", "mechanism")
    return [dict(zip(names, case, strict=True)) for case in cases]


def read(results: Results, seeds: range) -> Runs:
    """What was run with these seeds: for each cell the records by seed."""
    runs: Runs = defaultdict(dict)
    for record in results.read().values():
        if "error" not in record and record["seed"] in seeds:
            cell = (record["workload"], record["epsilon"], record["table"], record["mechanism"])
            runs[cell][record["seed"]] = record
    return dict(sorted(runs.items()))


def markdown(runs: Runs, against: str) -> None:
    """A row for each table and epsilon, a column for each mechanism: mean ± standard error; then
    the ratio of aim-plus to `against`, a row for each table and a column for each epsilon."""
    order = HEADLINE["mechanisms"].split(",")
    rest = sorted({mechanism for *_, mechanism in runs} - set(order))
    names = [m for m in (*order, *rest) if any(cell[3] == m for cell in runs)]
    print(STAMP)
    print(f"| workload, table, epsilon | {' | '.join(names)} |")
    print(f"| --- |{' --- |' * len(names)}")
    for place in dict.fromkeys((w, t, e) for w, e, t, _ in runs):
        workload, table, epsilon = place
        found = [runs.get((workload, epsilon, table, name), {}) for name in names]
        shown = [_shown([r["model_error"] for r in f.values()]) if f else "" for f in found]
        print(f"| {workload}, {table}, {epsilon:g} | {' | '.join(shown)} |")
    epsilons = sorted({epsilon for _, epsilon, *_ in runs})
    print(f"\n| aim-plus against {against} | {' | '.join(f'{e:g}' for e in epsilons)} |")
    print(f"| --- |{' --- |' * len(epsilons)}")
    means: dict[tuple[str, float], list[float]] = defaultdict(list)
    for workload, table in dict.fromkeys((w, t) for w, _, t, _ in runs):
        shown = []
        for epsilon in epsilons:
            pairs = both(runs, (workload, epsilon, table, "aim-plus"), against)
            value, spread = ratio_and_error(*pairs) if pairs[0] else (math.nan, math.nan)
            shown.append(_with_error(value, spread, 3, len(pairs[0])) if pairs[0] else "")
            means[workload, epsilon] += [value] if pairs[0] else []
        print(f"| {workload}, {table} | {' | '.join(shown)} |")
    for workload in dict.fromkeys(w for w, *_ in runs):
        shown = [_geometric(means[workload, epsilon]) for epsilon in epsilons]
        print(f"| {workload}, geometric mean | {' | '.join(shown)} |")
        every = [value for epsilon in epsilons for value in means[workload, epsilon]]
        print(f"{workload}: {_geometric(every)} over {len(every)} cells")


def both(runs: Runs, cell: Cell, against: str) -> tuple[list[float], list[float]]:
    """The errors of a cell and of another mechanism, by the seeds that both have."""
    ours, theirs = runs.get(cell, {}), runs.get((*cell[:3], against), {})
    seeds = sorted(ours.keys() & theirs.keys())
    return [ours[s]["model_error"] for s in seeds], [theirs[s]["model_error"] for s in seeds]


def _geometric(values: list[float]) -> str:
    return f"{statistics.geometric_mean(values):.3f}" if values else ""


def _shown(errors: list[float]) -> str:
    mean, error = mean_and_error(errors)
    digits = 3 - math.floor(math.log10(mean)) - 1 if mean > 0 else 3
    return _with_error(mean, error, digits, len(errors))


def _with_error(value: float, error: float, digits: int, seeds: int) -> str:
    spread = f" ± {error:.{digits}f}" if seeds > 1 else ""
    return f"{value:.{digits}f}{spread} ({seeds})"


def show(runs: Runs, against: str) -> None:
    """Means with standard errors, and ratios to `against` over the seeds that both have."""
    ratios: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    print(STAMP)
    print("workload   eps   table    mechanism           error   s.e.    seeds  ratio  s.e.   cpu")
    for cell, found in runs.items():
        workload, epsilon, table, mechanism = cell
        mean, error = mean_and_error([r["model_error"] for r in found.values()])
        cpu = statistics.fmean(r["cpu_seconds"] for r in found.values())
        pairs, ratio = both(runs, cell, against), ""
        if pairs[0] and mechanism != against:
            value, spread = ratio_and_error(*pairs)
            ratio = f"{value:.3f}  {spread:.3f}"
            ratios[workload, epsilon, mechanism].append(value)
        print(
            f"{workload:9}  {epsilon:<5} {table:8} {mechanism:18} {mean:.4f}  {error:.4f}"
            f"  {len(found):5}  {ratio:12}  {cpu:.1f}"
        )
    print(f"\nGeometric mean over tables of the ratio to {against}")
    for (workload, epsilon, mechanism), values in sorted(ratios.items()):
        print(
            f"{workload:9}  {epsilon:<5} {mechanism:18} {statistics.geometric_mean(values):.3f}"
            f"  over {len(values)}, largest {max(values):.3f}"
        )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return statistics.fmean(values), spread


def ratio_and_error(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """The ratio of means, with its standard error by the delta method on pairs of one seed."""
    ratio = statistics.fmean(ours) / statistics.fmean(theirs)
    rest = [(a - ratio * b) / statistics.fmean(theirs) for a, b in zip(ours, theirs, strict=True)]
    return ratio, mean_and_error(rest)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default="0.3,1")
    parser.add_argument("--mechanisms", default="aim,aim-plus")
    parser.add_argument("--workloads", default="all-3way")
    parser.add_argument("--seeds", help="from:to, the last one left out; else 4000 to 4004")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "plus.jsonl")
    parser.add_argument("--table", action="store_true", help="show what was run so far")
    parser.add_argument("--against", default="aim")
    parser.add_argument("--markdown", action="store_true", help="as a table of docs/")
    parser.add_argument("--here", action="store_true", help="all in this process")
    parser.add_argument("--headline", action="store_true", help="the tables of explanations/aim.md")
    given = parser.parse_args()
    seeds, results = REPORTED, Results(given.results)
    if given.seeds:
        seeds = seeds_of(given.seeds)
    if given.headline:
        vars(given).update(HEADLINE)
    if not given.table:
        jobs = jobs_of(given, seeds if given.seeds else seeds[:5], given.tables.split(","))
        if given.headline:
            jobs += jobs_of(given, seeds[5:10], TWICE)
        ran = (
            in_this_process(jobs, results)
            if given.here
            else parallel(jobs, run_job, given.jobs, results=results)
        )
        for record in ran:
            print(record["table"], record["mechanism"], record.get("model_error", "failed"))
    runs = read(results, seeds)
    markdown(runs, given.against) if given.markdown else show(runs, given.against)


if __name__ == "__main__":
    main()
