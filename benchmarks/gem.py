"""Generator networks against other mechanisms (Liu, Vietri and Wu 2021). NOT PRIVATE: seeded noise,
errors against the true tables.

    python benchmarks/gem.py adult --seeds 5 --jobs 8    all 286 3-way marginals of adult_pmwpub
    python benchmarks/gem.py pairs --seeds 3 --jobs 8    public data with poor support
    python benchmarks/gem.py speed                       time of the marginal trick, epsilon 1
    python benchmarks/gem.py speed --paper               and of the paper's single-query setting
    python benchmarks/gem.py table                       what was run so far

Every run is a process of its own and leaves a line in benchmarks/results/gem.jsonl; a case that has
one is not run again (`--again` does). Each keeps to one core. On a GPU all jobs share it; memory is
then taken as needed. `--only 'gem|gem-pub@10%'` runs a part.

adult: nine tenths of the rows are the private table of every method, the others the public one
(`@10%`), of which `@7` keeps seven columns. Replace one row, delta 1/n².
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from common import (
    RESULTS,
    Case,
    Record,
    Results,
    cpu_seconds,
    data_folder,
    levels_of,
    parallel,
    peak_megabytes,
)

RUNS = Results(RESULTS / "gem.jsonl")
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."
EPSILONS = (0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
ADULT = (
    "rap-softmax",
    "rap-softmax,measure=marginals",
    "gem",
    "gem,measure=cells",
    "gem-pub@10%",
    "gem-pub@7",
)
PAIRS = {"pa18": ("HI", "PR"), "ma2019": ("nist_national2018",)}
WORKLOADS = {"pa18": "all-3way", "ma2019": "random:256:3way:seed=0"}
SEVEN = ("sex", "race", "relationship", "marital-status", "occupation", "education-num", "age_10")
PAPER = "gem,measure=cells,hidden=512;1024;1024,rounds=100,steps=100,product_rows=1000"
METRICS = {"max_error": "max error", "mean_error": "mean error", "rmse": "RMSE"}


def read(mechanism: str) -> tuple[str, str | None, dict[str, str]]:
    """`name@PUBLIC,option=value,…` taken apart; a list inside a value has semicolons."""
    head, *rest = mechanism.split(",")
    name, _, public = head.partition("@")
    options = dict(part.split("=", 1) for part in rest)
    return name, public or None, {k: v.replace(";", ",") for k, v in options.items()}


def tables(table: str) -> tuple[dict[str, int], dict[str, Any], dict[str, dict[str, Any]]]:
    """Levels, private rows and public tables of a case, as codes."""
    if table != "adult":
        from public_pairs import pair

        found = pair(table)
        return found.levels, found.private, found.public
    import duckdb

    levels = {k: v for k, v in levels_of("adult_pmwpub").items() if k not in ("age", "education")}
    path = data_folder() / "adult_pmwpub.parquet"
    stored = duckdb.sql(f"SELECT * FROM '{path}'").fetchnumpy()
    rows = {c: np.asarray(stored[c]) for c in levels}
    order = np.random.default_rng(0).permutation(len(rows["sex"]))
    cut = len(order) // 10
    private = {c: v[order[cut:]] for c, v in rows.items()}
    public = {c: v[order[:cut]] for c, v in rows.items()}
    return levels, private, {"10%": public, "7": {c: public[c] for c in SEVEN}}


def run_one(case: Case) -> Record:
    """Fit and judge the model's own answers."""
    from admeasure.evaluation import compare
    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.sources.memory import MemorySource
    from admeasure.verbs.fit import fit
    from admeasure.workload import parse_workload

    name, candidate, options = read(case.mechanism)
    levels, private, public = tables(case.table)
    schema = Schema.coded(case.table, levels)
    privacy = schema.privacy.model_copy(update={"neighbours": "replace"})
    schema = schema.model_copy(update={"privacy": privacy})
    truth = MemorySource(private, schema)
    rows = int(truth.counts([()])[0])
    workload = parse_workload(case.workload, schema.domain)
    wall, cpu = time.perf_counter(), cpu_seconds()
    release = fit(
        private,
        schema,
        workload=workload,
        mechanism=build(name, options),
        epsilon=case.epsilon,
        delta=rows**-2,
        public=public[candidate] if candidate else None,
        seed=case.seed,
    )
    seconds, used = time.perf_counter() - wall, cpu_seconds() - cpu
    judged = compare(truth.counts, release.model.marginals, workload, schema.domain)
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "peak_megabytes": round(peak_megabytes(), 1),
        "rounds": release.facts["rounds"],
        "backend": backend(),
        "notes": list(release.certificate.notes),
        **{metric: getattr(judged, metric) for metric in METRICS},
    }


def run_job(job: Record) -> Record:
    """One case, in the process that `parallel` starts for it."""
    return run_one(Case(**job))


def backend() -> str:
    import jax

    return jax.default_backend()


def mixtures() -> Record:
    """The best-mixture error of the public tables of `pairs`, kept in a file: it takes a while."""
    from admeasure.evaluation.mixture import best_mixture_error
    from admeasure.public import PublicTable
    from admeasure.schema import Schema
    from admeasure.sources.memory import MemorySource
    from admeasure.workload import parse_workload

    path = RESULTS / "best_mixture.json"
    stored: Record = json.loads(path.read_text()) if path.exists() else {}
    for name, candidates in PAIRS.items():
        missing = [c for c in candidates if f"{name}/{c}" not in stored]
        if not missing:
            continue
        levels, private, public = tables(name)
        schema = Schema.coded(name, levels)
        truth = MemorySource(private, schema)
        workload = parse_workload(WORKLOADS[name], schema.domain)
        for candidate in missing:
            table = PublicTable.from_codes(public[candidate], schema.domain, name=candidate)
            best = best_mixture_error(truth.counts, table, workload, gap=1e-4, seconds=120)
            stored[f"{name}/{candidate}"] = {"error": best.error, "gap": best.gap}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(stored, indent=1))
    return stored


def cases_of(given: argparse.Namespace) -> list[Case]:
    if given.what == "adult":
        mechanisms = given.only or ADULT
        return [
            Case("adult", "all-3way", epsilon, mechanism, 0, seed)
            for seed, epsilon, mechanism in product(range(given.seeds), given.epsilons, mechanisms)
        ]
    found = []
    for name, candidates in PAIRS.items():
        mechanisms = [f"gem-pub@{c}" for c in candidates] + [f"pmw-pub@{c}" for c in candidates]
        mechanisms = [m for m in [*mechanisms, "gem"] if not given.only or m in given.only]
        found += [
            Case(name, WORKLOADS[name], epsilon, mechanism, 0, seed)
            for seed, epsilon, mechanism in product(range(given.seeds), given.epsilons, mechanisms)
        ]
    return found


def table_lines(records: list[Record]) -> list[str]:
    """One line for each setting: means over seeds, and standard errors."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault((r["table"], r["epsilon"], r["mechanism"]), []).append(r)
    head = ("runs", "codes", "T", "max", "± s.e.", "mean", "± s.e.", "rmse", "wall s", "cpu s")
    lines = [f"{'table':8}{'eps':>6}  {'mechanism':40}" + "".join(f"{h:>10}" for h in head)]
    for (table, epsilon, mechanism), found in sorted(groups.items()):
        good = [r for r in found if "error" not in r]
        left = f"{table:8}{epsilon:6g}  {mechanism:40}"
        if not good:
            lines.append(f"{left} {found[0]['error']}")
            continue
        codes = {r.get("code") for r in good}  # more than one: versions of the program are mixed
        numbers = [str(len(good)), str(len(codes)), f"{mean(good, 'rounds'):.0f}"]
        numbers += [f"{mean(good, 'max_error'):.4f}", f"{spread(good, 'max_error'):.4f}"]
        numbers += [f"{mean(good, 'mean_error'):.2e}", f"{spread(good, 'mean_error'):.1e}"]
        numbers += [f"{mean(good, 'rmse'):.2e}"]
        numbers += [f"{mean(good, k):.1f}" for k in ("seconds", "cpu_seconds")]
        lines.append(left + "".join(f"{n:>10}" for n in numbers))
    return lines


def mean(records: list[Record], field: str) -> float:
    return statistics.fmean(r[field] for r in records)


def spread(records: list[Record], field: str) -> float:
    values = [r[field] for r in records]
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    numbers = lambda text: [float(x) for x in text.split(",")]  # noqa: E731
    parser.add_argument("what", nargs="?", choices=["adult", "pairs", "mixtures", "speed", "table"])
    parser.add_argument("--epsilons", type=numbers, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one run")
    parser.add_argument("--only", type=lambda text: text.split("|"), help="mechanisms, | between")
    parser.add_argument("--again", action="store_true", help="run what has a result, too")
    parser.add_argument("--paper", action="store_true", help="the paper's single-query setting")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    print(STAMP)
    if given.what in ("adult", "pairs"):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jobs = [asdict(case) for case in cases_of(given)]
        for record in parallel(
            jobs, run_job, given.jobs, results=RUNS, limit=given.limit, again=given.again
        ):
            print("\n".join(table_lines([record])[1:]), flush=True)
    elif given.what == "mixtures":
        print(json.dumps(mixtures(), indent=1))
    elif given.what == "speed":
        for mechanism in ["gem", *([PAPER] if given.paper else [])]:
            record = run_one(Case("adult", "all-3way", 1.0, mechanism, 0, 0))
            print(json.dumps({"mechanism": mechanism, **record}), flush=True)
    else:
        print("\n".join(table_lines(list(RUNS.read().values()))))


if __name__ == "__main__":
    main()
