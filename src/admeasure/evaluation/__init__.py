"""Judging a release against the private table. NOT PRIVATE: nothing from here may be published.

Everything in this package reads true counts and reports true errors. It is for the steward who
holds the table, and what it prints says so.
"""

from __future__ import annotations

from admeasure.evaluation.errors import NOT_PRIVATE, Errors, Worst, compare
from admeasure.evaluation.subsampling import Equivalent, Resampling

__all__ = [
    "NOT_PRIVATE",
    "Equivalent",
    "Errors",
    "Resampling",
    "Worst",
    "compare",
]
