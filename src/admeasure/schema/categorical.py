"""Columns without an order: categories and booleans."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from admeasure.schema import values
from admeasure.schema.column import CODEBOOK, Column
from admeasure.schema.problems import Refusal
from admeasure.schema.values import Plain, double, quoted


class BooleanColumn(Column):
    """False and true."""

    type: Literal["boolean"]

    @property
    def regular(self) -> int:
        return 2

    def regular_label(self, code: int) -> str:
        return ("false", "true")[code]

    @cached_property
    def _missing(self) -> tuple[frozenset[str], frozenset[int]]:
        texts = frozenset(text.strip(" ") for text in self.missing_values or ())
        read = (values.integer_from_text(text) for text in texts)
        return texts | {""}, frozenset(r for r in read if r is not None)

    def _code(self, value: Plain) -> int:
        texts, whole = self._missing
        match value:
            case str():
                text = value.strip(" ")
                if text in texts or values.integer_from_text(text) in whole:
                    return Refusal.MISSING
                read = values.boolean_from_text(text)
                return Refusal.UNREADABLE if read is None else int(read)
            case bool() | int() | float() | Decimal():
                if value in whole:
                    return Refusal.MISSING
                return int(value) if value in (0, 1) else Refusal.UNREADABLE
        return Refusal.WRONG_STORAGE

    def problems(self) -> Iterator[str]:
        read = {values.boolean_from_text(text) for text in self._missing[0]}
        if read - {None} or self._missing[1] & {0, 1}:
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

    @cached_property
    def index(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.enum or ())}

    @cached_property
    def numbers(self) -> dict[float, int]:
        """Entries that read as numbers, for columns that are stored as floats. The first wins, and
        a missing text before all."""
        found: dict[float, int] = {}
        marked = [(text, int(Refusal.MISSING)) for text in self.missing_values or ()]
        for text, code in [*marked, *self.index.items()]:
            number = values.number_from_text(text)
            if number is not None and not math.isnan(number):
                found.setdefault(number, code)
        return found

    def _code(self, value: Plain) -> int:
        match value:
            case str():
                return self._code_of_text(value)
            case bool():
                return self._code_of_text("true" if value else "false")
            case int():
                return self._code_of_text(str(value))
            case float() | Decimal():
                return self.numbers.get(double(value), Refusal.NOT_IN_ENUM)
            case datetime.date():
                return self._code_of_text(value.isoformat())
        return Refusal.WRONG_STORAGE

    def _code_of_text(self, text: str) -> int:
        if self.missing_values is not None and text in self.missing_values:
            return Refusal.MISSING
        return self.index.get(text, Refusal.NOT_IN_ENUM)

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
