"""Rows as a few whole numbers each, made by Spark's plan: what passes from Java to Python.

Handing a row to Python has a cost a value, and a text costs more than a number. So the plan names
values by digits. A column's digit says which of a few values it is that the schema makes probable
(the texts of an enum, the numbers between its bounds); the digits of all columns are put side by
side in as few 64-bit numbers as hold them, p0, p1, …. A row with a value that is none of these
travels as text as well, in the column `odd`, and is read from there.

What a value means is not decided in the plan. A digit stands for a stored value, and in the
executors the schema's encoder is asked once for the code of each. Texts are compared byte by byte:
a digit is given only to the very text it stands for.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from admeasure.schema.clock import ClockForm
from admeasure.schema.column import Column
from admeasure.schema.forms import WordForm
from admeasure.schema.frames import Frame, StoredColumn
from admeasure.schema.grid import OrdinalGrid
from admeasure.schema.rules import Reads
from admeasure.schema.storage import Storage
from admeasure.schema.values import day

NUMBER_BITS = 62
MOST_TEXTS = 128
MOST_NUMBERS = 2**16
_MOST_SLOT_BITS = 12
_WHOLE = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True)
class Texts:
    """Texts, each in the slot that its hash has. There are 2^k slots; those that no text has taken
    hold the empty text, which is read like any other where it occurs."""

    slots: tuple[str, ...]
    shift: int

    @property
    def size(self) -> int:
        return len(self.slots)

    def digit(self, name: str) -> str:
        slot = f"(shiftrightunsigned(hash({name}), {self.shift}) & {self.size - 1})"
        # Hexadecimal, since how a text in quotes is read depends on the session.
        texts = ", ".join(f"CAST(X'{text.encode().hex()}' AS STRING)" for text in self.slots)
        is_it = f"CAST(get(array({texts}), {slot}) = {name} AS INT)"
        return f"coalesce(({slot} + 1) * {is_it}, {self.size + 1})"

    def text(self, name: str) -> str:
        return name

    def values(self) -> StoredColumn:
        return StoredColumn("object", [None, *self.slots, None])

    def read(self, texts: list[str | None]) -> StoredColumn:
        return StoredColumn("object", texts)


@dataclass(frozen=True)
class Numbers:
    """Whole numbers from `low` to `high`, days since 1970-01-01, or booleans as 0 and 1."""

    low: int
    high: int
    stored: pa.DataType

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def digit(self, name: str) -> str:
        number = self._number(name)
        inside = f"{number} BETWEEN {self.low}L AND {self.high}L"
        place = f"CAST({number} - ({self.low - 1}L) AS INT)"
        found = f"CASE WHEN {name} IS NULL THEN {self.size + 1} WHEN {inside} THEN {place} END"
        return f"coalesce({found}, 0)"

    def text(self, name: str) -> str:
        return f"CAST({self._number(name)} AS STRING)"

    def values(self) -> StoredColumn:
        return self._stored([None, *range(self.low, self.high + 1), None])

    def read(self, texts: list[str | None]) -> StoredColumn:
        return self._stored([None if text is None else int(text) for text in texts])

    def _number(self, name: str) -> str:
        if pa.types.is_date(self.stored):
            return f"unix_date({name})"
        return f"CAST({name} AS INT)" if pa.types.is_boolean(self.stored) else name

    def _stored(self, numbers: list[int | None]) -> StoredColumn:
        plain = pa.array(numbers, pa.int64())
        if pa.types.is_date(self.stored):
            plain = plain.cast(pa.int32())
        return Frame({"x": pa.chunked_array([plain.cast(self.stored)])}).column("x")


Digits = Texts | Numbers


@dataclass(frozen=True)
class Packing:
    """Which columns travel as digits, by their places among the columns that are read."""

    digits: tuple[tuple[int, Digits], ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(place for place, _ in self.digits)

    @property
    def numbers(self) -> list[list[tuple[int, Digits]]]:
        """What p0, p1, … hold: the digit of the last one is lowest."""
        found: list[list[tuple[int, Digits]]] = []
        room = 0
        for place, digits in self.digits:
            if room < bits(digits):
                found.append([])
                room = NUMBER_BITS
            room -= bits(digits)
            found[-1].append((place, digits))
        return found

    def columns(self, names: Sequence[str]) -> list[str]:
        """p0, p1, … in SQL. A number is 0 where one of its digits is.

        Every digit is used twice, and so is every number (by `odd`): Spark makes a method of its
        own of what is used twice, and Java compiles no method that is long.
        """
        return [self._column(number, names) for number in self.numbers]

    def _column(self, number: list[tuple[int, Digits]], names: Sequence[str]) -> str:
        packed, each = "0L", []
        for place, digits in number:
            each.append(digits.digit(names[place]))
            packed = f"(shiftleft({packed}, {bits(digits)}) | {each[-1]})"
        return f"{packed} * least(1, {', '.join(each)})"

    def is_odd(self, names: Sequence[str]) -> str:
        return " OR ".join(f"({column}) = 0" for column in self.columns(names))

    def unpack(self, numbers: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The digits of each column."""
        found: dict[int, np.ndarray] = {}
        for number, listed in zip(numbers, self.numbers, strict=True):
            start = 0
            for place, digits in reversed(listed):
                found[place] = (number >> start) & ((1 << bits(digits)) - 1)
                start += bits(digits)
        return found


def bits(digits: Digits) -> int:
    """0 is for a value that is not listed, the last one for null."""
    return (digits.size + 1).bit_length()


def packing(columns: Sequence[Column], stored: Sequence[str]) -> Packing:
    """The columns that can travel as digits, given the names of Spark's types."""
    found = [digits_of(column, kind) for column, kind in zip(columns, stored, strict=True)]
    return Packing(tuple((i, digits) for i, digits in enumerate(found) if digits is not None))


def digits_of(column: Column, stored: str) -> Digits | None:
    """What a column's values may be told by; None where the schema does not say enough."""
    if stored == "string":
        return slots_of(_texts_of(column))
    if stored == "boolean":
        return Numbers(0, 1, pa.bool_())
    rules = column.rules.get(Storage.DAY if stored == "date" else Storage.WHOLE)
    is_day = stored == "date" and rules is not None and rules.reads is Reads.DAY
    types = {"date": pa.date32()} if is_day else _INTEGERS
    if stored not in types or rules is None or (bounds := _bounds_of(column)) is None:
        return None
    low, high = bounds
    if high - low >= MOST_NUMBERS:
        return None
    if not is_day:
        least, most = _LIMITS[stored]
        low, high = max(low, least), min(high, most)
    return Numbers(low, high, types[stored]) if low <= high else None


_INTEGERS = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()}
_LIMITS = {
    name: (np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max)
    for name, kind in _INTEGERS.items()
}


def _bounds_of(column: Column) -> tuple[int, int] | None:
    found = {int(text) for text in _words_of(column) if _WHOLE.fullmatch(text)}
    if column.grid is not None:
        found |= {math.ceil(column.grid.low), math.floor(column.grid.high)}
    return (min(found), max(found)) if found else None


def _words_of(column: Column) -> list[str]:
    """What the schema spells out."""
    return [*map(str, column.held or ()), *(column.missing_values or ())]


def _texts_of(column: Column) -> list[str]:
    words = _words_of(column)
    rules = column.rules[Storage.TEXT]
    if isinstance(column.form, WordForm):
        words += column.form.words
    elif rules.reads is Reads.TRUTH:
        words += ["true", "false", "True", "False", "TRUE", "FALSE", "0", "1"]
    bounds = _bounds_of(column) if isinstance(rules.levels, OrdinalGrid) else None
    if bounds is not None and bounds[1] - bounds[0] < MOST_TEXTS:
        numbers = range(bounds[0], bounds[1] + 1)
        clock = column.form.spelled if isinstance(column.form, ClockForm) else str
        words += map(_day_text(column) if rules.reads is Reads.DAY else clock, numbers)
    return list(dict.fromkeys(words))


def _day_text(column: Column) -> Callable[[int], str]:
    """How the table spells a day."""
    spelled = datetime.date.isoformat if column.form is None else column.form.spelled
    return lambda number: spelled(day(number))


def slots_of(texts: Sequence[str]) -> Texts | None:
    """The fewest slots in which no two texts meet."""
    if not 0 < len(texts) <= MOST_TEXTS:
        return None
    hashes = [murmur3(text.encode()) for text in texts]
    for width in range((len(texts) - 1).bit_length(), _MOST_SLOT_BITS + 1):
        for shift in range(32 - width):
            places = [(h >> shift) & ((1 << width) - 1) for h in hashes]
            if len(set(places)) == len(places):
                slots = [""] * (1 << width)
                for place, text in zip(places, texts, strict=True):
                    slots[place] = text
                return Texts(tuple(slots), shift)
    return None


def murmur3(data: bytes) -> int:
    """Spark's `hash` of a text, without its sign: MurmurHash3 of 32 bits, but for the bytes after
    the last whole word, which are mixed in one by one. A mistake here would cost time, not truth:
    a text in the wrong slot is never met there."""
    whole = len(data) - len(data) % 4
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
    words += [byte if byte < 128 else byte + 0xFFFFFF00 for byte in data[whole:]]
    h = 42
    for word in words:
        k = word * 0xCC9E2D51 & _32
        k = (k << 15 | k >> 17) & _32
        h ^= k * 0x1B873593 & _32
        h = (h << 13 | h >> 19) & _32
        h = h * 5 + 0xE6546B64 & _32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _32
    return h ^ h >> 16


_32 = 0xFFFFFFFF
