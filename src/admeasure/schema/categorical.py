"""Columns without an order: categories and booleans."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, WithJsonSchema, model_validator

from admeasure.schema import values
from admeasure.schema.column import CODEBOOK, MAX_LEVELS, PRIVATE, Column, OrPrivate
from admeasure.schema.forms import LetterForm, WordForm
from admeasure.schema.found_levels import MOST_FOUND, with_levels
from admeasure.schema.hierarchy import Hierarchy, hierarchy_problems, most_levels
from admeasure.schema.problems import Refusal
from admeasure.schema.rules import Listed, Reads, Rules, missing_read, missing_texts
from admeasure.schema.storage import NUMBERS, TIMES, Storage
from admeasure.schema.values import quoted

Categories = Annotated[
    tuple[str, ...],
    Field(strict=False),
    OrPrivate,
    WithJsonSchema(
        {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"const": PRIVATE}],
            "description": 'The levels; or "private": found by the run, for a charge.',
        }
    ),
]


class BooleanColumn(Column):
    """False and true."""

    type: Literal["boolean"]
    true_values: Annotated[
        tuple[str, ...] | None,
        Field(
            strict=False, min_length=1, description="Texts that mean true; the first is written."
        ),
    ] = None
    false_values: Annotated[
        tuple[str, ...] | None,
        Field(strict=False, min_length=1, description="Texts that mean false, likewise."),
    ] = None

    @property
    def regular(self) -> int:
        return 2

    def regular_label(self, code: int) -> str:
        return self.form.spelled(bool(code)) if self.form else ("false", "true")[code]

    @property
    def listed(self) -> tuple[bool, ...]:
        return (False, True)

    @cached_property
    def _whole_missing(self) -> frozenset[int | float]:
        return missing_read(Reads.WHOLE, self.missing_values, self.form)

    spelling_fields: ClassVar[str] = (
        '`true_values = ["Yes"]` and `false_values = ["No"]`, or `missing_values = […]`'
    )

    @property
    def spelling(self) -> str:
        words = (*(self.true_values or ("true",)), *(self.false_values or ("false",)))
        return f" spelled as one of {', '.join(map(quoted, words))}"

    @cached_property
    def form(self) -> WordForm | None:
        if self.true_values is None or self.false_values is None:
            return None
        return WordForm(self.true_values, self.false_values)

    def form_problems(self) -> Iterator[str]:
        if (self.true_values is None) != (self.false_values is None):
            yield "has one of true_values and false_values. Give both"
        words = [w.strip(" ") for w in (*(self.true_values or ()), *(self.false_values or ()))]
        again = sorted({word for word in words if words.count(word) > 1})
        if again:
            yield f"has {quoted(again[0])} twice in true_values and false_values. Keep one of them"
        if "" in words:
            yield "has an empty text in true_values or false_values, which is missing. Remove it"

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        levels = Listed({0: 0, 1: 1}, absent=Refusal.UNREADABLE)
        texts = missing_texts(self.missing_values)
        rules = Rules(Reads.TRUTH, levels, texts, self._whole_missing, self.form)
        return dict.fromkeys((Storage.TEXT, *NUMBERS), rules)

    def problems(self) -> Iterator[str]:
        listed = missing_read(Reads.TRUTH, self.missing_values, self.form) | self._whole_missing
        if listed & {0, 1}:
            yield "lists a missing value that is one of its levels. Keep it in one place"


class StringColumn(Column):
    """Categories, compared exactly unless told otherwise. With a hierarchy (`levels_of`) the table
    holds its codes, and a level is a code or a group of them."""

    type: Literal["string"]
    strip: Annotated[bool, Field(description="Spaces around a text are no part of it.")] = False
    ignore_case: Annotated[bool, Field(description="`a` and `A` are the same.")] = False
    enum: Categories | None = None
    levels_of: Annotated[
        dict[str, str] | None,
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "string"}},
                    {"type": "string", "description": "A CSV file: codes, then their groups."},
                ],
                "description": "The group of each code, and of each group.",
            }
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _with_a_rest(cls, fields: Any) -> Any:
        """What is not found is `other`. Levels of a hierarchy are found unless they are given, and
        no code of it is left over."""
        if not isinstance(fields, Mapping):
            return fields
        if fields.get("levels_of") is not None:
            return {**fields, "enum": fields.get("enum") or PRIVATE}
        return {"other": True, **fields} if fields.get("enum") == PRIVATE else fields

    @property
    def is_open(self) -> bool:
        return self.enum == PRIVATE

    @property
    def is_sought(self) -> bool:
        return self.is_open and self.levels_of is None

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The tree of a column that has `levels_of`."""
        return None if self.levels_of is None else Hierarchy(self.levels_of)

    def as_read(self) -> Column:
        if not self.is_open:
            return self
        return with_levels(self, ()) if self.hierarchy is None else self._by_code

    def unasked(self) -> Column:
        """The coarsest groups of its hierarchy, where it has one; else `other`."""
        if not self.is_open or self.hierarchy is None:
            return self.as_read()
        return self.cut(self.hierarchy.tops)

    @cached_property
    def _by_code(self) -> StringColumn:
        assert self.hierarchy is not None
        return self.changed(enum=self.hierarchy.leaves, levels_of=None)

    def cut(self, levels: Sequence[str]) -> StringColumn:
        """The column with names of its hierarchy as levels."""
        return self.changed(enum=tuple(levels))

    @property
    def regular(self) -> int:
        if not self.is_open:
            return len(self.listed)
        return MOST_FOUND if self.hierarchy is None else most_levels(self.hierarchy)

    def regular_label(self, code: int) -> str:
        name = self.listed[code]
        if self.hierarchy is None or self.of_held is None:
            return name
        first, end = self.hierarchy.spans[name]
        return name if (self.of_held[first:end] == code).all() else f"{name} (rest)"

    @property
    def held(self) -> tuple[str, ...]:
        return self.listed if self.hierarchy is None else self.hierarchy.leaves

    @cached_property
    def of_held(self) -> np.ndarray | None:
        return None if self.hierarchy is None else self.hierarchy.of_leaves(self.listed)

    @property
    def listed(self) -> tuple[str, ...]:
        self.refuse_open("levels", "`enum = […]`")
        return self.enum or ()

    def span_of(self, value: object) -> tuple[int, int] | None:
        text = Reads.TEXT.reader(value) if isinstance(value, str | int | datetime.date) else None
        if self.hierarchy is None or text is None:
            return None
        place = self._places.get(self._key(text))
        return self.hierarchy.spans.get(text) if place is None else (place, place + 1)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {self._key(text): place for place, text in enumerate(self.held)}

    spelling_fields: ClassVar[str] = "`strip = true`, `ignore_case = true`"

    @cached_property
    def sought_form(self) -> LetterForm | None:
        if not self.strip and not self.ignore_case:
            return None
        return LetterForm.of_any(strip=self.strip, ignore_case=self.ignore_case)

    @cached_property
    def form(self) -> LetterForm | None:
        if not self.strip and not self.ignore_case:
            return None
        texts = (*self.held, *(self.missing_values or ()))
        return LetterForm.of(texts, strip=self.strip, ignore_case=self.ignore_case)

    def _key(self, text: str) -> str:
        """A text as it is looked up."""
        return text if self.form is None else self.form.standard(text)

    @cached_property
    def index(self) -> dict[str, int]:
        """The code of each text that a table can hold, in the order of the codes."""
        if self.of_held is None:
            return {self._key(value): code for code, value in enumerate(self.listed)}
        ascending = np.argsort(self.of_held, kind="stable").tolist()
        return {self._key(self.held[i]): int(self.of_held[i]) for i in ascending}

    @cached_property
    def _numbers(self) -> dict[float, int]:
        """Entries that read as numbers, for columns that are stored as floats. The first wins, and
        a missing text before all."""
        found: dict[float, int] = {}
        marked = [(text, int(Refusal.MISSING)) for text in self.missing_values or ()]
        listed = ((key, self.index[key]) for key in map(self._key, self.held))
        for text, code in (*marked, *listed):
            number = values.number_from_text(text)
            if number is not None and not math.isnan(number):
                found.setdefault(number, code)
        return found

    @cached_property
    def rules(self) -> Mapping[Storage, Rules]:
        """Whatever is no fraction is looked up as a text, and a fraction as a number."""
        absent = dict.fromkeys(map(self._key, self.missing_values or ()), int(Refusal.MISSING))
        texts = Listed({**self.index, **absent}, absent=Refusal.NOT_IN_ENUM)
        numbers = Listed(self._numbers, absent=Refusal.NOT_IN_ENUM)
        whole = (Storage.TEXT, Storage.BOOLEAN, Storage.WHOLE, Storage.WIDE, *TIMES)
        return {
            **dict.fromkeys(whole, Rules(Reads.TEXT, texts, form=self.form)),
            **dict.fromkeys((Storage.REAL, Storage.DECIMAL), Rules(Reads.REAL, numbers)),
        }

    @property
    def coarser(self) -> str:
        return (
            'Let the run find those that many people have (`enum = "private"`), or give coarser '
            "ones and send the rest to `other`"
        )

    def problems(self) -> Iterator[str]:
        if self.enum is None:
            yield f"has no enum. Add `enum = […]` to the schema, {CODEBOOK}"
            return
        if self.hierarchy is not None:
            yield from self._hierarchy_problems(self.hierarchy)
            return
        if self.is_open:
            if not self.other:
                yield "has private levels, and what is not found is `other`. Remove `other = false`"
            return
        if not self.enum and not self.other:
            yield f"has an empty enum. Add its levels, {CODEBOOK}"
            return
        yield from self._text_problems(self.enum, "an enum")

    def _text_problems(self, texts: Sequence[str], listed: str) -> Iterator[str]:
        """What is wrong with the texts that a table can hold, which stand in the field `listed`."""
        keys = {self._key(text) for text in texts}
        if len(keys) < len(texts):
            same = ", but for spaces or case" if self.form is not None else ""
            yield f"has {listed} that repeats a value{same}. Write each value once"
        both = sorted({text for text in self.missing_values or () if self._key(text) in keys})
        if both:
            field = listed.split()[-1]
            yield f"has {quoted(both[0])} in both {field} and missing_values. Keep one of them"
        yield from super().problems()

    def _hierarchy_problems(self, hierarchy: Hierarchy) -> Iterator[str]:
        found = list(hierarchy_problems(hierarchy.parents, MAX_LEVELS - 2))
        if not found and self.enum != PRIVATE:
            found += hierarchy.cut_problems(self.enum or ())
        yield from found or self._text_problems(tuple(hierarchy.depths), "a levels_of")
