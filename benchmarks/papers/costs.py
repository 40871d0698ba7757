"""How long jobs take: processor seconds of single jobs, measured, and the estimate for the others.

A job that was run counts with its own time. Of the others it is taken from `MEASURED`, the whole
process included, by table and mechanism at epsilon 0.1, 1 and 10; in between by powers of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from papers.case import Case
from papers.experiment import Experiment, Scale
from papers.pieces import Pieces

Seconds = tuple[float, float, float]
"""At epsilon 0.1, 1 and 10."""

AT = (0.1, 1.0, 10.0)
MECHANISMS: dict[str, Seconds] = {
    "gem": (30, 45, 60),
    "gem-pub": (60, 60, 60),
    "rap": (5, 7, 12),
    "rap-softmax": (6, 12, 20),
    "rap-box": (15, 20, 25),
    "dualquery": (12, 25, 40),
    "mwem-rp": (7, 8, 12),
    "privsyn": (5, 8, 12),
    "pmw-pub": (4, 6, 8),
    "pep": (4, 5, 6),
}
"""Where a table has no time of its own."""
USUAL: Seconds = (3, 3, 4)
MEASURED: dict[tuple[str, str], Seconds] = {
    ("adult", "aim"): (2.7, 3.9, 28),
    ("adult", "aim-plus"): (3.3, 5.1, 40),
    ("adult", "rap"): (7.2, 16.5, 30),
    ("fire", "aim"): (7, 21, 44),
    ("fire", "aim-plus"): (19, 24, 60),
    ("fire", "mwem-pgm"): (9.4, 10.1, 12),
    ("fire", "privmrf"): (6, 10, 20),
    ("fire+zeros", "aim"): (8, 21, 50),
    ("msnbc", "aim"): (15, 29, 60),
    ("msnbc", "aim-plus"): (20, 40, 80),
    ("msnbc", "privmrf"): (14, 20, 40),
    ("msnbc", "mwem-pgm"): (20.5, 18, 25),
    ("nltcs", "aim"): (3.5, 6, 10),
    ("nltcs", "aim-plus"): (4.5, 7, 12),
    ("adult-reduced", "gem"): (25, 30, 30),
    ("pa18", "dualquery"): (15, 32, 60),
}
FULL = 8.0
"""How much longer a job of the full run takes for what learns by gradients: larger networks, more
product rows."""


def seconds_of(case: Case, scale: Scale = "reduced") -> float:
    usual = MECHANISMS.get(case.mechanism, USUAL)
    known = MEASURED.get((case.table, case.mechanism), usual)
    if case.table in ("msnbc", "fire") and (case.table, case.mechanism) not in MEASURED:
        known = tuple(s + (9 if case.table == "msnbc" else 1.5) for s in known)
    place = math.log10(min(max(case.epsilon, AT[0]), AT[-1])) + 1
    low = min(int(place), 1)
    seconds = known[low] * (known[low + 1] / known[low]) ** (place - low)
    learned = case.mechanism in ("gem", "gem-pub", "rap", "rap-box", "rap-softmax", "mwem-rp")
    return seconds * (FULL if scale == "full" and learned else 1.0)


def estimate(experiment: Experiment, scale: Scale, pieces: Pieces) -> tuple[int, float]:
    """Jobs, and processor seconds of all of them, those that are done included."""
    jobs = list(dict.fromkeys(experiment.cases(scale)))
    return len(jobs), sum(_known(case, scale, pieces) for case in jobs)


def _known(case: Case, scale: Scale, pieces: Pieces) -> float:
    record = pieces.read(case) or {}
    return record.get("all_cpu_seconds", seconds_of(case, scale))


def listed(experiments: Sequence[Experiment], pieces: Pieces) -> Iterator[str]:
    yield f"{'':18}{'reduced':>18}{'full':>20}"
    yield f"{'':18}{'jobs':>8}{'CPU min':>10}{'jobs':>10}{'CPU hours':>10}"
    for e in experiments:
        jobs, seconds = estimate(e, "reduced", pieces)
        more, hours = estimate(e, "full", pieces)
        yield (
            f"{e.name:18}{jobs:>8}{seconds / 60:>10.0f}{more:>10}{hours / 3600:>10.0f}  {e.title}"
        )
    for scale in ("reduced", "full"):
        cases = {c for e in experiments for c in e.cases(scale)}
        hours = sum(_known(case, scale, pieces) for case in cases) / 3600
        yield (
            f"{scale}: {len(cases):,} jobs (experiments share some), about {hours:.1f} processor "
            f"hours, {hours / 2:.1f} hours on 2 cores"
        )
