"""Mixtures of products at scale: answers, selection, whole runs. NOT PRIVATE: compares with the
true tables.

    python benchmarks/rap.py                     answers, thresholds, all-3way: on the processor
    python benchmarks/rap.py --gpu               the same and the grid on an accelerator
    python benchmarks/rap.py --only grid --jobs 8    T and K of the paper's grid and the default,
                                                 a process for each run; goes on where it stopped
    python benchmarks/rap.py --data DIR          where the tables are, if not $ADMEASURE_DATA

Times are wall and processor seconds (all threads); memory is the peak of the process. The noise is
seeded, the relation and delta are the paper's: replace, 1/n².
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import rap_times
from admeasure.domain import Domain
from admeasure.families.products.family import ProductModel
from admeasure.families.products.placement import accelerator
from admeasure.families.products.tensor import Layout, ProductAnswers, marginals
from admeasure.mechanisms.rap import Rap
from admeasure.mechanisms.rap_softmax import RapSoftmax
from admeasure.planning.division import Task
from admeasure.privacy.convert import rho_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.reading import AnswerReader
from admeasure.privacy.scores.accelerator import scored
from admeasure.privacy.scores.score import GRID as GRID_STEPS
from admeasure.privacy.scores.streamed import CellErrors
from admeasure.privacy.truth import ExactAnswers, ExactCells
from admeasure.queries import Marginal, Threshold
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.sparse import SparseCounts
from admeasure.workload import Workload, parse_workload
from common import RESULTS, Results, data_folder, key_of, parallel, peak_megabytes

GRID = [(t, k) for t in (1, 4, 16, 64) for k in (4, 16, 64, 256)]
SMALL_GRID = [(1, 64), (4, 4), (4, 16), (4, 64), (16, 4), (16, 16), (16, 64)]
ROWS = 1000


def load(name: str, folder: Path) -> MemorySource:
    import duckdb

    stored = json.loads((folder / f"{name}.schema.json").read_text())["columns"]
    levels = {column["name"]: column["domain_size"] for column in stored}
    frame = duckdb.sql(f"SELECT * FROM '{folder / name}.parquet'").fetchnumpy()
    schema = Schema.coded(name, levels)
    privacy = schema.privacy.model_copy(update={"neighbours": "replace"})
    codes = {c: np.asarray(frame[c]) for c in levels}
    return MemorySource(codes, schema.model_copy(update={"privacy": privacy}))


def thresholds(domain: Domain, r: int, k: int, count: int, most: int, seed: int = 0) -> Workload:
    """Random sets of k columns with at most so many targets each."""
    names, random = sorted(domain.columns), Random(seed)
    found: set[tuple[str, ...]] = set()
    while len(found) < count:
        columns = tuple(sorted(random.sample(names, k)))
        if domain.cells(columns) <= most:
            found.add(columns)
    return Workload(Threshold(columns, r) for columns in found)


def cells_of(workload: Workload, domain: Domain) -> int:
    return sum(domain.cells(q.columns) for q in workload)


def random_rows(domain: Domain, rows: int = ROWS) -> np.ndarray:
    from admeasure.families.products.optimise import first_rows

    return first_rows(Layout.of(domain), rows, "softmax")


def present_error(source: MemorySource, model: ProductModel, workload: Workload) -> float:
    """The largest error of any query, in shares, by whatever scores the queries in a run."""
    queries = workload.targets
    ahead = AnswerReader(source, lambda columns: source.counts([columns])[0])
    ahead.expect(queries)
    n, worst = int(source.counts([()])[0]), -1
    for block in CellErrors(model).blocks(queries, ExactAnswers(ahead)):
        low, high = worst, 2 * n * GRID_STEPS  # the block's largest is at most `high`
        while low < high:
            cut = (low + high) // 2
            found = block.scores.above(cut, 1 << 16)
            if found is None:
                low = cut + 1
            elif len(found[1]):
                low = high = int(found[1].max())
            else:
                high = cut
        worst = max(worst, low)
    return worst / GRID_STEPS / n


def run(
    source: MemorySource,
    workload: Workload,
    mechanism: Any,
    epsilon: float,
    seed: int,
    **how: Any,
) -> dict[str, Any]:
    from dataclasses import replace

    n = int(source.counts([()])[0])
    curator = Curator(source, Ledger(Fraction(rho_of(epsilon, 1 / n**2))), SeededNoise(seed))
    family = mechanism.family()
    family = replace(family, how=replace(family.how, **how))
    with rap_times.split(waiting=True) as parts:
        wall, busy = time.perf_counter(), time.process_time()
        outcome = mechanism.run_by(family, Task.of(source.schema, workload), curator)
        took = time.perf_counter() - wall, time.process_time() - busy
    assert isinstance(outcome.model, ProductModel)
    chosen = [e for e in curator.journal.events if e["event"] == "choose"]
    begun = time.perf_counter()
    worst = present_error(source, outcome.model, workload)
    return {
        "mechanism": mechanism.name,
        "epsilon": epsilon,
        "T": outcome.rounds,
        "K": chosen[0]["k"] if chosen else None,
        "present_error": round(worst, 5),
        "wall_s": round(took[0], 2),
        "cpu_s": round(took[1], 2),
        "queries": cells_of(workload, source.schema.domain),
        "peak_mb": round(peak_megabytes()),
        "parts": rap_times.shown(parts),
        "evaluation_s": round(time.perf_counter() - begun, 2),
    }


def timed(work: Callable[[], Any], repeats: int = 3) -> tuple[float, float]:
    """The best wall and processor seconds after one warm-up."""
    work()
    walls, busy = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        busy.append(time.process_time() - cpu)
    return min(walls), min(busy)


def answers(folder: Path, *, gpu: bool) -> Iterator[dict[str, Any]]:
    """All 3-way marginals of adult_rap; on an accelerator those of loans_rap too."""
    domain = load("adult_rap", folder).schema.domain
    layout, P = Layout.of(domain), random_rows(domain)
    triples = list(combinations(layout.columns, 3))
    cells = sum(layout.cells(c) for c in triples)
    wall, cpu = timed(lambda: marginals(P, layout, triples))
    yield {"what": "adult all-3way, whole", "queries": cells, "wall_s": wall, "cpu_s": cpu,
           "peak_mb": peak_megabytes(), "per_s": cells / wall}  # fmt: skip

    def stream() -> None:
        made = ProductAnswers(P, layout)
        for columns in triples:
            for _ in made.blocks(Marginal(columns)):
                pass

    wall, cpu = timed(stream)
    yield {"what": "adult all-3way, in blocks", "queries": cells, "wall_s": wall, "cpu_s": cpu,
           "peak_mb": peak_megabytes(), "per_s": cells / wall}  # fmt: skip
    if gpu:
        for name in ("adult_rap", "loans_rap"):
            yield device_answers(load(name, folder).schema.domain, name)


def device_answers(domain: Domain, name: str) -> dict[str, Any]:
    """Answers, grid and scores of all 3-way marginals on the device; counts are zero there."""
    layout = Layout.of(domain)
    model = ProductModel(domain, random_rows(domain), 1000.0, accelerator=accelerator())
    triples = [Marginal(c) for c in combinations(layout.columns, 3)]
    cells = sum(layout.cells(q.columns) for q in triples)

    def nothing(query: Any) -> ExactCells:
        none = np.zeros((0, 3), np.uint16)
        return ExactCells(SparseCounts(query.columns, none, np.zeros(0, np.int64)), domain)

    def work() -> None:
        assert model.placed is not None
        for batch in scored(model.placed, triples, ExactAnswers(nothing)):
            assert batch.scores.above(2**40, 1) is not None

    wall, cpu = timed(work, repeats=1)
    return {"what": f"{name} all-3way, on the device", "queries": cells, "wall_s": wall,
            "cpu_s": cpu, "per_s": cells / wall}  # fmt: skip


def at_scale(
    folder: Path, *, gpu: bool, rounds: int, kinds: list[str], epsilons: list[float]
) -> Iterator[dict[str, Any]]:
    """64 random 1-of-4 thresholds of loans_rap, about 3.5e7 targets, T = 64, n' = 1000."""
    source = load("loans_rap", folder)
    workload = thresholds(source.schema.domain, 1, 4, 64, 1_800_000)
    options: dict[str, Any] = {"rounds": rounds, "queries": 4, "product_rows": ROWS}
    # As printed: Adam for each level, no stop at the noise, a small learning rate, many steps.
    paper = {"learning_rate": 0.001, "tolerance": 1e-4, "floor": 0.0, "moment": "level",
             "steps": 5000}  # fmt: skip
    for epsilon in epsilons:
        for kind in kinds:
            what = f"loans 64 x 1-of-4, {kind}"
            how = paper if kind == "paper" else {}
            mechanism = (RapSoftmax if kind == "softmax" else Rap)(**options)
            yield {"what": what, **run(source, workload, mechanism, epsilon, 0, **how)}
            if gpu and kind != "paper":
                again = run(source, workload, mechanism, epsilon, 1)
                yield {"what": f"{what}, compiled", **again}


def everything(folder: Path, *, most: int | None, rounds: int) -> Iterator[dict[str, Any]]:
    """Selection over 3-way marginals of loans_rap in one workload: K = 64 a round."""
    source = load("loans_rap", folder)
    workload = parse_workload("all-3way", source.schema.domain)
    if most is not None:
        workload = Workload(list(workload)[:: max(1, len(workload) // most)])
    mechanism = Rap(rounds=rounds, queries=64, product_rows=ROWS)
    found = run(source, workload, mechanism, 0.1, 0)
    found["per_s"] = round(rounds * found["queries"] / found["wall_s"])
    yield {"what": f"loans, {len(workload):,} triples, {rounds} rounds", **found}


def grid(
    *, tables: list[str], seeds: int, small: bool, jobs: int, kind: str, limit: float, most: int
) -> Iterator[dict[str, Any]]:
    """Every T and K of the paper and the default, workloads of 64 triples."""
    settings = [(None, None), *(SMALL_GRID if small else GRID)]
    todo = [
        {"kind": kind, "table": table, "epsilon": epsilon, "T": t, "K": k, "seed": s, "most": most}
        for table in tables
        for epsilon in (0.1, 1.0)
        for t, k in settings
        for s in range(seeds)
    ]
    # The longest first, so that none is left alone at the end.
    todo.sort(key=lambda job: -(job["T"] or 16) * (job["K"] or 16))
    results = Results(RESULTS / "rap_grid.jsonl")
    for record in parallel(todo, grid_job, jobs, results=results, limit=limit):
        yield {"what": f"{record['table']} {record['T']} x {record['K']}", **record}
    done = results.read()
    for table in tables:
        for epsilon in (0.1, 1.0):
            tried: dict[Any, list[float]] = {}
            for job in todo:
                record = done.get(key_of(job), {})
                if (job["table"], job["epsilon"]) == (table, epsilon) and "found" in record:
                    error = record["found"]["present_error"]
                    tried.setdefault((job["T"], job["K"]), []).append(error)
            means = {key: float(np.mean(errors)) for key, errors in tried.items()}
            default = means.pop((None, None), None)
            if default is None or not means:
                continue
            best = min(means, key=lambda key: means[key])
            yield {"what": f"{table}: default / best of grid", "epsilon": epsilon, "of": len(means),
                   "ratio": default / means[best], "best": f"{best[0]} x {best[1]}"}  # fmt: skip


def grid_job(job: dict[str, Any]) -> dict[str, Any]:
    """One run, in the process that `parallel` starts for it."""
    # Several processes share one accelerator.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    source = load(job["table"], data_folder())
    # Another workload than the one (seed=0, adult_rap) on which the default was chosen.
    workload = parse_workload("random:64:3way:seed=1", source.schema.domain)
    if job["most"]:
        workload = Workload(
            q for q in workload if source.schema.domain.cells(q.columns) <= job["most"]
        )
    kind = Rap if job["kind"] == "rap" else RapSoftmax
    mechanism = kind(rounds=job["T"], queries=job["K"], product_rows=ROWS)
    return {"found": run(source, workload, mechanism, job["epsilon"], job["seed"])}


def shown(record: dict[str, Any]) -> str:
    parts = []
    for key, value in record.items():
        if key == "what" or value is None:
            continue
        parts.append(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}")
    return f"{record['what']:<34} {'  '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=["answers", "thresholds", "everything", "grid"])
    parser.add_argument("--rounds", type=int, help="64 of thresholds, 1 of everything")
    parser.add_argument("--kinds", nargs="+", default=["rap", "softmax"], help="or paper")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1])
    parser.add_argument("--triples", type=int, help="so many of the 17,296, evenly spaced")
    parser.add_argument("--tables", nargs="+", default=["adult_rap", "loans_rap"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--small-grid", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes of the grid")
    parser.add_argument("--limit", type=float, default=600, help="seconds of one run of the grid")
    parser.add_argument("--most", type=int, default=0, help="cells of a triple in the grid; 0: all")
    given = parser.parse_args()
    if given.data is not None:
        os.environ["ADMEASURE_DATA"] = str(given.data.resolve())
    folder = data_folder()
    if given.gpu and given.only != "grid":  # each run of the grid takes what it needs
        import jax

        print("devices:", jax.devices())
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "answers": lambda: answers(folder, gpu=given.gpu),
        "thresholds": lambda: at_scale(
            folder, gpu=given.gpu, rounds=given.rounds or 64, kinds=given.kinds,
            epsilons=given.epsilons,
        ),
        "everything": lambda: everything(folder, most=given.triples, rounds=given.rounds or 1),
        "grid": lambda: grid(
            tables=given.tables, seeds=given.seeds, small=given.small_grid, jobs=given.jobs,
            kind=given.kinds[0], limit=given.limit, most=given.most,
        ),
    }  # fmt: skip
    wanted = [given.only] if given.only else ["answers", "thresholds", "everything"]
    results = Results(RESULTS / ("rap_gpu.jsonl" if given.gpu else "rap.jsonl"))
    print("NOT PRIVATE: errors against the true table.")
    for part in wanted:
        for record in parts[part]():
            print(shown(record), flush=True)
            if part != "grid":
                results.append({"key": f"{part} {record['what']} {time.time()}", **record})


if __name__ == "__main__":
    main()
