"""How a table spells numbers: what integer and number columns share, and rounding within bins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from admeasure.schema.column import Column
from admeasure.schema.forms import Form, NumberForm, number_form_problems
from admeasure.schema.grid import RealGrid

MOST_DECIMALS = 15


class SpelledNumber(Column):
    """The decimal character and what stands between thousands."""

    decimal: Annotated[str | None, Field(description="The decimal character.")] = None
    thousands: Annotated[
        str | None, Field(description="What stands between groups of three digits.")
    ] = None

    spelling_fields: ClassVar[str] = (
        '`decimal = ","`, `thousands = "."`, or `missing_values = […]` for what is no number (a '
        "sign or a unit, as in 5% or €5, has to be taken out)"
    )

    @property
    def written_decimals(self) -> int | None:
        """Digits after the decimal character, in rows; as many as needed where not told."""
        return None

    @property
    def spelling(self) -> str:
        shown = 1234 if self.type == "integer" else 1234.5
        return f" spelled as {self.form.spelled(shown)}" if self.form is not None else ""

    @cached_property
    def form(self) -> Form | None:
        return self.number_form

    @property
    def number_form(self) -> NumberForm | None:
        point = self.decimal or ("," if self.thousands == "." else ".")
        if (point, self.thousands) == (".", None):
            return None
        return NumberForm(point, self.thousands, self.written_decimals)

    def spelled(self, value: float) -> str:
        form = self.form or NumberForm(decimals=self.written_decimals)
        return form.spelled(value)

    def form_problems(self) -> Iterator[str]:
        yield from number_form_problems(self.decimal, self.thousands)


def rounded(
    numbers: np.ndarray, decimals: int | None, grid: RealGrid, missing: Collection[float]
) -> np.ndarray:
    """Numbers rounded to so many decimals, within their bins and to none that is missing; one is
    left as it is where its bin has no such number. None: to as many as their bins can tell.

    >>> rounded(np.array([0.26, 0.99]), 1, RealGrid.cut([0.0, 0.5, 1.0], clamp=False), ())
    array([0.3, 1. ])
    """
    if decimals is None:
        return _shortened(numbers, grid, missing)
    bins, made, left = grid.place_all(numbers), numbers.copy(), np.arange(len(numbers))
    unit = 10.0**-decimals
    for step in (0.0, unit, -unit):
        tried = np.array([round(v + step, decimals) for v in numbers[left].tolist()], np.float64)
        fits = (tried >= grid.low) & (tried <= grid.high) & (grid.place_all(tried) == bins[left])
        fits &= ~np.isin(tried, list(missing))
        made[left[fits]] = tried[fits]
        left = left[~fits]
    return made


def _shortened(numbers: np.ndarray, grid: RealGrid, missing: Collection[float]) -> np.ndarray:
    """Numbers of four digits, or of as many as tell a thousandth of their bin; further ones say
    nothing of the table. Within their bins, as `rounded` has them.

    >>> _shortened(np.array([0.123456, 77.4321]), RealGrid.cut([0.0, 1.0, 99.0], clamp=False), ())
    array([ 0.1235, 77.43  ])
    """
    made = numbers.copy()
    with np.errstate(over="ignore", divide="ignore"):
        widths = np.diff(grid.edges)[grid.place_all(numbers)]
        places = 3 - np.floor(np.log10(np.minimum(widths, np.abs(numbers))))
    for decimals in np.unique(places[np.abs(places) <= MOST_DECIMALS]):
        of = places == decimals
        made[of] = rounded(numbers[of], int(decimals), grid, missing)
    return made
