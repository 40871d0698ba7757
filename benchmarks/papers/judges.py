"""What is taken of a finished run. NOT PRIVATE: all of it compares with the true table."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from admeasure.domain import Columns
from common import Record

DRIFTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
DRIFTED, DRAWS = 20, 50
"""Distributions for each drift, and thresholds drawn of each."""


def counts_of(codes: Any, schema: Any) -> Callable[..., Any]:
    from admeasure.sources.memory import MemorySource

    return MemorySource.from_codes(codes, schema).counts


def errors(truth: Any, answers: Any, workload: Any, schema: Any) -> Record:
    """The errors of AIM and of GEM, and the sample that is as good."""
    from admeasure.evaluation import compare

    judged = compare(truth.counts, answers, workload, schema.domain)
    names = ("workload_error", "max_error", "mean_error", "rmse", "queries")
    found: Record = {name: getattr(judged, name) for name in names}
    fraction = 1.0 if judged.equivalent is None else judged.equivalent.fraction
    return {**found, "mse": judged.rmse**2, "sample_fraction": fraction}


def bounds(truth: Any, release: Any) -> Record:
    """For each marginal its true L1 error, the bound at 95%, the paper's bound, and its kind."""
    found = release.bounds(confidence=0.95)
    exact = dict(zip(found, truth.counts(list(found)), strict=True))
    believed = dict(zip(found, release.model.marginals(list(found)), strict=True))
    rows = int(truth.counts([()])[0])
    points = [
        (float(np.abs(exact[r] - believed[r]).sum()) / rows, b.error / rows, b.paper / rows, b.kind)
        for r, b in found.items()
    ]
    return {"points": points}


def present(truth: Any, model: Any, workload: Any) -> Record:
    """The largest error of any query, by blocks; no table of all answers is held."""
    from rap import present_error

    return {"max_error": present_error(truth, model, workload)}


def future(truth: Any, answers: Any, history: Any, rule: str) -> Record:
    """Present error, and future error at every drift (Definition 5.3), with the share of queries
    that were asked before and all-zero's error. The same uniform numbers serve every drift."""
    from admeasure.workload.history import RATIO, Future, historical

    _, shape, kind, _, *more = rule.split(":")
    r, k = map(int, kind.split("of"))
    given = dict(part.split("=") for part in more)
    seed, ratio = int(given.get("order", 0)), float(given.get("ratio", RATIO))
    features = historical(truth.schema.domain, shape, seed, ratio)  # type: ignore[arg-type]
    drawn: dict[float, Counter[Columns]] = {}
    distances: dict[str, float] = {}
    for gamma in DRIFTS:
        drifted = [features.drifted(gamma, Random(f"drift {seed} {i}")) for i in range(DRIFTED)]
        distances[str(gamma)] = statistics.fmean(features.distance(f) for f in drifted)
        drawn[gamma] = Counter()
        for i, one in enumerate(drifted):
            counts = Future(one, r, k, DRAWS, seed * DRIFTED + i).counts()
            drawn[gamma].update({query.columns: times for query, times in counts.items()})
    asked = {query.columns for query in history.queries}
    worst, zero = _largest(truth, answers, sorted(asked.union(*drawn.values())), r)
    return {
        "present": max(worst[c] for c in asked),
        "future": _weighted(worst, drawn[0.0]),
        "all_zero": _weighted(zero, drawn[0.0]),
        "drifts": {str(g): _weighted(worst, drawn[g]) for g in DRIFTS},
        "distances": distances,
        "repeated": {str(g): _weighted(dict.fromkeys(asked, 1.0), drawn[g]) for g in DRIFTS},
    }


def _largest(
    truth: Any, answers: Any, columns: Sequence[Columns], r: int
) -> tuple[dict[Columns, float], dict[Columns, float]]:
    """For each set of columns the largest error of any target, of the model and of all zeros."""
    from admeasure.queries import Threshold

    rows, worst, zero = int(truth.counts([()])[0]), {}, {}
    for start in range(0, len(columns), 16):
        batch = list(columns[start : start + 16])
        for c, true, made in zip(batch, truth.counts(batch), answers(batch), strict=True):
            query = Threshold(c, r)
            exact = query.answer(true) / rows
            worst[c] = float(np.abs(query.answer(made) / np.sum(made) - exact).max())
            zero[c] = float(exact.max())
    return worst, zero


def _weighted(values: dict[Columns, float], drawn: Counter[Columns]) -> float:
    """Definition 5.3 for one release: the mean over the draws."""
    return sum(values.get(c, 0.0) * times for c, times in drawn.items()) / drawn.total()
