"""Estimates with intervals: how far noise, and noise with sampling, may have moved them.

With m replicates θ₁ … θ_m of a statistic that is θ in the release, b = Σ (θ_k - θ) / m is the bias
that replicates show, such as the pull of a fit towards independence. The estimate is θ - b, and its
variance from noise v = Σ (θ_k - θ)² / m: around θ and not around their mean, so that the bias
counts twice, since a model is smoother than its table and its replicates show a part of the bias
only. The interval for the table's own value is θ - b ± t √v with m degrees of freedom. For the
population that the table's rows are a sample of, the variance u of as many independent rows is
added, and the degrees of freedom are m (1 + u/v)² (Welch and Satterthwaite).
docs/explanations/inference.md has the coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from admeasure.analyses.statistics import Analysis
from admeasure.errors import UsageError
from admeasure.release import Release
from admeasure.release.replicates import Replicate


@dataclass(frozen=True)
class Inferred:
    """A value, less the bias that replicates show, with two intervals: `noise` for the value in the
    table, `noise_and_sampling` for that in the population of which its rows are an independent
    sample."""

    name: str
    value: float
    noise: tuple[float, float]
    noise_and_sampling: tuple[float, float]
    confidence: float


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

    >>> found = combine(10.0, [9.0, 11.0, 9.5, 10.5])
    >>> [round(end, 2) for end in (found.value, *found.noise)]
    [10.0, 7.81, 12.19]
    >>> combine(10.0, [11.0, 11.0, 12.0, 12.0]).value
    8.5
    """
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1; it is {confidence}.")
    m = len(replicates)
    if m < 2 or not sampling >= 0:
        raise UsageError("Give at least two replicates, and a variance that is not negative.")
    off = np.asarray(replicates, float) - value
    v = float(np.mean(off**2))
    value -= float(np.mean(off))
    upper = (1 + confidence) / 2
    apart = float(stdtrit(m, upper)) * v**0.5
    both = v + sampling
    degrees = m * (both / v) ** 2 if v > 0 else np.inf
    wider = float(stdtrit(min(degrees, 1e9), upper)) * both**0.5
    return Inferred(
        name, value, (value - apart, value + apart), (value - wider, value + wider), confidence
    )


def infer(
    release: Release | str | Path,
    analysis: Analysis,
    *,
    confidence: float = 0.95,
    m: int = 20,
    seed: int | None = None,
    replicates: Sequence[Replicate] | None = None,
) -> list[Inferred]:
    """A mean, a proportion, a difference, a correlation or the coefficients of a regression
    (`admeasure.analyses`), each with two intervals: for the value in the table, which allow for the
    noise, and for that in the population, which allow for sampling as well. Costs nothing.

    `release` may be a folder. `replicates` serve for several statistics where they are given; else
    `m` are made. Columns that were not measured together are refused: what the model says of them
    is an assumption, whose error no replicate shows.

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
    schema = release.schema
    measured = [set(taken.query.columns) for taken in release.measurements]
    for columns in analysis.together(schema):
        if not any(held.issuperset(columns) for held in measured):
            raise UsageError(
                f"{', '.join(columns)} were not measured together, and how noise moves what the "
                "model says of them cannot be told. Put them into one marginal of the workload, "
                "and fit again."
            )
    own = analysis.compute(schema, release.model)
    made = release.replicates(m, seed=seed) if replicates is None else list(replicates)
    others = np.array([analysis.compute(schema, r.model).values for r in made])
    return [
        combine(
            float(own.values[i]),
            others[:, i].tolist(),
            sampling=float(own.sampling[i]),
            confidence=confidence,
            name=name,
        )
        for i, name in enumerate(own.names)
    ]
