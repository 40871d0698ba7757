"""Reweighting methods and public data (Liu, Vietri and Wu 2021; Liu et al. 2021).

    python benchmarks/reweighting.py --adult               # five methods on ADULT (reduced)
    python benchmarks/reweighting.py --pairs               # PMW-Pub from good and poor public data
    python benchmarks/reweighting.py --screen              # do noisy screenings rank as truth does?
    python benchmarks/reweighting.py --speed               # the three stated speeds
    python benchmarks/reweighting.py --table               # what was run so far

Every run is a process of its own, `--jobs` at a time, and leaves a line in
benchmarks/results/reweighting.jsonl; a case that has one is not run again (`--again` does). A
mechanism without `rounds` takes its default number, which follows from the budget and the number of
rows. `benchmarks/papers` runs the papers' own experiments and draws them. NOT PRIVATE: seeded
noise, true errors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict
from itertools import product
from typing import Any

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
from public_pairs import PAIRS, WORKLOADS, pair
from reweighting_screen import mixtures, screenings
from reweighting_summary import summary_lines

RUNS = Results(RESULTS / "reweighting.jsonl")
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."
EPSILONS = (0.1, 0.15, 0.2, 0.25, 0.5, 1.0)
LARGE_EPSILONS = (10.0, 100.0)
"""Where support is the only limit left."""

ADULT = {
    "mwem,measure=cells,reuse=none": (100, 200, 300, 500),
    "mwem,measure=cells,reuse=large": (None, 50, 100, 200, 300),
    "pep,measure=cells": (None, 50, 100, 200),
    "dualquery,eta=2": (None,),
    "dualquery": (None,),
    "dualquery,eta=5": (None,),
    "fem,threads=1": (None,),
    "independent": (None,),
}
"""Methods and numbers of rounds; None: the default."""

BASELINES = dict.fromkeys(PAIRS, ("mwem-pgm", "gaussian", "independent"))
EXPLICIT = ("mwem,measure=cells", "pep,measure=cells")
"""Methods that list every cell, on the table that is small enough; to epsilon 1."""

JI_ELKAN = (0.005, 0.05, 0.5)
"""Strengths tried, among those of appendix A.5."""


def read(mechanism: str) -> tuple[str, str | None, dict[str, str]]:
    """`name@PUBLIC,option=value,…` taken apart."""
    head, *rest = mechanism.split(",")
    name, _, public = head.partition("@")
    return name, public or None, dict(part.split("=", 1) for part in rest)


def run_one(case: Case) -> Record:
    """Fit and judge the model's own answers."""
    from admeasure.evaluation import compare
    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.sources.memory import MemorySource
    from admeasure.sources.open import open_source
    from admeasure.verbs.fit import fit
    from admeasure.workload import parse_workload

    name, candidate, options = read(case.mechanism)
    public: Any = None
    data: Any
    if case.table == "adult":
        schema = Schema.coded("adult", levels_of("adult_pmwpub_reduced"))
        data = data_folder() / "adult_pmwpub_reduced.parquet"
        truth = open_source(data, schema)
    else:
        tables = pair(case.table)
        schema, data = Schema.coded(case.table, tables.levels), tables.private
        truth = MemorySource(data, schema)
        public = tables.public[candidate] if candidate else None
    rows = int(truth.counts([()])[0])
    workload = parse_workload(case.workload, schema.domain)
    wall, cpu = time.perf_counter(), cpu_seconds()
    release = fit(
        data,
        schema,
        workload=workload,
        mechanism=build(name, options),
        epsilon=case.epsilon,
        delta=rows**-2,
        public=public,
        seed=case.seed,
    )
    seconds, used = time.perf_counter() - wall, cpu_seconds() - cpu
    judged = compare(truth.counts, release.model.marginals, workload, schema.domain)
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "peak_megabytes": round(peak_megabytes(), 1),
        "rounds": release.facts["rounds"],
        "max_error": judged.max_error,
        "mean_error": judged.mean_error,
        "rmse": judged.rmse,
    }


def run_job(job: Record) -> Record:
    """One case, in the process that `parallel` starts for it."""
    return run_one(Case(**job))


def adult_cases(given: argparse.Namespace) -> list[Case]:
    mechanisms = [
        name if rounds is None else f"{name},rounds={rounds}"
        for name, tried in ADULT.items()
        for rounds in tried
    ]
    return [
        Case("adult", "all-3way", epsilon, mechanism, 0, seed)
        for epsilon, mechanism, seed in product(given.epsilons, mechanisms, range(given.seeds))
    ]


def pair_cases(given: argparse.Namespace) -> list[Case]:
    cases = []
    for name in given.tables:
        public = PAIRS[name][1]
        everywhere = [f"pmw-pub@{c}" for c in public] + list(BASELINES[name])
        few: list[str] = []
        if name == "pa18small":
            strengths = product(public, JI_ELKAN)
            few = [*EXPLICIT, *(f"ji-elkan@{c},strength={s:g}" for c, s in strengths)]
        cases += [
            Case(name, WORKLOADS[name], epsilon, mechanism, 0, seed)
            for epsilon in (*given.epsilons, *given.large)
            for mechanism in (everywhere if epsilon in given.large else [*everywhere, *few])
            for seed in range(given.seeds)
        ]
    return cases


def table_lines(records: list[Record]) -> list[str]:
    """One line for each setting: means over seeds, and the standard error of the largest."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault((r["table"], r["mechanism"], r["epsilon"]), []).append(r)
    head = ("runs", "max", "± s.e.", "mean", "rmse", "wall s", "cpu s", "peak MB")
    lines = [f"{'table':8}{'mechanism':44}{'eps':>6}" + "".join(f"{h:>10}" for h in head)]
    for (table, mechanism, epsilon), found in sorted(groups.items()):
        good = [r for r in found if "error" not in r]
        left = f"{table:8}{mechanism:44}{epsilon:6g}"
        if not good:
            lines.append(f"{left} {found[0]['error']}")
            continue
        most = [r["max_error"] for r in good]
        spread = statistics.stdev(most) / len(most) ** 0.5 if len(most) > 1 else float("nan")
        numbers = [f"{statistics.fmean(most):.4f}", f"{spread:.4f}"]
        numbers += [f"{mean(good, 'mean_error'):.6f}", f"{mean(good, 'rmse'):.6f}"]
        numbers += [f"{mean(good, k):.1f}" for k in ("seconds", "cpu_seconds", "peak_megabytes")]
        lines.append(left + f"{len(good):>10}" + "".join(f"{n:>10}" for n in numbers))
    return lines


def mean(records: list[Record], field: str) -> float:
    return statistics.fmean(r[field] for r in records)


def speed_large(rounds: int = 100) -> Record:
    """PMW-Pub with 100,000 public rows and 4,096 three-way marginals of the 67 ACS attributes."""
    import numpy as np

    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.verbs.fit import fit

    stored = json.loads((data_folder() / "acs_pmwpub_domain.json").read_text())
    levels = {c: stored["domain"][c] for c in stored["paper_attributes"] if c in stored["domain"]}
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 20, (2, 100_000))  # two populations of twenty groups each
    shapes = {c: rng.dirichlet(np.full(n, 0.4), 20) for c, n in levels.items()}

    def rows(groups: np.ndarray) -> dict[str, np.ndarray]:
        return {
            c: (rng.random((groups.size, 1)) > p.cumsum(axis=1)[groups]).sum(axis=1).clip(0, n - 1)
            for (c, n), p in zip(levels.items(), shapes.values(), strict=True)
        }

    private, public = rows(hidden[0]), rows(hidden[1] // 2)
    started, cpu = time.perf_counter(), cpu_seconds()
    release = fit(
        private,
        Schema.coded("large", levels),
        workload="random:4096:3way:seed=0",
        mechanism=build("pmw-pub", {"rounds": str(rounds)}),
        epsilon=1,
        delta=1e-10,
        public=public,
        seed=0,
    )
    return {
        "what": f"pmw-pub, 100,000 public rows, 4,096 3-way marginals, T = {rounds}",
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(cpu_seconds() - cpu, 1),
        "peak_megabytes": round(peak_megabytes()),
        "records": int(release.model.arrays()["weights"].size),
    }


def speeds() -> None:
    for mechanism in ("mwem,rounds=100", "pep,measure=cells,rounds=100", "pep,rounds=100"):
        record = run_one(Case("adult", "all-3way", 1.0, mechanism, 0, 0))
        print(
            f"{mechanism:40} {record['seconds']:7.1f} s wall {record['cpu_seconds']:7.1f} s cpu "
            f"{record['peak_megabytes']:7.0f} MB",
            flush=True,
        )
    print(json.dumps(speed_large()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    numbers = lambda text: [float(x) for x in text.split(",")]  # noqa: E731
    parser.add_argument("--epsilons", type=numbers, default=list(EPSILONS))
    parser.add_argument("--large", type=numbers, default=list(LARGE_EPSILONS))
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(PAIRS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one run")
    parser.add_argument("--again", action="store_true", help="run what has a result, too")
    for what in ("adult", "pairs", "mixtures", "screen", "speed", "table"):
        parser.add_argument(f"--{what}", action="store_true")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    print(STAMP)
    cases = (pair_cases(given) if given.pairs else []) + (adult_cases(given) if given.adult else [])
    # The long ones first, so that none of them is alone at the end.
    cases.sort(key=lambda c: (not c.mechanism.startswith(("pep", "mwem,", "fem")), -c.epsilon))
    jobs = [asdict(case) for case in cases]
    for record in parallel(
        jobs, run_job, given.jobs, results=RUNS, limit=given.limit, again=given.again
    ):
        print("\n".join(table_lines([record])[1:]), flush=True)
    if given.mixtures:
        print(json.dumps(mixtures(given.tables), indent=1))
    if given.screen:
        for line in screenings(given.tables, given.seeds):
            print(line, flush=True)
    if given.speed:
        speeds()
    if given.table:
        records = list(RUNS.read().values())
        if not records:
            sys.exit(f"Nothing was run yet: {RUNS.path} is not there.")
        print("\n".join(table_lines(records)))
        for metric in ("max_error", "mean_error", "rmse"):
            print("\n".join(summary_lines(records, metric)))


if __name__ == "__main__":
    main()
