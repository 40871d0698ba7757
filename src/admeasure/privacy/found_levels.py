"""The levels of a column, found among the texts of the private table (`enum = "private"`).

Released: which texts are held by so many units that their noisy number passes a threshold; no
number. Texts that nobody holds get no noise and are not looked at, so a text appears only if
somebody holds it, and this is what a share of delta pays for.

The counts. A unit counts once for each of at most m texts, m its `max_rows_per_unit`: of a unit
with more, those are counted that come first by a hash of unit and text, which depends on the unit's
own rows alone. So at most r counts differ between neighbours, each by 1: r = m under add/remove,
2 m under replace. The squared L2 sensitivity of the counts of texts that both tables hold is r.

The threshold. A text that is held by nobody but a unit in which neighbours differ has a count of 1,
and at most r texts are such. T is the least integer for which

    1 - (1 - P(Z >= T - 1))^r <= delta share,    Z discrete Gaussian noise of scale sigma.

So outside an event of at most that probability no such text is released, and what is released
follows from noisy counts of texts that both tables hold: rho-zCDP with rho = r/(2 sigma^2). That is
delta-approximate rho-zCDP; the proof is in docs/explanations/privacy.md. Charged: rho, and the
share of delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from admeasure.errors import BudgetError
from admeasure.privacy.cost import Cost
from admeasure.schema.found_levels import LONGEST_LEVEL, MOST_FOUND, may_be_level
from admeasure.sparse import TextCounts
from admeasure.unit import Unit

SLACK = 1 + 2.0**-30
"""More than the rounding of the sums below."""

_SUMMED = 1 << 16
"""Up to this scale the tail is summed; beyond it an integral bounds it, as near."""

_LEAST = 1e-290
"""Doubles tell no smaller chances apart."""


@dataclass(frozen=True)
class FoundLevels:
    """What is asked of the curator for one column: texts that many units hold."""

    column: str

    def __str__(self) -> str:
        return f"levels of {self.column}"

    @property
    def most(self) -> int:
        return MOST_FOUND

    @property
    def longest_record(self) -> int:
        """Bytes that no record of the levels passes: JSON escapes a character by 12 at most."""
        return MOST_FOUND * (12 * LONGEST_LEVEL + 8) + 64

    def fit(self, block: TextCounts) -> TextCounts:
        """Without the texts that cannot be a level, by a rule on the text alone."""
        kept = [i for i, text in enumerate(block.texts) if may_be_level(text)]
        return TextCounts([block.texts[i] for i in kept], block.counts[kept])

    def l2_squared(self, unit: Unit) -> int:
        return unit.rows_changed

    def sigma(self, unit: Unit, cost: Cost) -> float:
        return cost.sigma(self.l2_squared(unit))

    def threshold(self, unit: Unit, cost: Cost) -> int:
        """T above, for the noise and the share of delta that the cost buys."""
        return threshold(self.sigma(unit, cost), cost.delta_share, unit.rows_changed)

    def needed(self, unit: Unit, cost: Cost, chance: float = 0.95) -> int:
        """How many units must hold a text for it to be found with that probability, at least."""
        sigma, least = self.sigma(unit, cost), self.threshold(unit, cost)
        count = least
        while 1 - tail(sigma, count - least + 1) < chance:  # Z >= T - count, by symmetry
            count += max(1, int(sigma / 32))
        return count


def tail(sigma: float, least: int) -> float:
    """P(Z >= least) of discrete Gaussian noise, rounded up; least at least 1.

    >>> round(tail(1.0, 2), 4)
    0.0586
    """
    head = math.exp(-(least**2) / (2 * sigma**2))
    if sigma <= _SUMMED:
        further = np.arange(math.ceil(12 * sigma) + 2, dtype=np.float64)
        rest = float(np.exp(-further * (further + 2 * least) / (2 * sigma**2)).sum())
        mass = rest * head
    else:
        mass = head + sigma * math.sqrt(math.pi / 2) * math.erfc(least / (sigma * math.sqrt(2)))
    return min(1.0, max(mass / _total(sigma) * SLACK, _LEAST))


def _total(sigma: float) -> float:
    """The sum of exp(-z²/2σ²) over the integers, or less: Poisson's sum has no term below the
    integral."""
    if sigma > 2:
        return math.sqrt(2 * math.pi) * sigma
    return float(np.exp(-(np.arange(-80.0, 81.0) ** 2) / (2 * sigma**2)).sum())


@lru_cache
def threshold(sigma: float, delta_share: Fraction, texts: int) -> int:
    """The least T for which none of so many texts with a count of 1 passes, but for a probability
    of at most the share."""

    def fails(least: int) -> bool:
        any_of_them = -math.expm1(texts * math.log1p(-tail(sigma, least - 1)))
        return Fraction(any_of_them * SLACK) > delta_share

    if not 0 < delta_share < 1:
        raise BudgetError(f"Finding levels needs a share of delta; it is {float(delta_share)}.")
    high = 2
    while fails(high):
        if high > 64 * sigma + 4:
            raise BudgetError(
                f"A delta of which {float(delta_share):g} is a share is too small to find levels "
                "by. Ask for a larger one."
            )
        high = 2 * high
    low = high // 2  # fails, or is below 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high
