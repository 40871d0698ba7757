"""Error on queries not yet known, against the size of the history and against drift (Avent and
Korolova 2023, Figures 12 and 15). NOT PRIVATE: compares with the true table.

    python benchmarks/future.py [--table adult_rap] [--runs 2] [--rows 500] [--draws 60]

1-of-3 thresholds, epsilon 0.1, delta 1/n², replace; T and K by default instead of the best of the
paper's grid. Writes benchmarks/results/future.jsonl and two pictures (SVG) beside it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np

from admeasure.evaluate.future import largest_errors, pooled
from admeasure.mechanisms.rap_softmax import RapSoftmax
from admeasure.privacy.convert import rho_of
from admeasure.privacy.curator import Curator
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.noise import SeededNoise
from admeasure.sources.memory import MemorySource
from admeasure.workload.drift import SHAPES, historical
from admeasure.workload.history import Future, draw_history
from common import RESULTS, Results, data_folder
from rap import load

SIZES = (1, 4, 16, 64)
DRIFTS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
COLOURS = {"uniform": "#4269d0", "zipf": "#c77700", "geometric": "#2f7d4f", "all-zero": "#777777"}

Series = dict[str, list[tuple[float, float, float, float]]]
"""For each line its points: x, error, low, high."""


def fitted(source: MemorySource, shape: str, size: int, rows: int, seed: int):
    domain = source.schema.domain
    features = historical(domain, next(s for s in SHAPES if s == shape), order=seed)
    history = draw_history(features, 1, 3, size, seed)
    n = int(source.counts([()])[0])
    curator = Curator(source, Ledger(Fraction(rho_of(0.1, 1 / n**2))), SeededNoise(seed))
    return RapSoftmax(product_rows=rows).run(curator, history, ()).model


def future(source: MemorySource, shape: str, gamma: float, draws: int, seed: int) -> Future:
    known = next(s for s in SHAPES if s == shape)
    features = historical(source.schema.domain, known, order=seed)
    return Future(features.drifted(gamma, Random(f"drift {seed}")), 1, 3, draws, seed)


def chart(path, title: str, across: str, series: Series, ticks: list[float], *, logs: bool) -> None:
    """One line chart with intervals as SVG."""
    wide, high, left, low = 560, 340, 60, 50
    top = max(h for points in series.values() for *_, h in points) * 1.05
    places = np.log2(ticks) if logs else np.asarray(ticks)
    first, last = float(places[0]), float(places[-1])

    def x(value: float) -> float:
        at = np.log2(value) if logs else value
        return left + (wide - left - 130) * (at - first) / (last - first)

    def y(value: float) -> float:
        return high - low - (high - low - 30) * value / top

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        f'<text x="{left}" y="18">{title}</text>',
        f'<text x="{(left + wide - 130) / 2}" y="{high - 12}" text-anchor="middle">{across}</text>',
    ]
    for tick in ticks:
        out.append(f'<text x="{x(tick)}" y="{high - 32}" text-anchor="middle">{tick:g}</text>')
    for tick in np.linspace(0, top, 5):
        out.append(f'<text x="{left - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:.2f}</text>')
        out.append(f'<path d="M{left} {y(tick)}H{wide - 130}" stroke="#ddd"/>')
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS.get(name, "#333333")
        path_ = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in points)
        out.append(f'<polyline points="{path_}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, _, down, up in points:
            out.append(f'<path d="M{x(at):.1f} {y(down):.1f}V{y(up):.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{wide - 120}" y="{40 + 18 * i}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="adult_rap")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--draws", type=int, default=60)
    given = parser.parse_args()
    source = load(given.table, data_folder())
    counted: dict = {}

    def truth(columns):
        missing = [c for c in columns if c not in counted]
        counted.update(zip(missing, source.counts(missing) if missing else [], strict=True))
        return [counted[c] for c in columns]

    results = Results(RESULTS / "future.jsonl")
    print("NOT PRIVATE: errors against the true table.")
    by_size: Series = {}
    by_drift: Series = {}
    for shape in SHAPES:
        for size in SIZES:
            started = time.perf_counter()
            models = [fitted(source, shape, size, given.rows, s) for s in range(given.runs)]
            for gamma in DRIFTS if size == SIZES[-1] else (0.0,):
                draws = [future(source, shape, gamma, given.draws, s) for s in range(given.runs)]
                errors = [
                    largest_errors(truth, model.marginals, drawn)
                    for model, drawn in zip(models, draws, strict=True)
                ]
                found = pooled(errors, distinct=len(draws[0].counts()))
                found = replace(found, draws=given.runs * given.draws)
                point = found.error, found.low, found.high
                if gamma == 0:
                    by_size.setdefault(shape, []).append((size, *point))
                if size == SIZES[-1]:
                    by_drift.setdefault(shape, []).append((gamma, *point))
                record = {"table": given.table, "shape": shape, "history": size, "drift": gamma}
                results.append({"key": str(record), **record, **found.to_json()})
                print(
                    f"{shape:<10} history {size:>3}  drift {gamma:<4}  future error "
                    f"{found.error:.4f} ({found.low:.4f} to {found.high:.4f})  "
                    f"{time.perf_counter() - started:.0f} s",
                    flush=True,
                )
    zero = [future(source, "uniform", 0.0, given.draws, 0)]
    worst = [
        largest_errors(truth, lambda cs: [np.zeros_like(t) for t in truth(cs)], f) for f in zero
    ]
    base = pooled(worst, distinct=0)
    by_size["all-zero"] = [(s, base.error, base.low, base.high) for s in SIZES]
    title = f"{given.table}: 1-of-3 thresholds, epsilon 0.1"
    chart(RESULTS / "future_history.svg", title, "size of the history", by_size,
          [float(s) for s in SIZES], logs=True)  # fmt: skip
    chart(RESULTS / "future_drift.svg", title + f", history of {SIZES[-1]}", "drift", by_drift,
          list(DRIFTS), logs=False)  # fmt: skip


if __name__ == "__main__":
    main()
