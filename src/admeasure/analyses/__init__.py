"""Statistics of a release with intervals for its noise; docs/explanations/inference.md."""

from __future__ import annotations

from admeasure.analyses.infer import Inferred, combine, infer
from admeasure.analyses.statistics import (
    Correlation,
    LinearRegression,
    LogisticRegression,
    Mean,
    MeanDifference,
)

__all__ = [
    "Correlation",
    "Inferred",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "MeanDifference",
    "combine",
    "infer",
]
