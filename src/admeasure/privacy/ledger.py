"""The run's budget, whatever it is counted in. The only place where it falls.

Costs add up exactly, also when a run decides what to spend next from what it has seen, as long as
the sum stays within a total fixed in advance; why, the class of the cost says (`cost`).
"""

from __future__ import annotations

from dataclasses import dataclass

from admeasure.errors import BudgetError
from admeasure.privacy.cost import Cost, Number, as_cost


@dataclass(frozen=True)
class Charge:
    """One line of the certificate: what was released and what it cost."""

    what: str
    cost: Cost


class Ledger:
    """Charges against a total; refuses what would pass it, before any noise is drawn.

    A bare number is a rho.

    >>> from fractions import Fraction
    >>> ledger = Ledger(Fraction(1, 2))
    >>> ledger.charge(Fraction(1, 3), "one-way marginals")
    >>> ledger.remaining.rho
    Fraction(1, 6)
    """

    def __init__(self, total: Cost | Number, whole: Ledger | None = None) -> None:
        """`whole`: the ledger of which this is a part, and which pays for what this one does."""
        self.total: Cost = as_cost(total)
        self._whole = whole
        self._spent = self.total * 0
        if not self._spent <= self.total:
            raise BudgetError(f"A budget cannot be negative; it is {self.total}.")
        self._charges: list[Charge] = []

    def charge(self, cost: Cost | Number, what: str) -> None:
        """Lower the budget by `cost`, or raise `BudgetError` and change nothing."""
        cost = as_cost(cost)
        if not (cost and self.total * 0 <= cost):
            raise BudgetError(f"A charge must be positive; {what} asked for {cost}.")
        if not self._spent + cost <= self.total:
            raise BudgetError(
                f"{what} asks for {cost}, but what is left is {self.remaining}, of {self.total}."
            )
        if self._whole is not None:
            self._whole.charge(cost, what)
        self._spent += cost
        self._charges.append(Charge(what, cost))

    def part(self, total: Cost | Number) -> Ledger:
        """A ledger that may spend so much of what is left here, and no more."""
        return Ledger(total, self)

    @property
    def spent(self) -> Cost:
        return self._spent

    @property
    def remaining(self) -> Cost:
        return self.total - self._spent

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(self._charges)
