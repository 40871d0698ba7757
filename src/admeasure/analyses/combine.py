"""Combining rules: an estimate with intervals from a statistic of a release and of its replicates.

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

import numpy as np
from scipy.special import stdtrit

from admeasure.analyses.infer import Inferred
from admeasure.bounds.evidence import error_probability
from admeasure.errors import UsageError


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
