"""The run's budget in rho (zero-concentrated differential privacy). The only place where it falls.

zCDP adds up: releases that cost rho_1 and rho_2 cost rho_1 + rho_2 together, also when the second
was chosen after seeing the first (Bun and Steinke 2016, Lemma 2.3), and a run may decide what to
spend next from what it has seen as long as the sum stays below a total fixed in advance
(Whitehouse, Ramdas, Rogers and Wu 2023, the zCDP filter). Sums are exact rationals: ten tenths of
a budget are the budget, neither a hair more nor less.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from admeasure.errors import BudgetError

Rho = Fraction


@dataclass(frozen=True)
class Charge:
    """One line of the certificate: what was released and what it cost."""

    what: str
    rho: Fraction


class Ledger:
    """Charges against a total; refuses what would pass it, before any noise is drawn.

    >>> ledger = Ledger(Fraction(1, 2))
    >>> ledger.charge(Fraction(1, 3), "one-way marginals")
    >>> ledger.remaining
    Fraction(1, 6)
    """

    def __init__(self, total: Fraction | float) -> None:
        self.total = Fraction(total)
        if self.total < 0:
            raise BudgetError(f"A budget cannot be negative; rho is {float(total)}.")
        self._charges: list[Charge] = []
        self._spent = Fraction(0)

    def charge(self, rho: Fraction | float, what: str) -> None:
        """Lower the budget by `rho`, or raise `BudgetError` and change nothing."""
        rho = Fraction(rho)
        if rho <= 0:
            raise BudgetError(f"A charge must be positive; {what} asked for rho = {float(rho)}.")
        if self._spent + rho > self.total:
            raise BudgetError(
                f"{what} asks for rho = {float(rho):.6g} but only {float(self.remaining):.6g} of "
                f"{float(self.total):.6g} is left."
            )
        self._spent += rho
        self._charges.append(Charge(what, rho))

    @property
    def spent(self) -> Fraction:
        return self._spent

    @property
    def remaining(self) -> Fraction:
        return self.total - self._spent

    @property
    def charges(self) -> tuple[Charge, ...]:
        return tuple(self._charges)
