"""The number of rows, which some mechanisms must know: bought first, for a small share of the
budget, where it is private.

Released: the number of rows with noise; a person moves it by their rows. Where it is public it is
given, and nothing is charged (`Curator.rows`).
"""

from __future__ import annotations

from fractions import Fraction

from admeasure.measurement import Measurement
from admeasure.planning.division import ROWS, Division, Item, Task, even_rounds
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.unit import Unit

SHARE = Fraction(1, 50)


def divide(unit: Unit, budget: Cost) -> tuple[tuple[Item, ...], Cost]:
    """The number of rows, no item where it is public; and what that leaves."""
    if unit.rows_are_public:
        return (), budget
    share = budget * SHARE
    return (Item(ROWS, share, share.sigma(unit.max_rows**2)),), budget - share


def halved_rounds(task: Task, budget: Cost, rounds: int) -> Division:
    """The number of rows, then rounds that cost the same: half of each for the choice of a
    marginal, half to measure it whole."""
    counted, left = divide(task.unit, budget)
    l2_squared = task.unit.marginal_l2_squared
    return Division((*counted, *even_rounds(left, rounds, Fraction(1, 2), l2_squared)))


def rows(curator: Curator) -> Measurement:
    """The number of rows, bought for its share of the whole budget."""
    return curator.rows(curator.budget * SHARE)


def believed(counted: Measurement) -> float:
    """What a run computes with: at least one row."""
    return max(1.0, float(counted.values))
