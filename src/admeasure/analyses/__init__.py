"""Statistics of a release with intervals that allow for its noise; docs/inference.md."""

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
