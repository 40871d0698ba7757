"""AIM and its relatives on the tables of its paper (McKenna et al. 2022, section 6).

    python benchmarks/aim.py --tables adult,fire --epsilons 0.1,1 --mechanisms aim,mst --seeds 5
    python benchmarks/aim.py --table       # what was run so far, as a table
    python benchmarks/aim.py --bounds      # FIRE at epsilon 10: bounds against true errors

Every run is a process of its own and leaves a line in benchmarks/results/aim.jsonl; a case that
has one is not run again (`--again` does). `benchmarks/papers` runs the paper's own experiments and
draws them. NOT PRIVATE: seeded noise, true errors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict
from itertools import product
from random import Random
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

TABLES = {
    "adult": "adult_aim",
    "msnbc": "msnbc",
    "fire": "fire_aim",
    "nltcs": "nltcs",
    "titanic": "titanic_aim",
}
TARGETS = {"adult": "income>50K", "titanic": "Survived"}
"""The paper's targets; of the other tables a column is drawn once and for all."""
DELTA = 1e-9
POINTS = RESULTS / "bounds"
RUNS = Results(RESULTS / "aim.jsonl")
STAMP = "NOT PRIVATE: seeded noise, errors against the true tables."


def workload_rule(name: str, table: str, levels: dict[str, int]) -> str:
    """The workload as the command line writes it."""
    if name == "target":
        target = TARGETS.get(table) or Random(0).choice(sorted(levels))
        return f"target:{target}:3way"
    return {"skewed": "skewed:256:3way:seed=0"}.get(name, name)


def run_one(case: Case) -> Record:
    """Fit, draw as many rows as the table is believed to have, and judge both."""
    import numpy as np

    from admeasure.errors import UsageError
    from admeasure.evaluation import compare
    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.sources.memory import MemorySource
    from admeasure.sources.open import open_source
    from admeasure.verbs.fit import fit
    from admeasure.workload import parse_workload

    levels = levels_of(TABLES[case.table])
    schema = Schema.coded(case.table, levels)
    workload = parse_workload(workload_rule(case.workload, case.table, levels), schema.domain)
    sized = case.mechanism in ("aim", "mwem-pgm", "mst", "privbayes")
    options = {"max-megabytes": str(case.megabytes)} if sized else {}
    data = data_folder() / f"{TABLES[case.table]}.parquet"

    wall, cpu = time.perf_counter(), cpu_seconds()
    release = fit(
        data,
        schema,
        workload=workload,
        mechanism=build(case.mechanism, options),
        epsilon=case.epsilon,
        delta=DELTA,
        seed=case.seed,
    )
    fitted = time.perf_counter()
    try:
        rows = release.model.sample(release.rows, np.random.default_rng(case.seed))
    except UsageError:  # a mechanism that answers questions only
        rows = None
    drawn = time.perf_counter()
    record: Record = {
        "fit_seconds": round(fitted - wall, 3),
        "rows_seconds": round(drawn - fitted, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_megabytes": round(peak_megabytes(), 1),
        "model_megabytes": round(float(getattr(release.model, "megabytes", 0.0)), 3),
        "rounds": release.facts["rounds"],
        "rho_spent": release.certificate.rho_spent / release.certificate.rho,
    }
    truth = open_source(data, schema)
    judged = compare(truth.counts, release.model.marginals, workload, schema.domain)
    record |= {"model_error": judged.workload_error, "max_error": judged.max_error}
    if rows is not None:
        synthetic = MemorySource.from_codes(rows, schema)
        judged = compare(truth.counts, synthetic.counts, workload, schema.domain)
        record["rows_error"] = judged.workload_error
        if judged.equivalent is not None:
            record["sample_fraction"] = judged.equivalent.fraction
    if case.mechanism == "aim":
        record["bounds"] = _judge_bounds(case, release, truth)
    return record


def run_job(job: Record) -> Record:
    """One case, in the process that `parallel` starts for it."""
    return run_one(Case(**job))


def _judge_bounds(case: Case, release: Any, truth: Any) -> dict[str, Any]:
    """For each kind of marginal: how many, how often the bound held, the median of bound / error.

    Errors are in rows, of the model's answers; a marginal without any error is left out of ratios.
    """
    import numpy as np

    found = release.bounds(confidence=0.95)
    exact = dict(zip(found, truth.counts(list(found)), strict=True))
    believed = dict(zip(found, release.model.marginals(list(found)), strict=True))
    points = [
        (float(np.abs(exact[r] - believed[r]).sum()), bound.error, bound.paper, bound.kind)
        for r, bound in found.items()
    ]
    POINTS.mkdir(parents=True, exist_ok=True)
    rows = int(truth.counts([()])[0])
    (POINTS / f"{_name(case)}.json").write_text(json.dumps({"rows": rows, "points": points}))
    summary = {}
    for kind in sorted({p[3] for p in points}):
        mine = [p for p in points if p[3] == kind]
        summary[kind] = {
            "marginals": len(mine),
            "held": sum(error <= bound for error, bound, _, _ in mine),
            "median_ratio": statistics.median(b / e for e, b, _, _ in mine if e),
            "median_ratio_paper": statistics.median(p / e for e, _, p, _ in mine if e),
        }
    return summary


def _name(case: Case) -> str:
    return "-".join(map(str, (case.table, case.workload, case.epsilon, case.megabytes, case.seed)))


COLUMNS = (
    "runs",
    "model",
    "rows",
    "low",
    "high",
    "wall s",
    "cpu s",
    "peak MB",
    "model MB",
    "rounds",
)


def table_lines(records: list[Record]) -> list[str]:
    """One line for each setting: means over seeds, the lowest and highest error of the rows."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        setting = (r["table"], r["workload"], r["epsilon"], r["megabytes"], r["mechanism"])
        groups.setdefault(setting, []).append(r)
    head = f"{'table':8} {'workload':10} {'eps':>6} {'MB':>6} {'mechanism':12}"
    lines = [head + "".join(f"{c:>10}" for c in COLUMNS)]
    for setting in sorted(groups):
        table, workload, epsilon, megabytes, mechanism = setting
        left = f"{table:8} {workload:10} {epsilon:6g} {megabytes:6g} {mechanism:12}"
        good = [r for r in groups[setting] if "error" not in r]
        if not good:
            lines.append(f"{left} {groups[setting][0]['error']}")
            continue
        errors = [r.get("rows_error", r["model_error"]) for r in good]
        cells = [
            f"{len(good)}",
            f"{_mean(good, 'model_error'):.4f}",
            f"{_mean(good, 'rows_error'):.4f}" if "rows_error" in good[0] else "-",
            f"{min(errors):.4f}",
            f"{max(errors):.4f}",
            f"{_mean(good, 'fit_seconds') + _mean(good, 'rows_seconds'):.2f}",
            f"{_mean(good, 'cpu_seconds'):.2f}",
            f"{_mean(good, 'peak_megabytes'):.0f}",
            f"{_mean(good, 'model_megabytes'):.2f}",
            f"{_mean(good, 'rounds'):.0f}",
        ]
        lines.append(left + "".join(f"{cell:>10}" for cell in cells))
    versions = {r["code"] for r in records}
    if len(versions) > 1:
        lines.append(f"Results of {len(versions)} versions of the code; --again runs them anew.")
    return lines


def _mean(records: list[Record], field: str) -> float:
    return statistics.fmean(r[field] for r in records)


def bound_lines(records: list[Record]) -> list[str]:
    lines = [
        f"{'table':8} {'eps':>6} {'MB':>6} {'seed':>5} {'kind':12}{'marginals':>10}{'held':>7}"
        f"{'ratio':>8}{'paper':>8}   (medians of bound / true error at 95%)"
    ]
    for r in records:
        for kind, found in r.get("bounds", {}).items():
            lines.append(
                f"{r['table']:8} {r['epsilon']:6g} {r['megabytes']:6g} {r['seed']:5} {kind:12}"
                f"{found['marginals']:>10}{found['held']:>7}"
                f"{found['median_ratio']:8.2f}{found['median_ratio_paper']:8.2f}"
            )
    lines.append("The paper reports 4.4 (supported) and 8.3 (unsupported), FIRE at epsilon 10.")
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tables", default="adult")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--mechanisms", default="aim")
    parser.add_argument("--workloads", default="all-3way", help="all-3way, target, skewed")
    parser.add_argument("--megabytes", default="80", help="size limits of the model")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--again", action="store_true", help="run what has a result, too")
    parser.add_argument("--table", action="store_true", help="print all results and stop")
    parser.add_argument("--bounds", action="store_true", help="FIRE at epsilon 10, bounds")
    return parser.parse_args()


def cases_of(given: argparse.Namespace) -> list[Case]:
    tables, epsilons = given.tables.split(","), map(float, given.epsilons.split(","))
    mechanisms, workloads = given.mechanisms.split(","), given.workloads.split(",")
    limits, seeds = map(float, given.megabytes.split(",")), range(given.seeds)
    if unknown := set(tables) - set(TABLES):
        sys.exit(f"There is no table {unknown.pop()}. There are: {', '.join(TABLES)}.")
    parts = product(tables, workloads, epsilons, mechanisms, limits, seeds)
    return [Case(*part) for part in parts]


def main() -> None:
    given = arguments()
    print(STAMP)
    if given.table:
        records = list(RUNS.read().values())
        if not records:
            sys.exit(f"Nothing was run yet: {RUNS.path} is not there.")
        print("\n".join(table_lines(records)))
        return
    if given.bounds:
        given.tables, given.epsilons, given.mechanisms = "fire", "10", "aim"
        given.workloads = "all-3way"
    cases = cases_of(given)
    jobs = [asdict(case) for case in cases]
    for record in parallel(
        jobs, run_job, given.processes, results=RUNS, limit=given.limit, again=given.again
    ):
        print("\n".join(table_lines([record])[1:]), flush=True)
    stored = RUNS.read()
    records = [stored[case.key] for case in cases]
    print("\n".join(bound_lines(records) if given.bounds else table_lines(records)))


if __name__ == "__main__":
    main()
