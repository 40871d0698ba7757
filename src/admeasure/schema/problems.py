"""Why a table is refused, in words that name column and rule and never a value or a count.

Every encoder marks a value that has no level by a negative code, a `Refusal`. `refusals` turns the
marks of one column into problems, and `data_error` turns problems into the one error to raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from admeasure.errors import DataError
from admeasure.schema.values import quoted

if TYPE_CHECKING:
    from admeasure.schema.column import Column


class Refusal(IntEnum):
    """Marks, as negative codes, for values without a level of their own."""

    MISSING = -1
    UNREADABLE = -2
    OUTSIDE = -3
    NOT_IN_ENUM = -4
    WRONG_STORAGE = -5


@dataclass(frozen=True)
class Problem:
    """One column and one rule that the table breaks. `column` is None for the table as a whole."""

    column: str | None
    rule: str
    advice: str = ""

    def __str__(self) -> str:
        where = "The table" if self.column is None else f"Column {quoted(self.column)}"
        return f"{where} {self.rule}" + (f"; {self.advice}." if self.advice else ".")


def resolve(column: Column, refusal: Refusal) -> int | None:
    """The level a refused value goes to by the schema, or None where the table is to be refused."""
    if refusal is Refusal.MISSING:
        return column.missing_code
    return None if refusal is Refusal.WRONG_STORAGE else column.other_code


def problem(column: Column, refusal: Refusal) -> Problem:
    """The words for a refused value."""
    kind = {"integer": "an integer", "number": "a number", "boolean": "a boolean"}.get(
        column.type, f"a {column.type}"
    )
    match refusal:
        case Refusal.MISSING:
            rule = "has missing values"
            advice = "declare `missing_values = []` in the schema to give them a level"
        case Refusal.UNREADABLE:
            rule = f"has a value that is not {kind}{column.spelling}"
            advice = (
                f"say how the table spells it, as by {column.spelling_fields}, or correct the table"
            )
        case Refusal.OUTSIDE:
            rule = f"has a value outside [minimum, maximum] = {column.bounds_text}"
            advice = "correct the table, or set `clamp = true` or `other = true`"
        case Refusal.NOT_IN_ENUM:
            rule = "has a value not in enum"
            ways = f" ({column.spelling_fields} read other spellings)" if kind == "a string" else ""
            advice = f"add what the codebook lists{ways}, or set `other = true`"
        case Refusal.WRONG_STORAGE:
            rule = f"is stored in a form that type {column.type} cannot read"
            advice = "change the schema's type or convert the column"
    return Problem(column.name, rule, advice)


def refusals(column: Column, marks: Iterable[int]) -> list[Problem]:
    """The problems of one column, given the marks that occur in it."""
    found = sorted({Refusal(m) for m in marks if m < 0}, reverse=True)
    return [problem(column, r) for r in found if resolve(column, r) is None]


def data_error(problems: Sequence[Problem]) -> DataError:
    """All problems in one error: one line where there is one problem, else a summary first."""
    lines = [str(p) for p in problems]
    if len(lines) == 1:
        return DataError(lines[0])
    return DataError("\n".join([f"The table breaks {len(lines)} rules of its schema:", *lines]))
