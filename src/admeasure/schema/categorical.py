"""Columns without an order: categories and booleans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from admeasure.schema import values
from admeasure.schema.column import CODEBOOK, Column
from admeasure.schema.problems import Refusal
from admeasure.schema.rules import Listed, Reads, Rules, missing_read, missing_texts
from admeasure.schema.storage import NUMBERS, TIMES, Storage
from admeasure.schema.values import quoted


class BooleanColumn(Column):
    """False and true."""

    type: Literal["boolean"]

    @property
    def regular(self) -> int:
        return 2

    def regular_label(self, code: int) -> str:
        return ("false", "true")[code]

    @property
    def listed(self) -> tuple[bool, ...]:
        return (False, True)

    @cached_property
    def _whole_missing(self) -> frozenset[int | float]:
        return missing_read(Reads.WHOLE, self.missing_values)

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        levels = Listed({0: 0, 1: 1}, absent=Refusal.UNREADABLE)
        texts = missing_texts(self.missing_values)
        rules = Rules(Reads.TRUTH, levels, texts, self._whole_missing)
        return dict.fromkeys((Storage.TEXT, *NUMBERS), rules)

    def problems(self) -> Iterator[str]:
        listed = missing_read(Reads.TRUTH, self.missing_values) | self._whole_missing
        if listed & {0, 1}:
            yield "lists a missing value that is one of its levels. Keep it in one place"


class StringColumn(Column):
    """Categories, compared exactly."""

    type: Literal["string"]
    enum: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None

    @property
    def regular(self) -> int:
        return len(self.enum or ())

    def regular_label(self, code: int) -> str:
        return (self.enum or ())[code]

    @property
    def listed(self) -> tuple[str, ...]:
        return self.enum or ()

    @cached_property
    def index(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.enum or ())}

    @cached_property
    def _numbers(self) -> dict[float, int]:
        """Entries that read as numbers, for columns that are stored as floats. The first wins, and
        a missing text before all."""
        found: dict[float, int] = {}
        marked = [(text, int(Refusal.MISSING)) for text in self.missing_values or ()]
        for text, code in [*marked, *self.index.items()]:
            number = values.number_from_text(text)
            if number is not None and not math.isnan(number):
                found.setdefault(number, code)
        return found

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        """Whatever is no fraction is looked up as a text, and a fraction as a number."""
        absent = dict.fromkeys(self.missing_values or (), int(Refusal.MISSING))
        texts = Listed({**self.index, **absent}, absent=Refusal.NOT_IN_ENUM)
        numbers = Listed(self._numbers, absent=Refusal.NOT_IN_ENUM)
        whole = (Storage.TEXT, Storage.BOOLEAN, Storage.WHOLE, Storage.WIDE, *TIMES)
        return {
            **dict.fromkeys(whole, Rules(Reads.TEXT, texts)),
            **dict.fromkeys((Storage.REAL, Storage.DECIMAL), Rules(Reads.REAL, numbers)),
        }

    def problems(self) -> Iterator[str]:
        if self.enum is None:
            yield f"has no enum. Add `enum = […]` to the schema, {CODEBOOK}"
            return
        if len(self.index) < len(self.enum):
            yield "has an enum that repeats a value. Write each value once"
        both = sorted(set(self.missing_values or ()) & set(self.enum))
        if both:
            yield f"has {quoted(both[0])} in both enum and missing_values. Keep one of them"
        yield from super().problems()
