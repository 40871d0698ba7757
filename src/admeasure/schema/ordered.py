"""Columns with an order (numbers here, days in `days`): bounds, bins or edges, and clamping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from admeasure.schema import leaves
from admeasure.schema.clock import MINUTES, ClockForm, clock_problems
from admeasure.schema.column import CODEBOOK, MAX_LEVELS, PRIVATE, Column
from admeasure.schema.fields import (
    MAX_WHOLE,
    MOST_BINS,
    USELESS_SCALE,
    Bins,
    Clamp,
    Real,
    Scale,
    Whole,
    edge_problems,
    not_ascending,
)
from admeasure.schema.forms import Form
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.numerals import SpelledNumber, rounded
from admeasure.schema.problems import Refusal
from admeasure.schema.rules import Listed, Reads, Rules, missing_read, missing_texts
from admeasure.schema.storage import NUMBERS, Storage

MISSING_LEVEL = "lists a missing value that is one of its levels. Keep it in one place"


class Ordered(Column):
    """Integers, numbers and days: bounds, bins or edges, clamping.

    Bounds are numbers to the grids: `_ordinal` maps a value of the schema file to one.
    """

    has_numbers: ClassVar[bool] = True
    clamp: Clamp = False
    minimum: Any = None
    maximum: Any = None
    bins: Bins | None = None
    edges: Any = None
    scale: Scale = None

    reads: ClassVar[Reads]
    widest: ClassVar[tuple[Any, Any]]
    """The ends of a grid where no bounds are given, as the grid's numbers."""
    stored_as: ClassVar[tuple[Storage, ...]]
    """Besides as texts."""

    @property
    def is_open(self) -> bool:
        return self.bins == PRIVATE or (self.bins is None and self.edges is None)

    @property
    def is_bounded(self) -> bool:
        return self.minimum is not None and self.maximum is not None

    @property
    def ends(self) -> tuple[Any, Any]:
        """The first and the last number of the grid."""
        low, high = self.widest
        if self.edges is not None:
            return self._ordinal(self.edges[0]), self._ordinal(self.edges[-1])
        low = low if self.minimum is None else self._ordinal(self.minimum)
        return low, high if self.maximum is None else self._ordinal(self.maximum)

    @property
    def is_endless(self) -> bool:
        """Whether a bin goes on to the end of all numbers, since no bound was given."""
        return any(end == widest for end, widest in zip(self.ends, self.widest, strict=True))

    def as_read(self) -> Ordered:
        """On the fine grid from which bins are cut, where they are still to be found."""
        return self._fine if self.is_open else self

    def unasked(self) -> Ordered:
        from admeasure.schema.private_bins import one_bin

        return one_bin(self) if self.is_open else self

    @cached_property
    def _fine(self) -> Ordered:
        from admeasure.schema.private_bins import fine_column

        return fine_column(self)

    def leaf_starts(self) -> tuple[Any, ...]:
        """Where the leaves begin that private bins are cut from (`admeasure.schema.leaves`)."""
        raise NotImplementedError

    def _ordinal(self, value: Any) -> Any:
        raise NotImplementedError

    def _open_problems(self, *, below: bool) -> Iterator[str]:
        """What can be said of a column before its bins are found, from its fine grid."""
        if self.edges is not None:
            yield "has both bins and edges. Keep one of them"
            return
        low, high = self.ends
        if low > high or (below and low == high):
            yield not_ascending(below=below)
            return
        from admeasure.schema.private_bins import fine_problems

        yield from fine_problems(self)

    def _unless_open(self) -> None:
        self.refuse_open("bins", "`bins = …` or `edges = […]`")

    @cached_property
    def missing_read(self) -> frozenset[int | float]:
        """The listed missing texts that read as values, as the grid's numbers."""
        return missing_read(self.reads, self.missing_values, self.form)

    @property
    def _levels(self) -> Listed | OrdinalGrid | RealGrid:
        assert self.grid is not None
        return self.grid

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        texts = missing_texts(self.missing_values)
        rules = Rules(self.reads, self._levels, texts, self.missing_read, self.form)
        return dict.fromkeys((Storage.TEXT, *self.stored_as), rules)

    @property
    def bounds_text(self) -> str:
        if self.edges is not None:
            return f"[{self.edges[0]}, {self.edges[-1]}]"
        return f"[{self.minimum}, {self.maximum}]"

    def range_problems(self, *, needs_bins: bool) -> Iterator[str]:
        if self.edges is not None:
            yield from edge_problems(self.bins, self.edges, self.minimum, self.maximum)
            return
        for field in ("minimum", "maximum"):
            if getattr(self, field) is None:
                yield f"has no {field}. Add `{field} = …` to the schema, {CODEBOOK}"
        if self.minimum is not None and self.maximum is not None:
            order = (self.minimum > self.maximum) or (needs_bins and self.minimum == self.maximum)
            if order:
                yield not_ascending(below=needs_bins)

    def _empty_level_problems(self) -> Iterator[str]:
        """A level all of whose values are listed as missing could never occur."""
        grid = self.grid
        if not isinstance(grid, OrdinalGrid) or not self.missing_read:
            return
        inside = [v for v in self.missing_read if grid.low <= v <= grid.high]
        codes, counts = np.unique([grid.place(v) for v in inside], return_counts=True)
        if len(codes) and np.any(grid.ends[codes] - grid.starts[codes] + 1 == counts):
            yield MISSING_LEVEL


class WholeNumbers(Ordered):
    """What integers and days share: an exact grid, and a level a value where nothing is said of
    bins and there are not too many values."""

    @property
    def is_open(self) -> bool:
        return super().is_open and not (
            self.bins is None and self.is_bounded and self._span <= MAX_LEVELS
        )

    @cached_property
    def _cuts(self) -> OrdinalGrid:
        self._unless_open()
        if self.edges is not None:
            return OrdinalGrid.cut([self._ordinal(e) for e in self.edges], clamp=self.clamp)
        low, high = self._ordinal(self.minimum), self._ordinal(self.maximum)
        return OrdinalGrid.equal(low, high, self.bins, clamp=self.clamp)

    @property
    def grid(self) -> OrdinalGrid | None:
        return self._cuts

    @property
    def regular(self) -> int:
        if self.edges is not None:
            return len(self.edges) - 1
        return min(MOST_BINS, self._span) if self.is_open else self.bins or self._span

    @property
    def _span(self) -> int:
        low, high = self.ends
        return high - low + 1

    def _show(self, ordinal: int) -> str:
        raise NotImplementedError

    def regular_label(self, code: int) -> str:
        first, last = int(self._cuts.starts[code]), int(self._cuts.ends[code])
        return self._show(first) if first == last else f"{self._show(first)} to {self._show(last)}"

    def whole_problems(self) -> Iterator[str]:
        if self.is_open:
            yield from self._open_problems(below=False)
            return
        if self.scale is not None:
            yield USELESS_SCALE
        found = list(self.range_problems(needs_bins=False))
        yield from found
        if found:
            return
        if self.bins is not None and self.bins > self._span:
            yield f"has {self.bins:,} bins for {self._span:,} values. Use at most one bin a value"
            return
        too_many = list(super().problems())
        yield from too_many or self._empty_level_problems()


class IntegerColumn(SpelledNumber, WholeNumbers):
    """Whole numbers: one level a value, bins, or an enum."""

    type: Literal["integer"]
    reads: ClassVar[Reads] = Reads.WHOLE
    stored_as: ClassVar[tuple[Storage, ...]] = NUMBERS
    minimum: Whole | None = None
    maximum: Whole | None = None
    edges: Annotated[tuple[Whole, ...] | None, Field(strict=False)] = None
    enum: Annotated[tuple[Whole, ...] | None, Field(strict=False, min_length=1)] = None
    format: Annotated[
        str | None, Field(description="Of times of the day, as %H:%M: it counts their minutes.")
    ] = None

    spelling_fields: ClassVar[str] = (
        f'`format = "%H:%M"` for times of the day, {SpelledNumber.spelling_fields}'
    )

    @cached_property
    def form(self) -> Form | None:
        return self.number_form if self.format is None else ClockForm(self.format)

    def form_problems(self) -> Iterator[str]:
        yield from super().form_problems()
        if self.format is None:
            return
        yield from clock_problems(self.format)
        if self.number_form is not None:
            yield "has both format and a spelling of numbers. Keep one of them"
        ends = (self.minimum, self.maximum, *(self.edges or ()), *(self.enum or ()))
        if not all(0 <= end < MINUTES for end in ends if end is not None):
            yield "has times of the day outside 0 to 1439, its minutes. Correct its levels"
        if self.edges is None and self.enum is None and not self.is_bounded:
            yield "has times of the day without bounds. Add `minimum = 0` and `maximum = 1439`"

    widest: ClassVar[tuple[int, int]] = (-MAX_WHOLE, MAX_WHOLE)

    @property
    def is_open(self) -> bool:
        return self.enum is None and super().is_open

    def leaf_starts(self) -> tuple[int, ...]:
        if self.is_bounded:
            return leaves.whole_starts(*self.ends, log=self.scale == "log")
        return leaves.open_whole_starts(*self.ends)

    @property
    def grid(self) -> OrdinalGrid | None:
        return self._cuts if self.enum is None else None

    @cached_property
    def index(self) -> dict[int, int]:
        return {value: code for code, value in enumerate(self.enum or ())}

    @property
    def regular(self) -> int:
        return super().regular if self.enum is None else len(self.enum)

    def regular_label(self, code: int) -> str:
        return super().regular_label(code) if self.enum is None else self._show(self.enum[code])

    def _ordinal(self, value: Any) -> int:
        return value

    def _show(self, ordinal: int) -> str:
        return str(ordinal) if self.format is None else self.spelled(ordinal)

    @property
    def span_unit(self) -> str:
        return "" if self.format is None else "minutes"

    def written(self, number: float, rounded: Callable[[float], int] = round) -> str | float:
        """A time of the day, where it counts minutes."""
        if self.format is None or not 0 <= number < MINUTES:
            return number
        return self.spelled(min(rounded(number), MINUTES - 1))

    @property
    def listed(self) -> tuple[int, ...] | None:
        return self.enum

    @property
    def _levels(self) -> Listed | OrdinalGrid:
        return self._cuts if self.enum is None else Listed(self.index, Refusal.NOT_IN_ENUM)

    def problems(self) -> Iterator[str]:
        if self.enum is None:
            yield from self.whole_problems()
            return
        for field in ("minimum", "maximum", "bins", "edges", "scale"):
            if getattr(self, field) is not None:
                yield f"has both enum and {field}. Keep one of them"
        if self.clamp:
            yield "has both enum and clamp. Only bounds can clamp; use `other = true`"
        if len(set(self.enum)) < len(self.enum):
            yield "has an enum that repeats a value. Write each value once"
        if self.missing_read & set(self.enum):
            yield MISSING_LEVEL
        yield from Column.problems(self)


class NumberColumn(SpelledNumber, Ordered):
    """Doubles, cut into bins."""

    type: Literal["number"]
    decimals: Annotated[
        int | None, Field(ge=0, le=15, description="Digits after the point, in synthetic rows.")
    ] = None
    holds_reals: ClassVar[bool] = True
    reads: ClassVar[Reads] = Reads.REAL
    stored_as: ClassVar[tuple[Storage, ...]] = NUMBERS
    minimum: Real | None = None
    maximum: Real | None = None
    edges: Annotated[tuple[Real, ...] | None, Field(strict=False)] = None

    widest: ClassVar[tuple[float, float]] = (-leaves.LARGEST, leaves.LARGEST)

    def leaf_starts(self) -> tuple[float, ...]:
        if self.is_bounded:
            return leaves.real_starts(*self.ends, log=self.scale == "log")
        return leaves.open_real_starts(*self.ends)

    def _ordinal(self, value: Any) -> float:
        return value

    @property
    def grid(self) -> RealGrid:
        return self._cuts

    @cached_property
    def _cuts(self) -> RealGrid:
        self._unless_open()
        if self.edges is not None:
            return RealGrid.cut(self.edges, clamp=self.clamp)
        assert self.minimum is not None
        assert self.maximum is not None
        assert self.bins is not None
        return RealGrid.equal(self.minimum, self.maximum, self.bins, clamp=self.clamp)

    @property
    def regular(self) -> int:
        if self.is_open:
            return MOST_BINS
        return (self.bins or 0) if self.edges is None else len(self.edges) - 1

    def regular_label(self, code: int) -> str:
        return self.grid.label(code)

    @property
    def written_decimals(self) -> int | None:
        return self.decimals

    def values_of(self, numbers: np.ndarray) -> np.ndarray:
        return rounded(numbers, self.decimals, self.grid, self.missing_read)

    def problems(self) -> Iterator[str]:
        if self.is_open:
            yield from self._open_problems(below=True)
            return
        if self.scale is not None:
            yield USELESS_SCALE
        found = list(self.range_problems(needs_bins=True)) or list(super().problems())
        yield from found
        if not found and not self.grid.is_resolved:
            yield "has bins that double precision cannot tell apart. Use fewer bins or other bounds"
