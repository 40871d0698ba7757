"""Conditions as people type them, to and from the selections of schema and query files.

    Private, State-gov     either of two values; "a, b" in quotes is one value with a comma
    17..25   ..25   40..   a range of numbers or days, both ends included
    (missing)   (other)    the level of that name

What a selection stands for is the schema's business (`admeasure.schema.select`).
"""

from __future__ import annotations

import csv
import datetime
import math
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema.values import quoted

LEVELS = {"(missing)": "missing", "(other)": "other"}
ORDERED = ("integer", "number", "date")


def selection_of(kind: str, text: str) -> Any:
    """The selection that a text means in a column of this type.

    >>> selection_of("integer", "17..25, 40"), selection_of("string", "a, (missing)")
    ([{'from': 17, 'to': 25}, 40], ['a', {'level': 'missing'}])
    """
    parts = [part for part in _split(text) if part]
    if not parts:
        raise SchemaError("A condition is empty. Type a value, or several with commas.")
    found = [_part(kind, part) for part in parts]
    return found[0] if len(found) == 1 else found


def text_of(selection: Any) -> str:
    """The text that means a selection; the inverse of `selection_of`."""
    if isinstance(selection, list | tuple):
        return ", ".join(map(text_of, selection))
    if isinstance(selection, dict):
        if "level" in selection:
            return f"({selection['level']})"
        return f"{_plain(selection.get('from', ''))}..{_plain(selection.get('to', ''))}"
    plain = _plain(selection)
    if isinstance(selection, str) and (
        set(plain) & set(',"') or plain != plain.strip() or not plain
    ):
        return '"' + plain.replace('"', '""') + '"'
    return plain


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> list[str]:
    lines = text.splitlines() or [""]
    return [part for row in csv.reader(lines, skipinitialspace=True) for part in row]


def _part(kind: str, part: str) -> Any:
    word = part.strip()
    if word in LEVELS:
        return {"level": LEVELS[word]}
    if kind in ORDERED and ".." in word:
        low, _, high = word.partition("..")
        ends = {"from": low.strip(), "to": high.strip()}
        if not any(ends.values()):
            raise SchemaError("A range needs at least one end, as 17..25, ..25 or 40..")
        return {key: value_of(kind, end) for key, end in ends.items() if end}
    return value_of(kind, part if kind == "string" else word)


def value_of(kind: str, text: str) -> Any:
    """One value in the type of its column."""
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                number = float(text)
                if not math.isfinite(number):
                    raise ValueError
                return int(text) if text.lstrip("+-").isdigit() else number
            case "date":
                return datetime.date.fromisoformat(text)
            case "boolean":
                return {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError):
        words = {
            "integer": "a whole number",
            "number": "a number",
            "date": "a day, as 2024-12-31",
            "boolean": "true or false",
        }
        raise SchemaError(f"{quoted(text)} is not {words[kind]}.") from None
    return text
