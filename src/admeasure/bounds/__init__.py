"""How far the release may be from the table, at a stated confidence, from released facts alone."""

from admeasure.bounds.evidence import Evidence
from admeasure.bounds.found import Answer, Bound, Bounds, IntervalKind, MeanError, share

__all__ = ["Answer", "Bound", "Bounds", "Evidence", "IntervalKind", "MeanError", "share"]
