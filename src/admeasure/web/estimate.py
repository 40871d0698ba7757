"""What a run under way is worth so far: the error that noise alone would cause, from its journal.

For each marginal r of the workload that lies inside a measured one, the weighted average of what
was measured has noise of scale σ_r (AIM, Theorem 2), so an expected L1 error of sqrt(2/π) σ_r n_r
rows; so has one that is put together from measured residuals (`families.residuals`). Marginals of
which neither is there yet are counted apart: nothing is known of their error.
All are counted; of many that are covered the error is the mean over some at even distances.
Everything here comes from privatised results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import HALF_NORMAL
from admeasure.families.residuals import Residuals, query_of
from admeasure.measurement import Measurement
from admeasure.reporting.facts import evenly

MOST = 400
NO_VALUES = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Estimate:
    """`error` is in shares, over the `covered` of `marginals`; None before anything is known."""

    error: float | None
    covered: int
    marginals: int
    rows: float | None


def estimate(
    events: Sequence[dict[str, Any]], marginals: Sequence[Columns], domain: Domain
) -> Estimate:
    """The state of the workload after these events."""
    measured = [
        (frozenset(e["query"]["columns"]), float(e["sigma"]), e.get("total"))
        for e in events
        if e["event"] == "measure" and e["query"]["query"] == "marginal"
    ]
    residuals = _residuals(events, domain)
    covered = _covered({inside for inside, _, _ in measured}, marginals)
    if residuals.measured:
        inside = set(covered)
        covered = [c for c in marginals if c in inside or residuals.hold(c)]
    containing: dict[str, set[int]] = {}
    for i, (one, _, _) in enumerate(measured):
        for column in one:
            containing.setdefault(column, set()).add(i)
    rows = _rows(measured, domain)
    errors = []
    for columns in evenly(covered, MOST) if rows else ():
        around = set.intersection(*(containing.get(c, set()) for c in columns))
        nearby = [measured[i] for i in sorted(around)]
        precision = _precision(frozenset(columns), nearby, domain)
        if residuals.measured and residuals.hold(columns):
            precision = max(precision, 1 / residuals.variance(columns))
        noise = HALF_NORMAL * precision**-0.5 * domain.cells(columns) / rows
        errors.append(min(2.0, noise))
    mean = sum(errors) / len(errors) if errors else None
    return Estimate(mean, len(covered), len(marginals), rows)


def _residuals(events: Sequence[dict[str, Any]], domain: Domain) -> Residuals:
    """What was measured of residuals, as far as noise goes; nothing where there are none."""
    log = []
    for event in events:
        if event["event"] == "measure":
            kind, columns = event["query"]["query"], tuple(event["query"]["columns"])
            if kind == "residual" or (kind == "marginal" and not columns):
                log.append(Measurement(query_of(columns), NO_VALUES, float(event["sigma"])))
    return Residuals.of(domain, log if any(m.query.columns for m in log) else ())


def _covered(measured: set[frozenset[str]], marginals: Sequence[Columns]) -> list[Columns]:
    """The marginals that lie inside a measured one."""
    wanted = {frozenset(columns): columns for columns in marginals}
    sizes = sorted({len(columns) for columns in wanted})
    found: dict[frozenset[str], Columns] = {}
    for inside in measured:
        parts = [k for k in sizes if k <= len(inside)]
        if sum(math.comb(len(inside), k) for k in parts) > len(wanted):
            found |= {key: columns for key, columns in wanted.items() if key <= inside}
            continue
        for k in parts:
            for part in map(frozenset, combinations(inside, k)):
                if part in wanted:
                    found[part] = wanted[part]
    return [columns for key, columns in wanted.items() if key in found]


def _precision(
    wanted: frozenset[str], around: Sequence[tuple[frozenset[str], float, Any]], domain: Domain
) -> float:
    """By what was measured of sets that contain the wanted one."""
    return sum(
        1 / (domain.cells(tuple(inside - wanted)) * sigma**2) if sigma else math.inf
        for inside, sigma, _ in around
    )


def _rows(measured: Sequence[tuple[frozenset[str], float, Any]], domain: Domain) -> float | None:
    """The number of rows by the measurements themselves."""
    total = weight = 0.0
    for inside, sigma, counted in measured:
        if counted is not None:
            part = 1 / (domain.cells(tuple(inside)) * max(sigma, 1e-9) ** 2)
            total, weight = total + part * counted, weight + part
    return max(1.0, total / weight) if weight else None
