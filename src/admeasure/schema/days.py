"""Columns of days: whole numbers to their grids, from 1970-01-01 on."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from admeasure.schema import leaves, values
from admeasure.schema.fields import Day
from admeasure.schema.forms import DayForm, format_problems
from admeasure.schema.ordered import WholeNumbers
from admeasure.schema.rules import Reads
from admeasure.schema.storage import TIMES, Storage


class DateColumn(WholeNumbers):
    """Days."""

    type: Literal["date"]
    format: Annotated[
        str | None, Field(description="How its texts are written, as %d/%m/%Y; ISO if not told.")
    ] = None
    holds_days: ClassVar[bool] = True
    reads: ClassVar[Reads] = Reads.DAY
    stored_as: ClassVar[tuple[Storage, ...]] = TIMES
    minimum: Day | None = None
    maximum: Day | None = None
    edges: Annotated[tuple[Day, ...] | None, Field(strict=False)] = None

    widest: ClassVar[tuple[int, int]] = (
        values.days(datetime.date.min),
        values.days(datetime.date.max),
    )

    def leaf_starts(self) -> tuple[int, ...]:
        return leaves.day_starts(*self.ends)

    def _ordinal(self, value: Any) -> int:
        return values.days(value)

    def _show(self, ordinal: int) -> str:
        return values.day(ordinal).isoformat()

    @property
    def span_unit(self) -> str:
        return "days"

    def written(
        self, number: float, rounded: Callable[[float], int] = round
    ) -> datetime.date | float:
        """A day; a number where no calendar reaches."""
        first, last = self.widest
        return values.day(rounded(number)) if first <= number <= last else number

    def values_of(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.astype("datetime64[D]").astype(object)

    spelling_fields: ClassVar[str] = '`format = "%d/%m/%Y"`, or `missing_values = […]`'

    @property
    def spelling(self) -> str:
        return f" spelled as {self.format or 'YYYY-MM-DD'}"

    @cached_property
    def form(self) -> DayForm | None:
        return None if self.format is None else DayForm(self.format)

    def form_problems(self) -> Iterator[str]:
        yield from () if self.format is None else format_problems(self.format)

    def problems(self) -> Iterator[str]:
        if self.scale is not None:
            yield "has a scale, and days have none. Leave `scale` out"
            return
        yield from self.whole_problems()
