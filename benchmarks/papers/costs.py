"""How long jobs take: processor seconds of single jobs, measured, and the estimate for the others.

A measured job counts with its own time. Of the others the time is taken from `MEASURED`: by table
and mechanism at epsilon 0.1 and 1, in between and beyond as a power of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from papers.case import Case
from papers.experiment import Experiment, Scale
from papers.pieces import Pieces

START = 3.0
"""A process, its imports and reading the table."""
USUAL = (10.0, 20.0)
MEASURED: dict[tuple[str, str], tuple[float, float]] = {}


def seconds_of(case: Case) -> float:
    small, large = MEASURED.get((case.table, case.mechanism), USUAL)
    power = math.log10(large / small)
    return START + small * min(max(case.epsilon, 0.1), 100.0) ** power * 10**power


def estimate(experiment: Experiment, scale: Scale, pieces: Pieces) -> tuple[int, float]:
    """Jobs, and processor seconds of all of them, those that are done included."""
    total, jobs = 0.0, list(dict.fromkeys(experiment.cases(scale)))
    for case in jobs:
        record = pieces.read(case)
        known = None if record is None else record.get("all_cpu_seconds")
        total += seconds_of(case) if known is None else known
    return len(jobs), total


def listed(experiments: Sequence[Experiment], pieces: Pieces) -> Iterator[str]:
    yield f"{'':14}{'reduced':>18}{'full':>20}"
    yield f"{'':14}{'jobs':>8}{'CPU min':>10}{'jobs':>10}{'CPU min':>10}"
    for e in experiments:
        cells = "".join(
            f"{jobs:>{w}}{seconds / 60:>10.0f}"
            for w, (jobs, seconds) in zip(
                (8, 10),
                (estimate(e, "reduced", pieces), estimate(e, "full", pieces)),
                strict=True,
            )
        )
        yield f"{e.name:14}{cells}  {e.title}"
    for scale in ("reduced", "full"):
        cases = {c for e in experiments for c in e.cases(scale)}
        hours = sum(map(seconds_of, cases)) / 3600
        yield (
            f"{scale}: {len(cases)} jobs (several experiments share some), "
            f"about {hours:.1f} processor hours"
        )
