"""How a single stored value is read: storage first, then text.

`plain` brings a Python or numpy value to one of a few types; the `*_from_text` functions hold the
grammars of docs/reference/schema.md, which the SQL encoder repeats. Nothing here knows of a schema.
"""

from __future__ import annotations

import datetime
import difflib
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TypeAlias

import numpy as np

Plain: TypeAlias = bool | int | float | Decimal | str | datetime.date | None

OTHER = "other"
"""What a text column says of a value that has no level."""

EPOCH = datetime.date(1970, 1, 1).toordinal()
INTEGER_TEXT = r"[+-]?[0-9]+(\.0*)?"
NUMBER_TEXT = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
INFINITY_TEXT = r"[+-]?(inf|infinity)"
NAN_TEXT = r"[+-]?nan"
DATE_TEXT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_HOUR, _MINUTE = "([01][0-9]|2[0-3])", "[0-5][0-9]"
MOMENT_TEXT = (
    rf"{DATE_TEXT}[T ]{_HOUR}:{_MINUTE}(:{_MINUTE}([.][0-9]+)?)?"
    rf"( ?(Z|UTC|[+-]{_HOUR}(:?{_MINUTE})?))?"
)
ZONE_PARTS = rf"{DATE_TEXT}[T ][0-9:.]+ ?([+-])([0-9]{{2}}):?([0-9]{{2}})?"
"""Of a moment that is so far from UTC: the sign, hours, and minutes if there are any."""

_integer = re.compile(INTEGER_TEXT, re.ASCII)
_number = re.compile(NUMBER_TEXT, re.ASCII)
_infinity = re.compile(INFINITY_TEXT, re.ASCII | re.IGNORECASE)
_nan = re.compile(NAN_TEXT, re.ASCII | re.IGNORECASE)
_date = re.compile(DATE_TEXT, re.ASCII)
_moment = re.compile(MOMENT_TEXT, re.ASCII)
_zone = re.compile(ZONE_PARTS, re.ASCII)

# Longer digit strings are outside every bound a schema may have (±2^53); int() of a hostile text
# would otherwise take quadratic time or be refused by the interpreter.
_LONG_DIGITS = 40


class UnreadableStorage(Exception):
    """A value of a type that no column reads, such as bytes or a list."""


def quoted(name: object) -> str:
    """A name for a message: on one line, never long.

    >>> quoted("a\\nb")
    "'a\\\\nb'"
    """
    text = repr(name)
    return text if len(text) <= 80 else text[:60] + "…" + text[-16:]


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A question with the nearest known word, or nothing.

    >>> did_you_mean("maximun", ["minimum", "maximum"])
    "Did you mean 'maximum'?"
    """
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"Did you mean {quoted(near[0])}?" if near else ""


def plain(value: object) -> Plain:
    """Bring a value from a frame, an array or a list to a plain Python type; a timestamp becomes
    its day, in UTC where it has a zone."""
    match value:
        case None | str() | bool():
            return str(value) if isinstance(value, str) else value
        case float():
            return None if math.isnan(value) else float(value)
        case datetime.datetime():
            return _day_of(value)
        case datetime.date():
            return value
        case datetime.time() if value.tzinfo is None:
            return _text_of_time(value)
        case np.bool_():
            return bool(value)
        case np.datetime64():
            return None if np.isnat(value) else _date_of_numpy(value)
        case numbers.Integral():
            return int(value)
        case Decimal():
            return None if value.is_nan() else value
        case numbers.Real() if isinstance(value, np.floating):
            number = float(value)
            return None if math.isnan(number) else number
    if type(value).__name__ in {"NAType", "NaTType"}:  # pandas' own nulls, without importing it
        return None
    raise UnreadableStorage(type(value).__name__)


def _text_of_time(value: datetime.time) -> str:
    """A time of the day as engines write it: with seconds, and as many digits after as it has."""
    text = value.isoformat("microseconds")
    return text.rstrip("0").rstrip(".") if value.microsecond else text[:8]


def _day_of(value: datetime.datetime) -> datetime.date | None:
    if type(value).__name__ == "NaTType":
        return None
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return datetime.date(value.year, value.month, value.day)


def _date_of_numpy(value: np.datetime64) -> datetime.date:
    day = value.astype("datetime64[D]").astype(object)
    if not isinstance(day, datetime.date):  # numpy gives an int for years outside 1 … 9999
        return datetime.date.max if day > 0 else datetime.date.min
    return day


def objects(values: Sequence[object]) -> np.ndarray:
    """An array of these very objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def day(number: int) -> datetime.date:
    """The day of that number; the inverse of `days`."""
    return datetime.date.fromordinal(number + EPOCH)


def days(date: datetime.date) -> int:
    """Days since 1970-01-01."""
    return date.toordinal() - EPOCH


def integer_from_text(text: str) -> int | None:
    if not _integer.fullmatch(text):
        return None
    whole = text.partition(".")[0]
    sign = -1 if whole[0] == "-" else 1
    digits = whole.lstrip("+-").lstrip("0") or "0"
    return sign * (int(digits) if len(digits) <= _LONG_DIGITS else 10**_LONG_DIGITS)


def number_from_text(text: str) -> float | None:
    """The double a text stands for; NaN for the text nan; None where it is not a number."""
    if _number.fullmatch(text) or _infinity.fullmatch(text) or _nan.fullmatch(text):
        return float(text)
    return None


def boolean_from_text(text: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(_ascii_lower(text))


def _ascii_lower(text: str) -> str:
    # str.lower maps some non-ASCII letters to ASCII ones, which SQL's comparison would not.
    return text.lower() if text.isascii() else text


def date_from_text(text: str) -> datetime.date | None:
    """The day of an ISO date or timestamp, in UTC where it has a zone.

    >>> date_from_text("2024-03-05"), date_from_text("2024-03-05 23:30:00-05:00")
    (datetime.date(2024, 3, 5), datetime.date(2024, 3, 6))
    """
    if not _date.fullmatch(text) and not _moment.fullmatch(text):
        return None
    try:
        day = datetime.date.fromisoformat(text[:10])
    except ValueError:
        return None
    zone = _zone.fullmatch(text)
    return day if zone is None else _in_utc(day, text, *zone.groups())


def _in_utc(
    day: datetime.date, text: str, sign: str, hours: str, minutes: str | None
) -> datetime.date:
    """Held within the calendar, as stored timestamps are."""
    local = 60 * int(text[11:13]) + int(text[14:16])
    offset = 60 * int(hours) + int(minutes or 0)
    if sign == "+" and local < offset and day > datetime.date.min:
        return day - datetime.timedelta(1)
    if sign == "-" and local + offset >= 24 * 60 and day < datetime.date.max:
        return day + datetime.timedelta(1)
    return day


def double(value: float | Decimal) -> float:
    """The nearest double, infinite where there is none."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
