"""Mixtures of products at scale: answers, selection, whole runs. NOT PRIVATE: compares with the
true tables.

    python benchmarks/rap.py                     answers, thresholds, all-3way: on the processor
    python benchmarks/rap.py --gpu               the same and the grid on an accelerator
    python benchmarks/rap.py --only grid         T and K of the paper's grid against the default
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

from admeasure.domain import Domain
from admeasure.families.products.family import ProductModel
from admeasure.families.products.tensor import Answers, Layout, marginals
from admeasure.mechanisms import projection
from admeasure.mechanisms.rap import Rap
from admeasure.mechanisms.rap_softmax import RapSoftmax
from admeasure.privacy.convert import rho_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.privacy.score import GRID as GRID_STEPS
from admeasure.queries import Marginal, Threshold
from admeasure.schema import Schema
from admeasure.sources.memory import MemorySource
from admeasure.workload import Workload, parse_workload
from common import RESULTS, Results, peak_megabytes

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
    """The largest error of any query, in shares."""
    n, worst = int(source.counts([()])[0]), 0.0
    for query in workload:
        true, start = np.ravel(query.answer(source.counts([query.columns])[0])), 0
        for block in model.blocks(query):
            worst = max(worst, float(np.abs(block - true[start : start + block.size]).max()))
            start += block.size
    return worst / n


def run(
    source: MemorySource, workload: Workload, mechanism: Any, epsilon: float, seed: int, **how: Any
) -> dict[str, Any]:
    from dataclasses import replace

    n = int(source.counts([()])[0])
    curator = Curator(source, Ledger(Fraction(rho_of(epsilon, 1 / n**2))), SeededNoise(seed))
    fitting = replace(mechanism.how(), **how)
    wall, busy = time.perf_counter(), time.process_time()
    outcome = projection.run(mechanism, fitting, curator, workload, ())
    took = time.perf_counter() - wall, time.process_time() - busy
    assert isinstance(outcome.model, ProductModel)
    chosen = [e for e in curator.journal.events if e["event"] == "choose"]
    return {
        "mechanism": mechanism.name,
        "epsilon": epsilon,
        "T": outcome.rounds,
        "K": chosen[0]["k"] if chosen else None,
        "error": round(present_error(source, outcome.model, workload), 5),
        "wall_s": round(took[0], 2),
        "cpu_s": round(took[1], 2),
        "queries": cells_of(workload, source.schema.domain),
        "peak_mb": round(peak_megabytes()),
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
        made = Answers(P, layout)
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
    import jax.numpy as jnp

    from admeasure.families.products import device

    layout = Layout.of(domain)
    P = jnp.asarray(random_rows(domain))
    triples = [Marginal(c) for c in combinations(layout.columns, 3)]
    cells = sum(layout.cells(q.columns) for q in triples)
    tiles: dict[tuple[int, int], Any] = {}

    def work() -> None:
        made = None
        for query in triples:
            for lead, trail, rows, width in device._Plan(layout, query.columns).tiles:
                shape = lead.shape[1], trail.shape[1]
                if shape not in tiles:
                    tiles[shape] = jnp.zeros(shape, jnp.int32)
                made = device._tile(
                    P, lead, trail, tiles[shape], 1000.0 * GRID_STEPS, rows, width, r=3, k=3
                )
        assert made is not None
        made.block_until_ready()

    wall, cpu = timed(work, repeats=1)
    return {"what": f"{name} all-3way, on the device", "queries": cells, "wall_s": wall,
            "cpu_s": cpu, "per_s": cells / wall}  # fmt: skip


def at_scale(folder: Path, *, gpu: bool, rounds: int = 64) -> Iterator[dict[str, Any]]:
    """64 random 1-of-4 thresholds of loans_rap, about 3.5e7 targets, T = 64, n' = 1000."""
    source = load("loans_rap", folder)
    workload = thresholds(source.schema.domain, 1, 4, 64, 1_800_000)
    options: dict[str, Any] = {"rounds": rounds, "queries": 4, "product_rows": ROWS}
    yield {"what": "loans 64 x 1-of-4", **run(source, workload, Rap(**options), 0.1, 0)}
    yield {"what": "the same, softmax", **run(source, workload, RapSoftmax(**options), 0.1, 0)}
    if gpu:
        yield {"what": "softmax, compiled", **run(source, workload, RapSoftmax(**options), 0.1, 1)}
        # As printed: no stop at the noise, a small learning rate, many steps.
        paper = {"learning_rate": 0.001, "steps": 5000, "tolerance": 1e-4, "floor": 0.0}
        slow = Rap(**options, steps=5000)
        yield {"what": "paper's projection", **run(source, workload, slow, 0.1, 0, **paper)}


def everything(folder: Path, *, gpu: bool, most: int | None) -> Iterator[dict[str, Any]]:
    """Selection over 3-way marginals of loans_rap in one workload: one round of K = 64."""
    source = load("loans_rap", folder)
    workload = parse_workload("all-3way", source.schema.domain)
    if most is not None and not gpu:
        workload = Workload(list(workload)[:: max(1, len(workload) // most)])
    mechanism = Rap(rounds=1, queries=64, product_rows=ROWS)
    found = run(source, workload, mechanism, 0.1, 0)
    found["per_s"] = round(found["queries"] / found["wall_s"])
    yield {"what": f"loans, {len(workload):,} triples, one round", **found}


def grid(
    folder: Path, *, gpu: bool, tables: list[str], seeds: int, small: bool
) -> Iterator[dict[str, Any]]:
    """Every T and K of the paper and the default, workloads of 64 triples."""
    for name in tables:
        source = load(name, folder)
        # Another workload than the one (seed=0, adult_rap) on which the default was chosen.
        workload = parse_workload("random:64:3way:seed=1", source.schema.domain)
        for epsilon in (0.1, 1.0):
            tried: dict[str, list[float]] = {}
            for t, k in [(None, None), *(SMALL_GRID if small else GRID)]:
                for seed in range(seeds):
                    mechanism = Rap(rounds=t, queries=k, product_rows=ROWS)
                    found = run(source, workload, mechanism, epsilon, seed)
                    label = "default" if t is None else "grid"
                    yield {"what": f"{name} {label}", "seed": seed, **found}
                    tried.setdefault("default" if t is None else f"{t} x {k}", []).append(
                        found["error"]
                    )
            means = {key: float(np.mean(errors)) for key, errors in tried.items()}
            best = min((e, key) for key, e in means.items() if key != "default")
            yield {"what": f"{name}: default / best of grid", "epsilon": epsilon,
                   "ratio": means["default"] / best[0], "best": best[1]}  # fmt: skip


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
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--triples", type=int, help="so many of the 17,296, evenly spaced")
    parser.add_argument("--tables", nargs="+", default=["adult_rap", "loans_rap"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--small-grid", action="store_true")
    given = parser.parse_args()
    if given.data is not None:
        os.environ["ADMEASURE_DATA"] = str(given.data)
    from common import data_folder

    folder = data_folder()
    if given.gpu:
        import jax

        print("devices:", jax.devices())
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "answers": lambda: answers(folder, gpu=given.gpu),
        "thresholds": lambda: at_scale(folder, gpu=given.gpu, rounds=given.rounds),
        "everything": lambda: everything(folder, gpu=given.gpu, most=given.triples),
        "grid": lambda: grid(
            folder, gpu=given.gpu, tables=given.tables, seeds=given.seeds, small=given.small_grid
        ),
    }
    wanted = [given.only] if given.only else ["answers", "thresholds", "everything"]
    if given.gpu and not given.only:
        wanted.append("grid")
    results = Results(RESULTS / ("rap_gpu.jsonl" if given.gpu else "rap.jsonl"))
    print("NOT PRIVATE: errors against the true table.")
    for part in wanted:
        for record in parts[part]():
            print(shown(record), flush=True)
            results.append({"key": f"{part} {record['what']} {time.time()}", **record})


if __name__ == "__main__":
    main()
