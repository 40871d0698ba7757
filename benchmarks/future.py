"""Error on queries not yet known, against the size of the history and against drift (Avent and
Korolova 2023, Figures 12 and 15). NOT PRIVATE: compares with the true table.

    python benchmarks/future.py [--runs 5] [--drift-runs 12] [--jobs 2] [--rows 500]

As in the paper's Table 5: adult_rap, `rap`, 1-of-3 thresholds, epsilon 0.1, delta 1/n², replace;
T and K by default instead of the best of the paper's grid. Figure 15 is about small histories: 4
thresholds, whose columns are drawn geometrically. A history of 64 stands beside it.

Every run has its own order of the columns, history and noise. Its error at a drift is the mean over
`--drifts` drifted distributions with `--draws` thresholds each, and the same uniform numbers serve
every drift, so runs can be compared drift by drift. Intervals are Student's over the runs; the bars
of Figure 12, of few runs, go from the lowest run to the highest.

Adds to benchmarks/results/future.jsonl, goes on where it stopped, and draws the two pictures of
docs/explanations/rap.md (`--pictures FOLDER`).
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.stats import t as student

from admeasure.domain import Columns, Domain
from admeasure.mechanisms.rap import Rap
from admeasure.mechanisms.rap_softmax import RapSoftmax
from admeasure.privacy.convert import rho_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.queries import Threshold
from admeasure.sources.memory import MemorySource
from admeasure.workload.drift import RATIO, SHAPES, Features, Shape, historical
from admeasure.workload.history import Future, draw_history
from common import RESULTS, ROOT, Record, Results, cpu_seconds, data_folder, key_of, parallel
from rap import load

EPSILON, R, K = 0.1, 1, 3
SIZES = (1, 4, 16, 64)
DRIFTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
SMALL, LARGE = 4, 64
STEEP = 0.7
"""A ratio at which, over 14 columns, a drift of 0.4 moves half of the probability: the paper says
so of its own geometric distribution (5.3.3), whose ratio it does not print."""
MECHANISMS = {"rap": Rap, "rap-softmax": RapSoftmax}
COLOURS = ("#4269d0", "#c77700", "#2f7d4f", "#777777")

Series = dict[str, list[tuple[float, float, float, float]]]
"""For each line its points: x, error, low, high."""


def features_of(domain: Domain, job: Record) -> Features:
    shape: Shape = next(s for s in SHAPES if s == job["shape"])
    features = historical(domain, shape, order=job["seed"])
    if shape != "geometric":
        return features
    weights = [job["ratio"] ** i for i in range(len(features.columns))]
    return Features(features.columns, tuple(w / sum(weights) for w in weights))


def one(job: Record) -> Record:
    """A run and its errors at every drift, in the process that `parallel` starts for it."""
    source, started = load(job["table"], data_folder()), cpu_seconds()
    features, seed = features_of(source.schema.domain, job), job["seed"]
    history = draw_history(features, R, K, job["history"], seed)
    rows = int(source.counts([()])[0])
    budget = Ledger(Fraction(rho_of(EPSILON, 1 / rows**2)))
    curator = Curator(source, budget, SeededNoise(seed))
    mechanism = MECHANISMS[job["mechanism"]](product_rows=job["rows"])
    model = mechanism.run(curator, history, ()).model

    drawn: dict[float, Counter[Columns]] = {}
    distances: dict[float, float] = {}
    for gamma in DRIFTS:
        drifted = [
            features.drifted(gamma, Random(f"drift {seed} {i}")) for i in range(job["drifts"])
        ]
        distances[gamma] = float(np.mean([features.distance(f) for f in drifted]))
        drawn[gamma] = Counter()
        for i, future in enumerate(drifted):
            counts = Future(future, R, K, job["draws"], seed * job["drifts"] + i).counts()
            drawn[gamma].update({query.columns: times for query, times in counts.items()})
    asked = {query.columns for query in history}
    worst, zero = largest(source, model.marginals, sorted(asked.union(*drawn.values())))
    return {
        "present": max(worst[c] for c in asked),
        "future": {str(g): weighted(worst, drawn[g]) for g in DRIFTS},
        "all_zero": {str(g): weighted(zero, drawn[g]) for g in DRIFTS},
        "distance": {str(g): distances[g] for g in DRIFTS},
        "repeated": {str(g): weighted(dict.fromkeys(asked, 1.0), drawn[g]) for g in DRIFTS},
        "processor_s": cpu_seconds() - started,
    }


def largest(
    source: MemorySource, estimate: Callable[[list[Columns]], Any], columns: Sequence[Columns]
) -> tuple[dict[Columns, float], dict[Columns, float]]:
    """For each set of columns the largest error of any target, of the model and of all zeros."""
    rows, worst, zero = int(source.counts([()])[0]), {}, {}
    for start in range(0, len(columns), 16):
        batch = list(columns[start : start + 16])
        for c, true, made in zip(batch, source.counts(batch), estimate(batch), strict=True):
            query = Threshold(c, R)
            exact = query.answer(true) / rows
            worst[c] = float(np.abs(query.answer(made) / np.sum(made) - exact).max())
            zero[c] = float(exact.max())
    return worst, zero


def weighted(values: dict[Columns, float], drawn: Counter[Columns]) -> float:
    """Definition 5.3 for one release: the mean over the draws."""
    return sum(values.get(c, 0.0) * times for c, times in drawn.items()) / drawn.total()


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over independent runs and its 95% interval (Student); none from fewer than five."""
    mean, n = float(np.mean(values)), len(values)
    if n < 5:
        return mean, mean, mean
    wide = float(student.ppf(0.975, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean, mean - wide, mean + wide


def chart(path: Path, title: str, across: str, series: Series, ticks: Sequence[float], *,
          logs: bool) -> None:  # fmt: skip
    """One line chart with intervals as SVG."""
    wide, high, left, low, right = 600, 330, 50, 50, 170
    top = max(h for points in series.values() for *_, h in points) * 1.05
    places = np.log2(ticks) if logs else np.asarray(ticks)
    first, last = float(places[0]), float(places[-1])

    def x(value: float) -> float:
        at = float(np.log2(value)) if logs else value
        return left + 10 + (wide - left - right - 20) * (at - first) / (last - first)

    def y(value: float) -> float:
        return high - low - (high - low - 30) * max(value, 0.0) / top

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        f'<text x="{left}" y="18">{title}</text>',
        f'<text x="{(left + wide - right) / 2}" y="{high - 12}" text-anchor="middle">{across}'
        "</text>",
    ]
    for tick in ticks:
        out.append(f'<text x="{x(tick):.1f}" y="{high - 32}" text-anchor="middle">{tick:g}</text>')
    for tick in np.arange(0, top, 0.1):
        out.append(
            f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>'
        )
        out.append(f'<path d="M{left} {y(tick):.1f}H{wide - right}" stroke="#ddd"/>')
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i]
        path_ = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in points)
        out.append(f'<polyline points="{path_}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, _, down, up in points:
            out.append(f'<path d="M{x(at):.1f} {y(down):.1f}V{y(up):.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{wide - right + 10}" y="{40 + 18 * i}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="adult_rap")
    parser.add_argument("--mechanism", default="rap", choices=MECHANISMS)
    parser.add_argument("--runs", type=int, default=5, help="of each point of Figure 12")
    parser.add_argument("--drift-runs", type=int, default=12, help="of the small histories")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the histories")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=500, help="n'")
    parser.add_argument("--drifts", type=int, default=50)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    common = {name: getattr(given, name) for name in ("table", "mechanism", "rows", "drifts",
                                                      "draws")}  # fmt: skip

    def jobs_of(shape: str, ratio: float, size: int, runs: int) -> list[Record]:
        job = {**common, "epsilon": EPSILON, "shape": shape, "ratio": ratio, "history": size}
        return [{**job, "seed": seed} for seed in range(runs)]

    sized = {(s, n): jobs_of(s, RATIO, n, given.runs) for s in SHAPES for n in given.sizes}
    drifting = {
        f"history of {n}, ratio {ratio:g}": jobs_of(
            "geometric", ratio, n, given.drift_runs if n == SMALL else given.runs
        )
        for n, ratio in ((SMALL, STEEP), (SMALL, RATIO), (LARGE, RATIO))
    }
    todo = [job for group in (*sized.values(), *drifting.values()) for job in group]
    # Figure 15, then seed by seed: one that is stopped has as many runs of every point.
    todo.sort(key=lambda job: (job["history"] != SMALL, job["seed"], job["history"]))
    results = Results(RESULTS / "future.jsonl")
    print("NOT PRIVATE: errors against the true table.")
    for record in parallel(todo, one, given.jobs, results=results):
        said = record.get("error") or f"{record['future']['0.0']:.3f}"
        print(record["shape"], record["history"], record["ratio"], record["seed"], said, flush=True)
    done = {k: r for k, r in results.read().items() if "error" not in r}

    def found(jobs: list[Record]) -> list[Record]:
        return [done[key_of(job)] for job in jobs if key_of(job) in done]

    by_size: Series = {}
    for (shape, size), jobs in sized.items():
        if not (records := found(jobs)):
            continue
        point = interval([r["future"]["0.0"] for r in records])
        runs = [r["future"]["0.0"] for r in records]
        by_size.setdefault(shape, []).append((size, point[0], min(runs), max(runs)))
        present = float(np.mean([r["present"] for r in records]))
        print(f"{shape:<10} history {size:>3}  future {said_of(point)}  present {present:.3f}  "
              f"{len(records)} runs")  # fmt: skip
    for size in given.sizes:
        if not (records := found(sized["uniform", size])):
            continue
        point = interval([r["all_zero"]["0.0"] for r in records])
        by_size.setdefault("all-zero (uniform)", []).append((size, *point))
    by_drift: Series = {}
    for name, jobs in drifting.items():
        if not (records := found(jobs)):
            continue
        for gamma in DRIFTS:
            errors = np.array([r["future"][str(gamma)] for r in records])
            rise = errors - [r["future"]["0.0"] for r in records]
            repeated, distance, zero = (
                float(np.mean([r[what][str(gamma)] for r in records]))
                for what in ("repeated", "distance", "all_zero")
            )
            by_drift.setdefault(name, []).append((gamma, *interval(errors.tolist())))
            print(f"{name}  drift {gamma:<4}  future {said_of(interval(errors.tolist()))}  "
                  f"rise {said_of(interval(rise.tolist()))}  distance {distance:.2f}  "
                  f"asked before {repeated:.2f}  all-zero {zero:.3f}  "
                  f"{len(records)} runs")  # fmt: skip
    spent = sum(done[key_of(job)]["processor_s"] for job in todo if key_of(job) in done)
    print(f"{spent:.0f} processor seconds in all")
    title = f"{given.table}, {given.mechanism}, 1-of-3 thresholds, epsilon 0.1: future error"
    across = "thresholds in the history"
    chart(given.pictures / "future-history.svg", title, across, by_size, given.sizes, logs=True)
    chart(given.pictures / "future-drift.svg", title, "drift", by_drift,
          (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0), logs=False)  # fmt: skip


def said_of(point: tuple[float, float, float]) -> str:
    mean, low, high = point
    return f"{mean:.3f}" + (f" ({low:.3f} to {high:.3f})" if low < high else "")


if __name__ == "__main__":
    main()
