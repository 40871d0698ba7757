"""How a budget is divided: a value that `plan` prints and `run` spends.

A mechanism says it once, in `divide`, from public facts: domain, workload, unit, budget, and a
number of rows (the one a steward states for a plan, the noisy one in a run). Shares are exact
rationals, so they add up to the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from admeasure.measurement import Measurement
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.unit import Unit

ROWS = "number of rows"
ROWS_SHARE = Fraction(1, 50)
"""What a mechanism that must know the number of rows pays for it, where it is private."""

ASSUMED_ROWS = 10_000
"""Where a plan is asked for without a number of rows."""

ONE_WAY = "one-way marginals, each"
SELECTION = "selection, each round"
MEASUREMENT = "measurement, each round"
ROUNDS = "rounds of selection and measurement, together"


@dataclass(frozen=True)
class Item:
    """One line of a plan: `times` charges of `rho`, or several that come to `rho` together."""

    what: str
    rho: Fraction
    sigma: float | None = None
    times: int = 1

    @property
    def total(self) -> Fraction:
        return self.rho * self.times


@dataclass(frozen=True)
class Division:
    """All that a run spends, by what it is for."""

    items: tuple[Item, ...]

    def __getitem__(self, what: str) -> Item:
        return next(item for item in self.items if item.what == what)

    def total(self, what: str) -> Fraction:
        """What that gets in all; 0 where the division has no such item."""
        return sum((item.total for item in self.items if item.what == what), Fraction(0))


def counting(unit: Unit, rho: Fraction) -> tuple[Item, ...]:
    """The number of rows; no item where it is public."""
    if unit.rows_are_public:
        return ()
    share = rho * ROWS_SHARE
    return (Item(ROWS, share, sigma_for(share, unit.max_rows**2)),)


def count_rows(curator: Curator) -> Measurement:
    """The number of rows, bought for its share of the whole budget."""
    return curator.rows(Division(counting(curator.unit, curator.ledger.total)).total(ROWS))


def believed_rows(counted: Measurement) -> float:
    """What a run computes with: at least one row."""
    return max(1.0, float(counted.values))


def even_rounds(rho: Fraction, rounds: int, select: Fraction, l2_squared: int) -> tuple[Item, Item]:
    """`rounds` rounds that cost the same, of which the part `select` goes to selection."""
    each = rho / rounds
    measured = each * (1 - select)
    return (
        Item(SELECTION, each * select, times=rounds),
        Item(MEASUREMENT, measured, sigma_for(measured, l2_squared), rounds),
    )
