"""Budgets as papers state them: delta fixed or 1/n², rho by the tight conversion or a loose one.

NOT PRIVATE: 1/n² takes the exact number of rows, which a run on a private table does not know.
"""

from __future__ import annotations

from typing import Literal

from admeasure.errors import UsageError
from admeasure.privacy.convert import epsilon_of, rho_of, rho_of_loose

StatedDelta = float | Literal["1/n^2"]
"""A number, or one over the square of the number of rows."""
Conversion = Literal["tight", "loose"]
"""`loose`: epsilon = rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016, Proposition 1.3)."""


def read_delta(given: object) -> StatedDelta:
    """A delta of a plan."""
    if given == "1/n^2":
        return "1/n^2"
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise UsageError(f'delta must be a number or "1/n^2", not {given!r}.')
    return float(given)


def delta_for(rule: StatedDelta, rows: int) -> float:
    """
    >>> delta_for("1/n^2", 1000)
    1e-06
    """
    if rule != "1/n^2":
        return rule
    if rows < 2:
        raise UsageError('delta = "1/n^2" needs a table of at least 2 rows. Give a number.')
    return 1 / rows**2


def epsilon_to_ask(epsilon: float, delta: float, conversion: Conversion) -> float:
    """The epsilon to ask a run for, so that it spends what a paper with this conversion spends.

    Under the loose conversion the same rho is worth less epsilon than the tight one says, so the
    run is asked for the smaller, tight epsilon of that rho.
    """
    rho_of(epsilon, delta)  # refuses what is no budget
    if conversion == "tight":
        return epsilon
    return epsilon_of(rho_of_loose(epsilon, delta), delta)
