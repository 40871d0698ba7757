"""Figures from benchmarks/results/reweighting.jsonl: errors against epsilon, as in the papers."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Record = dict[str, Any]
METRICS = {"max_error": "max error", "mean_error": "mean error", "rmse": "RMSE"}


def draw(records: list[Record], mixtures: dict[str, Record], folder: Path) -> list[Path]:
    """One figure for each table; the best number of rounds for each method, as the papers report.
    The area below the best-mixture error is shaded: no reweighting gets there."""
    found = []
    for table in sorted({r["table"] for r in records}):
        mine = [r for r in records if r["table"] == table and "error" not in r]
        if not mine:
            continue
        figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), constrained_layout=True)
        for axis, (metric, label) in zip(axes, METRICS.items(), strict=True):
            _panel(axis, mine, metric)
            axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=label)
        for key, value in mixtures.items():
            name, candidate = key.split("/")
            if name == table and value["error"] > 1e-3:
                axes[0].axhspan(0, value["error"], alpha=0.12, label=f"best mixture, {candidate}")
        axes[0].legend(fontsize=7)
        figure.suptitle(f"{table}: NOT PRIVATE, seeded runs against the true table", fontsize=9)
        path = folder / f"reweighting-{table}.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
        found.append(path)
    return found


def _panel(axis: Any, records: list[Record], metric: str) -> None:
    for method in sorted({_method(r) for r in records}):
        points = []
        for epsilon in sorted({r["epsilon"] for r in records if _method(r) == method}):
            runs: dict[str, list[float]] = {}
            for r in records:
                if _method(r) == method and r["epsilon"] == epsilon:
                    runs.setdefault(r["mechanism"], []).append(r[metric])
            best = min(runs.values(), key=statistics.fmean)
            error = statistics.stdev(best) / len(best) ** 0.5 if len(best) > 1 else 0.0
            points.append((epsilon, statistics.fmean(best), error))
        x, y, e = zip(*points, strict=True)
        axis.errorbar(x, y, yerr=e, marker="o", capsize=2, label=method)


def _method(record: Record) -> str:
    """The mechanism without its number of rounds."""
    parts = [p for p in record["mechanism"].split(",") if not p.startswith(("rounds", "measure"))]
    return " ".join(parts)
