"""Figures 1 to 4 of McKenna et al. (2022) from the runs of benchmarks/aim.py. NOT PRIVATE."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from common import Case, Record

NUMBER = {"all-3way": 1, "target": 2, "skewed": 3}
AGNOSTIC = ("mst", "privbayes", "independent")
"""Dotted, as in the paper: mechanisms that take no notice of the workload."""
FOOT = "NOT PRIVATE: errors against the true table"


def draw(
    records: Sequence[Record], points: Path, name: Callable[[Case], str], folder: Path
) -> Iterator[Path]:
    """Draw what the records allow, and yield the files."""
    good = [r for r in records if "error" not in r]
    for workload, number in NUMBER.items():
        chosen = [r for r in good if r["workload"] == workload and r["megabytes"] == 80]
        if chosen:
            yield _errors(chosen, workload, folder / f"figure-{number}-{workload}.png")
    fire = [
        r
        for r in good
        if (r["table"], r["workload"], r["mechanism"]) == ("fire", "all-3way", "aim")
    ]
    if len({r["megabytes"] for r in fire}) > 1:
        yield _capacity(fire, folder / "figure-4ab-capacity.png")
    for r in fire:
        case = Case(**{field: r[field] for field in Case.__dataclass_fields__})
        stored = points / f"{name(case)}.json"
        if r["epsilon"] == 10 and r["seed"] == 0 and stored.exists():
            target = folder / f"figure-4c-bounds-{r['megabytes']:g}MB.png"
            yield _bounds(json.loads(stored.read_text()), r, target)


def _errors(records: Sequence[Record], workload: str, target: Path) -> Path:
    """Workload error against epsilon, a panel for each table; bars from lowest to highest."""
    tables = sorted({r["table"] for r in records})
    figure, axes = plt.subplots(1, len(tables), figsize=(4 * len(tables), 3.4), squeeze=False)
    for ax, table in zip(axes[0], tables, strict=True):
        for mechanism in sorted({r["mechanism"] for r in records}):
            mine = [r for r in records if (r["table"], r["mechanism"]) == (table, mechanism)]
            _line(ax, mine, "epsilon", _error, mechanism, dotted=mechanism in AGNOSTIC)
        ax.set(title=table.upper(), xlabel="epsilon", xscale="log", yscale="log")
    axes[0][0].set_ylabel("workload error")
    axes[0][-1].legend(fontsize=7)
    return _saved(figure, f"{workload.upper()}, delta 1e-9", target)


def _capacity(records: Sequence[Record], target: Path) -> Path:
    """Run time and error against the size limit of the model."""
    figure, (time, error) = plt.subplots(1, 2, figsize=(9, 3.4))
    for epsilon in sorted({r["epsilon"] for r in records}):
        mine = [r for r in records if r["epsilon"] == epsilon]
        _line(time, mine, "megabytes", lambda r: r["cpu_seconds"], f"epsilon {epsilon:g}")
        _line(error, mine, "megabytes", _error, f"epsilon {epsilon:g}")
    for ax, what in ((time, "CPU seconds"), (error, "workload error")):
        ax.set(xlabel="model capacity, MB", ylabel=what, xscale="log", yscale="log")
    error.legend(fontsize=7)
    return _saved(figure, "FIRE, ALL-3WAY", target)


def _bounds(stored: Record, record: Record, target: Path) -> Path:
    """Each marginal's bound against its true error."""
    figure, ax = plt.subplots(figsize=(4.6, 4.2))
    rows = stored["rows"]
    for kind, colour in (("supported", "C0"), ("unsupported", "C1"), ("trivial", "C7")):
        mine = [(e / rows, b / rows) for e, b, _, k in stored["points"] if k == kind and e]
        if mine:
            ratio = statistics.median(b / e for e, b in mine)
            label = f"{kind}, median ratio {ratio:.1f}"
            ax.scatter(*zip(*mine, strict=True), s=8, color=colour, label=label)
    ends = ax.get_xlim()
    ax.plot([1e-5, 2], [1e-5, 2], color="black", linewidth=0.7)
    ax.set(xlabel="true error", ylabel="bound at 95%", xscale="log", yscale="log")
    ax.set_xlim(max(1e-4, ends[0]), 2)
    ax.legend(fontsize=7)
    title = f"FIRE, epsilon {record['epsilon']:g}, {record['megabytes']:g} MB"
    return _saved(figure, title, target)


def _line(ax, records, field, value, label, *, dotted: bool = False) -> None:
    """Means with bars from the lowest to the highest run."""
    found: dict[float, list[float]] = {}
    for r in records:
        found.setdefault(r[field], []).append(value(r))
    if not found:
        return
    xs = sorted(found)
    means = [statistics.fmean(found[x]) for x in xs]
    low = [m - min(found[x]) for m, x in zip(means, xs, strict=True)]
    high = [max(found[x]) - m for m, x in zip(means, xs, strict=True)]
    style = "o:" if dotted else "o-"
    ax.errorbar(xs, means, yerr=[low, high], fmt=style, markersize=3, label=label, linewidth=1)


def _error(record: Record) -> float:
    return record.get("rows_error", record["model_error"])


def _saved(figure, title: str, target: Path) -> Path:
    figure.suptitle(title)
    figure.text(0.99, 0.01, FOOT, ha="right", fontsize=6, color="grey")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=130)
    plt.close(figure)
    return target
