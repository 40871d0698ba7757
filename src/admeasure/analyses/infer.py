"""Estimates with intervals: how far noise, and noise with sampling, may have moved them.

The estimate is the one-step estimator (`one_step`), whose variance from noise v is known. The
interval for the table's own value is the estimate ± z √v; for the population that the table's rows
are a sample of, the variance of as many independent rows is added to v. Both are wider by what was
not measured, which has a fifth of the error probability where there is any.
docs/explanations/inference.md has the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scipy.special import ndtri

from admeasure.analyses.one_step import step
from admeasure.analyses.statistics import Analysis
from admeasure.errors import UsageError
from admeasure.release import Release

UNMEASURED = 0.2
"""The part of the error probability that bounds have where something was not measured."""


@dataclass(frozen=True)
class Inferred:
    """An estimate with two intervals: `noise` for the value in the table, `noise_and_sampling` for
    that in the population of which its rows are an independent sample. `unmeasured` is the part of
    half their width that stands for columns which were not measured together."""

    name: str
    value: float
    noise: tuple[float, float]
    noise_and_sampling: tuple[float, float]
    confidence: float
    unmeasured: float = 0.0


def infer(
    release: Release | str | Path, analysis: Analysis, *, confidence: float = 0.95
) -> list[Inferred]:
    """A mean, a proportion, a difference, a correlation or the coefficients of a regression
    (`admeasure.analyses`), each with two intervals: for the value in the table, which allow for the
    noise, and for that in the population, which allow for sampling as well. Costs nothing.

    `release` may be a folder. The estimate is what the measurements say and not quite what the
    model says (`one_step`). Where columns were not measured together the intervals are wider by
    what the bounds allow, `Inferred.unmeasured`; where those say nothing it is refused.

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
    own = analysis.compute(release.schema, release.model)
    moved = step(release.evidence, own.influence, UNMEASURED * beta)
    low, high = own.within
    found = []
    for i, name in enumerate(own.names):
        beyond = float(moved.unmeasured[i])
        z = -float(ndtri((1 - UNMEASURED if beyond else 1.0) * beta / 2))
        value, v = float(own.values[i] + moved.shift[i]), float(moved.variance[i])
        ends = (beyond + z * spread for spread in (v**0.5, (v + float(own.sampling[i])) ** 0.5))
        noise, both = ((max(low, value - off), min(high, value + off)) for off in ends)
        value = min(high, max(low, value))
        found.append(Inferred(name, value, noise, both, confidence, beyond))
    return found


def error_probability(confidence: float) -> float:
    """1 - confidence, which must lie between 0 and 1."""
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1; it is {confidence}.")
    return 1 - confidence
