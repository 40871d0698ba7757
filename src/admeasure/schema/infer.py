"""Types, levels and bounds from the values of a public table: last year's release, an extract that
anybody may have. Never from the private table: `draft` takes nothing but names from that.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable
from typing import Any

from admeasure.schema.clock import CLOCKS, TIMES_OF_DAY, ClockForm
from admeasure.schema.column import PRIVATE
from admeasure.schema.forms import DayForm, Form, NumberForm
from admeasure.schema.imports import Fields
from admeasure.schema.look import FORMATS
from admeasure.schema.values import (
    UnreadableStorage,
    date_from_text,
    integer_from_text,
    number_from_text,
    plain,
)

MISSING = (
    *("", "NA", "N/A", "n/a", "na", "NaN", "nan"),
    *("NULL", "null", "None", "?", ".", "-", "#N/A"),
)
"""Texts that mean missing, if nothing in the column speaks against it."""
MOST_LEVELS = 1000
FEW = 50
MANY = 100
"""From so many values on, whole numbers and days are cut into bins, which a run finds. Numbers with
fractions have such bins where none are given."""
_TRUTHS = ({"yes", "no"}, {"y", "n"}, {"true", "false"}, {"t", "f"}, {"ja", "nein"}, {"oui", "non"})
_TRUE = {"yes", "y", "true", "t", "ja", "oui"}
_NUMBERS = ((".", None), (",", None), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"))


def fields_of(values: Iterable[tuple[Any, int]]) -> Fields | None:
    """The fields of a column with these values, each in so many rows; None where they say
    nothing."""
    known = set()
    rows = 0
    for value, count in values:
        rows += count
        try:
            known.add(plain(value))
        except UnreadableStorage:
            return None
    texts = [value for value in known if isinstance(value, str)]
    missing = sorted(text for text in texts if text.strip(" ") in MISSING)
    rest = [v for v in known if v is not None and v not in missing]
    found = _typed(rest)
    if found is not None and len(found.get("enum", ())) > max(FEW, rows / 4):
        del found["enum"]  # they name rows rather than kinds of them
    if found is not None and (missing or None in known):
        found["missing_values"] = [text for text in missing if text]
    return found


def _typed(values: list[Any]) -> Fields | None:
    if not values:
        return None
    for attempt in (_truths, _wholes, _numbers, _days, _times, _categories):
        found = attempt(values)
        if found is not None:
            return found
    return {"type": "string"}


def _truths(values: list[Any]) -> Fields | None:
    if all(isinstance(v, bool) for v in values):
        return {"type": "boolean"}
    if not all(isinstance(v, str) for v in values):
        return None
    if {v.strip(" ").lower() for v in values} not in _TRUTHS:
        return None
    true = sorted(v.strip(" ") for v in values if v.strip(" ").lower() in _TRUE)
    false = sorted(v.strip(" ") for v in values if v.strip(" ").lower() not in _TRUE)
    if {*map(str.lower, true), *map(str.lower, false)} == {"true", "false"}:
        return {"type": "boolean"}
    return {"type": "boolean", "true_values": true, "false_values": false}


def _read(values: list[Any], form: Form | None, reader: Callable[[str], Any]) -> list[Any] | None:
    """Every text by a form, and what is stored as a value itself; None where one cannot be."""
    read = []
    for value in values:
        if isinstance(value, str):
            text = value.strip(" ")
            text = text if form is None else form.standard(text)
            value = None if text is None else reader(text)
        if value is None:
            return None
        read.append(value)
    return read


def _wholes(values: list[Any]) -> Fields | None:
    if not all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values):
        return None
    texts = [v.strip(" ") for v in values if isinstance(v, str)]
    if any(len(t.lstrip("+-")) > 1 and t.lstrip("+-").startswith("0") for t in texts):
        return None  # codes, whose zeros mean something
    read = _read(values, None, lambda text: None if "." in text else integer_from_text(text))
    return None if read is None else _between("integer", min(read), max(read))


def _numbers(values: list[Any]) -> Fields | None:
    if any(isinstance(v, (bool, datetime.date)) for v in values):
        return None
    for decimal, thousands in _NUMBERS:
        read = _read(values, NumberForm(decimal, thousands), number_from_text)
        if read is None or not all(math.isfinite(v) for v in read):
            continue
        texts = [v.strip(" ") for v in values if isinstance(v, str)]
        found = _between("number", float(min(read)), float(max(read)))
        places = {len(t.partition(decimal)[2]) for t in texts if "e" not in t.lower()}
        found |= {"decimals": max(places)} if texts and places and max(places) <= 15 else {}
        found |= {"decimal": decimal} if decimal != "." else {}
        return found | ({"thousands": thousands} if thousands else {})
    return None


def _days(values: list[Any]) -> Fields | None:
    for form in (None, *FORMATS):
        if not all(isinstance(v, (str, datetime.date)) for v in values):
            return None
        read = _read(values, None if form is None else DayForm(form), date_from_text)
        if read is not None:
            found = _between("date", min(read), max(read))
            return found | ({"format": form} if form is not None else {})
    return None


def _times(values: list[Any]) -> Fields | None:
    texts = [v for v in values if isinstance(v, str)]
    for form in CLOCKS if len(texts) == len(values) else ():
        if _read(texts, ClockForm(form), integer_from_text) is not None:
            return {**TIMES_OF_DAY, "format": form}
    return None


def _categories(values: list[Any]) -> Fields | None:
    texts = sorted(v for v in values if isinstance(v, str))
    if len(texts) < len(values) or len(texts) > MOST_LEVELS:
        return None
    plainly = {text.strip(" ").lower(): text.strip(" ") for text in reversed(texts)}
    if len(plainly) == len(texts):
        return {"type": "string", "enum": texts}
    return {"type": "string", "enum": sorted(plainly.values()), "strip": True, "ignore_case": True}


def _between(kind: str, low: Any, high: Any) -> Fields:
    if low == high and kind == "number":
        return {"type": kind}
    span = (high - low).days if kind == "date" else high - low
    few = kind != "number" and span < MANY
    least, most = (low, high) if few else outward(low, high)
    found = {"type": kind, "minimum": least, "maximum": most}
    return found | ({} if few or kind == "number" else {"bins": PRIVATE})


def outward(low: Any, high: Any) -> tuple[Any, Any]:
    """Round bounds around what a public table holds: another table seldom ends where it does. Whole
    years, or multiples of the power of ten that their distance has.

    >>> outward(1106.95, 8982.95), outward(3, 140)
    ((1000.0, 9000.0), (0, 200))
    """
    if isinstance(low, datetime.date):
        return datetime.date(low.year, 1, 1), datetime.date(high.year, 12, 31)
    power = math.floor(math.log10(high - low))
    step = 10**power if power >= 0 else 10.0**power
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    if isinstance(low, float):
        least, most = min(float(ends[0]), low), max(float(ends[1]), high)
        return (least, most) if math.isfinite(most - least) else (low, high)
    return ends
