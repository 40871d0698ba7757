"""One estimation on the same measurements, here and by mbi 2.0.0: time and objective. NOT PRIVATE.

    python benchmarks/estimation.py [--mbi PYTHON] [--repeats N]

27 noisy marginals of ADULT (15 one-way, 12 two- and three-way, as AIM chooses at epsilon 1, with
AIM's first sigma there) are fitted from nothing. mbi lives in an environment of its own; PYTHON is
that environment's interpreter, and it is timed inside its own process: cold is the first fit, with
the compilation that every change of structure needs, warm is a second fit of the same structure.
The objective is weighted least squares, computed here for all of them from the fitted marginals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIGMA = 94.4
MBI_STEPS = 1000
PAIRS_AND_TRIPLES = [
    (0, 5), (1, 6), (3, 6), (9, 12), (10, 14), (12, 14),
    (1, 9, 14), (3, 4, 14), (5, 7, 9), (6, 9, 14), (7, 9, 14), (8, 9, 14),
]  # fmt: skip


def measurements() -> tuple[tuple[int, ...], list[tuple[int, ...]], list[np.ndarray]]:
    """Levels, cliques and noisy counts; the noise is seeded, for comparison only."""
    import duckdb

    from common import data_folder, levels_of

    named = levels_of("adult_aim")
    levels = tuple(named.values())
    table = duckdb.sql(f"SELECT * FROM '{data_folder() / 'adult_aim.parquet'}'").fetchnumpy()
    codes = [np.asarray(table[name]).astype(np.int64) for name in named]
    rng = np.random.default_rng(0)
    cliques = [*((a,) for a in range(len(levels))), *PAIRS_AND_TRIPLES]
    noisy = []
    for clique in cliques:
        shape = tuple(levels[a] for a in clique)
        index = np.ravel_multi_index([codes[a] for a in clique], shape)
        counts = np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)
        noisy.append(counts + rng.normal(0, SIGMA, shape))
    return levels, cliques, noisy


def objective(fitted: list[np.ndarray], noisy: list[np.ndarray]) -> float:
    return sum(
        0.5 * float((((f - y) / SIGMA) ** 2).sum()) for f, y in zip(fitted, noisy, strict=True)
    )


def ours(levels, cliques, noisy, repeats: int) -> dict[str, float]:
    """The first fit and the quickest of several, each with planning; imports are not timed."""
    import scipy.sparse  # noqa: F401

    from admeasure.families.graphical.estimation.estimate import estimate
    from admeasure.families.graphical.estimation.statistics import Observation

    seen = [Observation(c, y, SIGMA) for c, y in zip(cliques, noisy, strict=True)]
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        fit = estimate(levels, seen)
        seconds.append(time.perf_counter() - begun)
    return {
        "first_seconds": seconds[0],
        "best_seconds": min(seconds),
        "iterations": fit.iterations,
        "megabytes": fit.model.megabytes,
        "objective": objective(fit.model.marginals(cliques), noisy),
    }


def mbi(python: str, levels, cliques, noisy) -> dict[str, float]:
    """Run this file by the other interpreter and judge what it fitted."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.npz", Path(folder) / "answered.npz"
        tables = {f"table_{k}": y for k, y in enumerate(noisy)}
        np.savez(asked, levels=levels, cliques=json.dumps(cliques), **tables)
        subprocess.run([python, __file__, "--peer", str(asked), str(answered)], check=True)
        with np.load(answered) as found:
            fitted = [found[f"table_{k}"] for k in range(len(noisy))]
            outcome = {name: float(found[name]) for name in ("cold_seconds", "warm_seconds")}
    return outcome | {"objective": objective(fitted, noisy)}


def peer(asked: str, answered: str) -> None:
    """Inside mbi's environment: fit twice by mirror descent, its recommended algorithm."""
    import warnings

    warnings.simplefilter("ignore")
    from mbi import Domain, LinearMeasurement, estimation  # pyright: ignore[reportMissingImports]

    with np.load(asked) as given:
        levels = given["levels"].tolist()
        cliques = [tuple(c) for c in json.loads(str(given["cliques"]))]
        noisy = [given[f"table_{k}"] for k in range(len(cliques))]
    names = [f"a{k}" for k in range(len(levels))]
    domain = Domain(names, levels)
    named = [tuple(names[a] for a in clique) for clique in cliques]
    seen = [
        LinearMeasurement(y.reshape(-1), c, stddev=SIGMA) for y, c in zip(noisy, named, strict=True)
    ]
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        model = estimation.MirrorDescent().estimate(domain, seen, iters=MBI_STEPS)
        fitted = [np.asarray(model.project(c).values, dtype=float) for c in named[-1:]]
        seconds.append(time.perf_counter() - begun)
    fitted = [np.asarray(model.project(c).values, dtype=float) for c in named]
    tables = {f"table_{k}": table for k, table in enumerate(fitted)}
    np.savez(answered, cold_seconds=seconds[0], warm_seconds=seconds[1], **tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mbi", metavar="PYTHON", help="interpreter with mbi 2.0.0")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(*arguments.peer)
        return
    levels, cliques, noisy = measurements()
    result = {"admeasure": ours(levels, cliques, noisy, arguments.repeats)}
    if arguments.mbi:
        result["mbi"] = mbi(arguments.mbi, levels, cliques, noisy)
        first = result["admeasure"]["first_seconds"]
        result["ratio"] = {
            "cold": result["mbi"]["cold_seconds"] / first,
            "warm": result["mbi"]["warm_seconds"] / first,
        }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
