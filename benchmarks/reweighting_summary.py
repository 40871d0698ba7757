"""Results of several runs in one number: by method, by epsilon, as tables for the documentation.

Settings that were tried several values of (rounds, strength, eta) are the method's own affair: the
best one by mean error counts, as in the papers, and the default stands beside it. NOT PRIVATE: on
private data the best setting is not known, and would have to be paid for.
"""

from __future__ import annotations

import statistics
from typing import Any

Record = dict[str, Any]

TRIED = ("rounds", "strength", "eta")
ALIKE = ("measure", "threads")
"""Options that are the same in all runs of a method."""


def method_of(record: Record) -> str:
    """The mechanism without what was tried and what is the same everywhere."""
    parts = record["mechanism"].split(",")
    return " ".join(p for p in parts if not p.startswith((*TRIED, *ALIKE)))


def is_default(record: Record) -> bool:
    return not any(p.startswith(TRIED) for p in record["mechanism"].split(","))


def best_setting(records: list[Record], method: str, epsilon: float, metric: str) -> list[float]:
    """A method's errors, one for each seed, with the setting that has the smallest mean among
    those that were run most often."""
    runs: dict[str, list[float]] = {}
    for r in records:
        if method_of(r) == method and r["epsilon"] == epsilon:
            runs.setdefault(r["mechanism"], []).append(r[metric])
    most = max(map(len, runs.values()))
    return min((r for r in runs.values() if len(r) == most), key=statistics.fmean)


def summary_lines(records: list[Record], metric: str = "max_error") -> list[str]:
    """For each table of data a Markdown table of mean errors (± standard error), methods by
    epsilon; "default" rows are runs whose settings were all left alone."""
    lines = []
    good = [r for r in records if "error" not in r]
    for table in sorted({r["table"] for r in good}):
        mine = [r for r in good if r["table"] == table]
        epsilons = sorted({r["epsilon"] for r in mine})
        lines += [f"{table}, {metric}", "", f"| | {' | '.join(f'{e:g}' for e in epsilons)} |"]
        lines += ["| --- |" + " ---: |" * len(epsilons)]
        for method in sorted({method_of(r) for r in mine}):
            own = [r for r in mine if method_of(r) == method]
            default = [r for r in own if is_default(r)]
            several = len({r["mechanism"] for r in own}) > 1
            rows = [(f"`{method}`" + (", best setting" if several else ""), own)]
            if several and default:
                rows.append((f"`{method}`, default", default))
            for name, part in rows:
                cells = [_cell(part, method, e, metric) for e in epsilons]
                lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def _cell(records: list[Record], method: str, epsilon: float, metric: str) -> str:
    if not any(r["epsilon"] == epsilon for r in records):
        return ""
    found = best_setting(records, method, epsilon, metric)
    mean = f"{statistics.fmean(found):.4f}"
    if len(found) < 2:
        return f"{mean} (one run)"
    return f"{mean} ± {statistics.stdev(found) / len(found) ** 0.5:.4f}"
