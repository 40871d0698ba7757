"""Figures from benchmarks/results/reweighting.jsonl: errors against epsilon, as in the papers.

Points are means over seeds with one standard error. Of several settings of a method (rounds,
strength, eta) the best one at each epsilon is drawn, as the papers do; a method that was run with
its default number of rounds alone is drawn as it is.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib

from reweighting_summary import best_setting, method_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Record = dict[str, Any]
METRICS = {"max_error": "largest error", "mean_error": "mean error", "rmse": "RMSE"}
STAMP = "NOT PRIVATE, seeded runs against the true table"


def draw(records: list[Record], mixtures: dict[str, Record], folder: Path) -> list[Path]:
    """One figure for each table, and one of PMW-Pub against Ji and Elkan's weights."""
    found = []
    for table in sorted({r["table"] for r in records}):
        mine = [r for r in records if r["table"] == table and "error" not in r]
        plain = [r for r in mine if not r["mechanism"].startswith("ji-elkan")]
        found += _figure(plain, table, f"reweighting-{table}", mixtures, folder)
        if len(plain) < len(mine):
            public = [r for r in mine if r["mechanism"].startswith(("ji-elkan", "pmw-pub"))]
            small = [r for r in public if r["epsilon"] <= 1]
            found += _figure(small, table, f"reweighting-{table}-ji-elkan", {}, folder)
    return found


def _figure(
    records: list[Record], table: str, name: str, mixtures: dict[str, Record], folder: Path
) -> list[Path]:
    if not records:
        return []
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), constrained_layout=True)
    methods = sorted({method_of(r) for r in records})
    colours = dict(zip(methods, plt.get_cmap("tab10").colors, strict=False))  # pyright: ignore
    for axis, (metric, label) in zip(axes, METRICS.items(), strict=True):
        for method in methods:
            x, y, e = zip(*_points(records, method, metric), strict=True)
            axis.errorbar(
                x, y, yerr=e, marker="o", ms=3, capsize=2, label=method, color=colours[method]
            )
        axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=label)
    for key, value in mixtures.items():
        of, candidate = key.split("/")
        if of == table and f"pmw-pub@{candidate}" in colours:
            axes[0].axhline(
                value["error"],
                linestyle="--",
                linewidth=1,
                color=colours[f"pmw-pub@{candidate}"],
                label=f"best-mixture error, {candidate}",
            )
    axes[0].legend(fontsize=6)
    figure.suptitle(f"{table}: {STAMP}", fontsize=9)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]


def _points(records: list[Record], method: str, metric: str) -> list[tuple[float, float, float]]:
    points = []
    for epsilon in sorted({r["epsilon"] for r in records if method_of(r) == method}):
        best = best_setting(records, method, epsilon, metric)
        error = statistics.stdev(best) / len(best) ** 0.5 if len(best) > 1 else 0.0
        points.append((epsilon, statistics.fmean(best), error))
    return points
