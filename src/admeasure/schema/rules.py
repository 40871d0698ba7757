"""What a column's type says of its values, once for all encoders: what is read from a value, what
of it is missing, and which level the rest has.

A column has `Rules` for each storage that it can be read from. The encoders are translations of
them: `Rules.code` for one value of Python, `admeasure.schema.encode` for arrays,
`admeasure.sources.encode` for SQL; Spark's plan takes from them which values are probable. Tests
hold the translations together on random values.

The steps, in order:

1. null and NaN are missing, and so is a text that, without the spaces around it, is one of
   `missing_texts` (where texts themselves are what is read, they are only looked up);
2. a text is brought to the standard text that `form` makes of it, where the column has a form
   (`admeasure.schema.forms`); one that is not of this form is UNREADABLE;
3. the value is read as `reads` says; what cannot be read so is UNREADABLE;
4. what was read is missing if it is NaN or one of `missing`;
5. `levels` gives it its level: an entry of a list, or a bin of a grid.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from admeasure.schema import values
from admeasure.schema.forms import Form
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.problems import Refusal
from admeasure.schema.values import Plain, double

Number = int | float


def _text(value: Plain) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime.date():
            return value.isoformat()
    return str(value)


def _whole(value: Any) -> Number | None:
    match value:
        case str():
            return values.integer_from_text(value.strip(" "))
        case float() | Decimal() if value in (math.inf, -math.inf):
            return float(value)
    return int(value) if value == int(value) else None


def _truth(value: Any) -> Number | None:
    """Words for the two numbers; a text of digits is one of them only if it is `0` or `1`."""
    if not isinstance(value, str):
        return _whole(value)
    found = values.boolean_from_text(value.strip(" "))
    if found is not None:
        return int(found)
    number = _whole(value)
    return None if number in (0, 1) else number


def _real(value: Any) -> float | None:
    return values.number_from_text(value.strip(" ")) if isinstance(value, str) else double(value)


def _day(value: Any) -> int | None:
    day = values.date_from_text(value.strip(" ")) if isinstance(value, str) else value
    return None if day is None else values.days(day)


class Reads(Enum):
    """What is read from a value, and how Python reads it; None for what cannot be read so."""

    TEXT = (_text,)
    TRUTH = (_truth,)
    """0 and 1; another whole number may be listed as missing."""
    WHOLE = (_whole,)
    REAL = (_real,)
    DAY = (_day,)
    """Days since 1970-01-01."""

    def __init__(self, reader: Callable[[Any], Any]) -> None:
        self.reader = reader


@dataclass(frozen=True, eq=False)
class Listed:
    """Levels that are listed values. An entry has a code, or a `Refusal` where it is listed as
    missing; `absent` is what any other value is. The codes ascend from 0, each for one entry or
    several, and refusals are last."""

    entries: Mapping[Any, int]
    absent: Refusal

    def place(self, value: Any) -> int:
        return self.entries.get(value, self.absent)


@dataclass(frozen=True, eq=False)
class Rules:
    """How a column reads values of one storage: see the top of this file."""

    reads: Reads
    levels: Listed | OrdinalGrid | RealGrid
    missing_texts: frozenset[str] = frozenset()
    missing: frozenset[Number] = frozenset()
    form: Form | None = None

    def read(self, value: Plain) -> Any:
        """What is read from a value that is not null; None where it cannot be read."""
        if self.form is None:
            return self.reads.reader(value)
        if self.reads is Reads.TEXT:
            return self.form.standard(_text(value) or "")
        if isinstance(value, str):
            value = self.form.standard(value.strip(" "))
        return None if value is None else self.reads.reader(value)

    def code(self, value: Plain) -> int:
        """The code of a value that is not null, or the mark of why it has none."""
        if isinstance(value, str) and value.strip(" ") in self.missing_texts:
            return Refusal.MISSING
        read = self.read(value)
        if read is None:
            return Refusal.UNREADABLE
        if read != read or read in self.missing:
            return Refusal.MISSING
        return self.levels.place(read)


def missing_texts(listed: tuple[str, ...] | None) -> frozenset[str]:
    """The texts that mean missing where texts stand for something else."""
    return frozenset(text.strip(" ") for text in listed or ()) | {""}


def missing_read(
    reads: Reads, listed: tuple[str, ...] | None, form: Form | None = None
) -> frozenset[Number]:
    """The listed texts that read as values: as the table spells them, or else by the standard."""
    texts = [text.strip(" ") for text in listed or ()]
    if form is not None:
        texts = [form.standard(text) or text for text in texts]
    read = map(reads.reader, texts)
    return frozenset(r for r in read if r is not None and r == r)
