"""How one engine of SQL writes what the encoder asks for: a `Dialect` for each.

The rules are the schema's, and their order that of `admeasure.sources.encode`. A dialect knows only
how its SQL compares texts byte by byte, reads a number from a text without failing, takes the day
of a timestamp, and so on. Patterns hold no backslash and no letter without its case, so that they
mean the same in every regular expression engine. What a dialect is given is made of the schema and
of column names; no value of the private table enters a query.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.storage import Storage

LONG = 2**63 - 1
"""Whole numbers beyond 64 bits become this or its negative, which no schema names or reaches."""


@dataclass(frozen=True)
class Stored:
    """A column as the engine has it. `is_direct`: its text needs no conversion."""

    name: str
    storage: Storage
    type: str
    is_direct: bool = False


def identifier(name: str) -> str:
    """A name in double quotes, as most engines write one."""
    return '"' + name.replace('"', '""') + '"'


class Dialect(ABC):
    """The words of one engine. Expressions go in and come out as SQL."""

    name: str
    double: str = "DOUBLE"
    """The type of doubles."""
    string: str = "VARCHAR"
    """The type of texts."""
    starts_with: str = "starts_with"
    """The function that says whether a text starts with another."""
    escapes: ClassVar[Mapping[str, str]] = {"'": "''"}
    """What characters become in a literal of a text."""
    fence: str = ""
    """Ends a query whose expressions the planner must not repeat in the query around it."""
    widest: float = math.inf
    """No whole number that is read, exactly or not, is as large as this."""

    def identifier(self, name: str) -> str:
        return identifier(name)

    def text(self, value: str) -> str | None:
        """A literal, or None for a text that no value of this engine can equal."""
        return "'" + "".join(self.escapes.get(c, c) for c in value) + "'"

    def real(self, value: float) -> str:
        """A literal that is exactly this double. A plain 0.1 may be a decimal, and be rounded
        another way."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    def whole(self, value: int) -> str:
        return f"({value})" if value < 0 else str(value)

    @abstractmethod
    def nan(self, x: str, stored: Stored) -> str | None:
        """Whether a value is NaN; None where the storage has no NaN."""

    @abstractmethod
    def text_of(self, x: str, stored: Stored) -> str:
        """The text of a text, boolean, whole number or day, compared byte by byte."""

    def trim(self, text: str) -> str:
        """Without the spaces (and only those) around it."""
        return f"TRIM({text}, ' ')"

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Whether the whole of a text has a form."""

    def group(self, text: str, pattern: str, number: int) -> str:
        """What a group of a pattern holds, of a text the whole of which has that pattern. Groups
        count from 1, and the pattern takes a text apart in one way only."""
        # REGEXP_EXTRACT of some takes patterns with one group only.
        return f"REGEXP_REPLACE({text}, {self.text(f'^{pattern}$')}, '\\\\{number}')"

    @abstractmethod
    def whole_of(self, x: str, stored: Stored, *, exact: bool) -> str:
        """A whole number, NULL for one that is not whole. Beyond 64 bits it is `LONG` with its
        sign, or with `exact` itself as far as the engine can hold it."""

    @abstractmethod
    def whole_in(self, text: str, *, exact: bool) -> str:
        """The same for a text of the form `values.INTEGER_TEXT`."""

    @abstractmethod
    def double_of(self, x: str, stored: Stored) -> str:
        """The nearest double, infinite where there is none."""

    @abstractmethod
    def double_in(self, text: str) -> str:
        """The same for a text of the form of a number, an infinity or a NaN."""

    def or_far(self, read: str, text: str, tiny: str) -> str:
        """A double, or for a text that is too far from 0 or too near to it, the end that it has."""
        zero, below, above = (self.real(end) for end in (0.0, -math.inf, math.inf))
        far = f"CASE WHEN {tiny} THEN {zero} WHEN {self.is_negative(text)} THEN {below} "
        return f"COALESCE({read}, {far}ELSE {above} END)"

    def is_negative(self, text: str) -> str:
        return f"{self.starts_with}({text}, '-')"

    def of_calendar(self, text: str, read: str) -> str:
        """The days of a text, from the year 1 on: engines have a year 0, which Python has not."""
        return f"CASE WHEN NOT {self.starts_with}({text}, '0000') THEN {read} END"

    @abstractmethod
    def days_of(self, x: str, stored: Stored) -> str:
        """Days since 1970-01-01, held within the years 1 to 9999; in UTC."""

    @abstractmethod
    def days_in(self, text: str) -> str:
        """The same for a text of the form YYYY-MM-DD; NULL where there is no such day."""

    def last_at_most(self, value: str, starts: Sequence[str], *, real: bool) -> str:
        """The number of the last start that is not above a value; the first never is."""
        return halved(value, starts)

    def place_of(self, text: str, number: int) -> str | None:
        """The place of a text among those of the column with this number, NULL for any other text;
        None where the engine has no quicker way than comparing."""
        return None

    def real_bin(self, value: str, grid: RealGrid) -> str:
        """The bin of a double between the ends of a grid. By comparing alone: no engine's
        arithmetic or its overflow plays a part."""
        return self.last_at_most(value, [self.real(start) for start in grid.starts], real=True)

    def whole_bin(self, value: str, grid: OrdinalGrid) -> str:
        """The bin of a whole number between the ends of a grid."""
        if grid.size == 1:
            return "0"
        if grid.high - grid.low + 1 == grid.size:  # one level a value
            return f"{value} - {self.whole(grid.low)}"
        starts = [self.whole(int(start)) for start in grid.starts]
        return self.last_at_most(value, starts, real=False)

    def unit_text(self, u: str, stored: Stored) -> str:
        """The text of a value that names a unit (`admeasure.schema.units`)."""
        match stored.storage:
            case Storage.TEXT:
                return u
            case Storage.REAL:  # by now the whole number that it is
                return self.text_of(u, Stored("u", Storage.WHOLE, ""))
        return self.text_of(u, stored)

    def fingerprint(self, parts: Sequence[str]) -> str:
        """The MD5, in hexadecimal digits, of all parts (texts and codes) with a bar between."""
        return "MD5(" + " || '|' || ".join(f"CAST({part} AS {self.string})" for part in parts) + ")"


CASE = "CASE WHEN {condition} THEN {yes} ELSE {no} END"


def halved(value: str, starts: Sequence[str], first: int = 0, *, choice: str = CASE) -> str:
    """The number of the last start that is not above a value, by halving: as deep as the number of
    starts has binary digits. `choice` is how the dialect chooses by a condition."""
    if len(starts) == 1:
        return str(first)
    half = len(starts) // 2
    below = halved(value, starts[:half], first, choice=choice)
    above = halved(value, starts[half:], first + half, choice=choice)
    return choice.format(condition=f"{value} < {starts[half]}", yes=below, no=above)


def saturated(negative: str, limit: int = LONG) -> str:
    return f"CASE WHEN {negative} THEN -{limit} ELSE {limit} END"
