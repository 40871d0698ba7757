"""Statistics of a release with intervals for its noise; docs/explanations/inference.md."""

from __future__ import annotations

from admeasure.analyses.cells import Variable
from admeasure.analyses.infer import Inferred, combine, infer
from admeasure.analyses.statistics import (
    Analysis,
    Correlation,
    LinearRegression,
    LogisticRegression,
    Mean,
    MeanDifference,
)

__all__ = [
    "Analysis",
    "Correlation",
    "Inferred",
    "LinearRegression",
    "LogisticRegression",
    "Mean",
    "MeanDifference",
    "Variable",
    "combine",
    "infer",
]
