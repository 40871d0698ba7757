"""Estimates with intervals: how far noise, and noise with sampling, may have moved them.

The estimate is the one-step estimator (`one_step`), whose variance from noise v is known. The
interval for the table's own value is that ± z √v; for the population that the table's rows are a
sample of, the variance of as many independent rows is added to v. Both are wider by what was not
measured, which has a fifth of the error probability where there is any, and by what places inside
bins can do (`inside_bins`). Where leaves inside bins were counted the interval stands around what
their unbiased counts say; the value itself takes rows to lie in their bins as synthetic rows do,
which has less noise.
docs/explanations/inference.md has the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from admeasure.analyses.cells import PointEstimates
from admeasure.analyses.inside_bins import Way, inside_bins
from admeasure.analyses.one_step import step
from admeasure.analyses.statistics import Analysis
from admeasure.bounds import Evidence
from admeasure.bounds.evidence import error_probability
from admeasure.errors import UsageError
from admeasure.release import Release
from admeasure.schema import Column

UNMEASURED = 0.2
"""The part of the error probability that bounds have where something was not measured."""

ROUNDING = 1e-9
"""A part of a width below this is none."""


@dataclass(frozen=True)
class Inferred:
    """An estimate with two intervals: `noise` for the value in the table, `noise_and_sampling` for
    that in the population of which its rows are an independent sample. `unmeasured` is the part of
    half their width that stands for columns which were not measured together, `inside` the part for
    where values lie inside bins. The mean of days is a day, and its intervals have whole days; what
    is counted in days (a difference of such means) says so in `unit`."""

    name: str
    value: Any
    noise: tuple[Any, Any]
    noise_and_sampling: tuple[Any, Any]
    confidence: float
    unmeasured: float = 0.0
    inside: float = 0.0
    unit: str = ""


def infer(
    release: Release | str | Path, analysis: Analysis, *, confidence: float = 0.95
) -> list[Inferred]:
    """A mean, a proportion, a difference, a correlation or the coefficients of a regression
    (`admeasure.analyses`), each with two intervals: for the value in the table, which allow for the
    noise, and for that in the population, which allow for sampling as well. Costs nothing.

    `release` may be a folder. The estimate is what the measurements say and not quite what the
    model says (`one_step`). Where columns were not measured together the intervals are wider by
    what the bounds allow, `Inferred.unmeasured`; where those say nothing it is refused. All are
    statistics of the values themselves, not of bins: where nothing says how values lie inside these
    the intervals are wider by what they can do, `Inferred.inside`.

    >>> import admeasure
    >>> from admeasure.analyses import Mean
    >>> schema = admeasure.Schema.coded("people", {"sex": 2, "smokes": 2})
    >>> table = {"sex": [0, 1] * 500, "smokes": [0, 0, 0, 1] * 250}
    >>> release = admeasure.fit(table, schema, workload="all-2way", mechanism=admeasure.aim(),
    ...                         epsilon=10, delta=1e-9)
    >>> [found] = admeasure.infer(release, Mean({"smokes": 1}, where={"sex": 1}))
    >>> found.noise_and_sampling[0] < found.noise[0] < found.value < 0.6
    True
    """
    release = release if isinstance(release, Release) else Release.load(release)
    beta = error_probability(confidence)
    own = analysis.compute(release.schema, release.model, release.inside)
    moved = step(release.evidence, own.influence, UNMEASURED * beta)
    value = np.clip(own.values + moved.shift, *own.within)
    ways = [
        _intervals(release.evidence, own, way, part * beta)
        for way, part in inside_bins(own, release.evidence)
    ]
    low, high, beyond, inside = (np.array(told) for told in zip(*ways, strict=True))
    # Of the table and of the population; each way holds by itself.
    low = np.clip(np.minimum(low.max(axis=0), value), *own.within)
    high = np.clip(np.maximum(high.min(axis=0), value), *own.within)
    inside = np.minimum(inside.min(axis=0), (high - low)[0] / 2)
    inside[inside < ROUNDING * (high - low)[0]] = 0.0
    found = []
    for i, name in enumerate(own.names):
        scale = own.scales[i] if own.scales else ""
        noise, both = (_ends(scale, a, b) for a, b in zip(low[:, i], high[:, i], strict=True))
        at = scale.written(float(value[i])) if isinstance(scale, Column) else float(value[i])
        parts = float(beyond.min(axis=0)[i]), float(inside[i])
        unit = scale.span_unit if isinstance(scale, Column) else scale
        found.append(Inferred(name, at, noise, both, confidence, *parts, unit))
    return found


def _ends(scale: Column | str, low: float, high: float) -> tuple[Any, Any]:
    """Of an interval, rounded outwards where they are values of a column that rounds them."""
    if isinstance(scale, Column):
        return scale.written(float(low), math.floor), scale.written(float(high), math.ceil)
    return float(low), float(high)


def _intervals(
    evidence: Evidence, own: PointEstimates, way: Way, beta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper ends for the table and for the population, what was not measured, and what
    places inside bins may do. The table's own value is at least what the way's lower functions add
    up to, at most what its upper ones do."""
    ends, sums, widest = [], [], np.zeros(len(own.values))
    for sign, influence, besides in ((-1, way.least, way.below), (1, way.most, way.above)):
        found = step(evidence, influence, UNMEASURED * beta)
        z = -ndtri(np.where(found.unmeasured > 0, 1 - UNMEASURED, 1.0) * beta / 2)
        around = own.values + found.shift + way.shift
        v = found.variance + way.variance
        off = [z * np.sqrt(u) + found.unmeasured + besides for u in (v, v + own.sampling)]
        ends.append(np.array([around + sign * o for o in off]))
        sums.append(found.shift)
        widest = np.maximum(widest, found.unmeasured)
    return ends[0], ends[1], widest, (sums[1] - sums[0] + way.below + way.above) / 2


def combine(
    value: float,
    replicates: Sequence[float],
    *,
    sampling: float = 0.0,
    confidence: float = 0.95,
    name: str = "",
) -> Inferred:
    """The estimate with its intervals, from a statistic of the release and of every replicate;
    `sampling` is its variance as that of a sample, which any statistics package gives for a table.

    With m replicates θ₁ … θ_m of a statistic that is θ in the release, b = Σ (θ_k - θ) / m is the
    bias that replicates show, such as the pull of a fit towards independence. The estimate is
    θ - b, and its variance from noise v = Σ (θ_k - θ)² / m: around θ and not around their mean, so
    that the bias counts twice, since a model is smoother than its table and its replicates show a
    part of the bias only. The interval for the table's own value is θ - b ± t √v with m degrees of
    freedom. For the population that the table's rows are a sample of, the variance u of as many
    independent rows is added, and the degrees of freedom are m (1 + u/v)² (Welch and
    Satterthwaite). docs/explanations/inference.md has the coverage.

    >>> found = combine(10.0, [9.0, 11.0, 9.5, 10.5])
    >>> [round(end, 2) for end in (found.value, *found.noise)]
    [10.0, 7.81, 12.19]
    >>> combine(10.0, [11.0, 11.0, 12.0, 12.0]).value
    8.5
    """
    upper = 1 - error_probability(confidence) / 2
    m = len(replicates)
    if m < 2 or not sampling >= 0:
        raise UsageError("Give at least two replicates, and a variance that is not negative.")
    off = np.asarray(replicates, float) - value
    v = float(np.mean(off**2))
    value -= float(np.mean(off))
    apart = float(stdtrit(m, upper)) * v**0.5
    both = v + sampling
    degrees = m * (both / v) ** 2 if v > 0 else np.inf
    wider = float(stdtrit(min(degrees, 1e9), upper)) * both**0.5
    return Inferred(
        name, value, (value - apart, value + apart), (value - wider, value + wider), confidence
    )
