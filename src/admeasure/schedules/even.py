"""The same budget for each of a number of rounds fixed in advance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from admeasure.loop import Budget, Round


@dataclass(frozen=True)
class Even:
    """`rounds` rounds of rho / rounds, of which the part `select` goes to selection.

    Shares are exact rationals, so that the last round spends exactly what is left.
    """

    rho: Fraction
    rounds: int
    select: Fraction

    def next(self, remaining: Fraction, last: Round[Any] | None) -> Budget | None:
        each = self.rho / self.rounds
        if remaining < each:
            return None
        return Budget(select=each * self.select, measure=each * (1 - self.select))
