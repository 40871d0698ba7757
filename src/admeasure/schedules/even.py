"""The same budget for each round, until it is spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admeasure.loop import Budget, Round
from admeasure.privacy.cost import Cost


@dataclass(frozen=True)
class Even:
    """Rounds that cost `select` and `measure` each.

    Shares are exact rationals, so that the last round spends exactly what is left.
    """

    select: Cost
    measure: Cost

    def next(self, remaining: Cost, last: Round[Any] | None) -> Budget | None:
        if not self.select + self.measure <= remaining:
            return None
        return Budget(self.select, self.measure)
