"""The same budget for each round, until it is spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from admeasure.loop import Budget, Round


@dataclass(frozen=True)
class Even:
    """Rounds that cost `select` and `measure` each.

    Shares are exact rationals, so that the last round spends exactly what is left.
    """

    select: Fraction
    measure: Fraction

    def next(self, remaining: Fraction, last: Round[Any] | None) -> Budget | None:
        if remaining < self.select + self.measure:
            return None
        return Budget(self.select, self.measure)
