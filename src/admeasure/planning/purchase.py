"""What a run bought of one column."""

from __future__ import annotations

from dataclasses import dataclass

from admeasure.measurement import Measurement
from admeasure.schema import Column
from admeasure.schema.inside import Inside


@dataclass(frozen=True, eq=False)
class Purchase:
    """A column with its levels, and what else follows from what was paid for it: how values lie
    inside its bins, and noisy counts of its levels."""

    column: Column
    inside: Inside | None = None
    known: Measurement | None = None
