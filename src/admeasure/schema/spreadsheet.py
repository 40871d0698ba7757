"""Texts that a spreadsheet would run, and a form of them that it shows.

A spreadsheet takes a cell of a CSV file that begins with = + - or @ for a formula, whoever wrote
it, and a formula can send other cells away. The levels of a schema may be such texts, so that
synthetic rows hold them. In the safe form a text cell, or the name of a column, that could be a
formula has an apostrophe in front. Numbers, also negative ones, stay as they are, and so do texts
that are numbers.

The form can be undone: a text that begins with an apostrophe gets another one, so that taking one
apostrophe off every text that begins with one gives back what was there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from admeasure.schema.model import Schema
from admeasure.schema.values import objects

MARK = "'"
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def could_be_formula(text: str) -> bool:
    """
    >>> [could_be_formula(t) for t in ("=1+1", "@SUM(A1)", "-x", "-5", "+1.5e3", "a=b")]
    [True, True, True, False, False, False]
    """
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def safe_text(text: str) -> str:
    """The text as a spreadsheet may see it.

    >>> safe_text("=1+1"), safe_text("'tis"), safe_text("plain")
    ("'=1+1", "''tis", 'plain')
    """
    return MARK + text if could_be_formula(text) or text.startswith(MARK) else text


def plain_text(text: str) -> str:
    """What `safe_text` was given: `plain_text(safe_text(t)) == t` for every text."""
    return text.removeprefix(MARK)


def safe_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns with their names and texts in the safe form; whatever is no text stays as it is."""
    return {safe_text(name): _safe(values) for name, values in columns.items()}


def _safe(values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "OU":
        return values
    texts = {v: safe_text(v) for v in set(array.tolist()) if isinstance(v, str)}
    return objects([texts.get(v, v) if isinstance(v, str) else v for v in array.tolist()])


def columns_with_formulas(schema: Schema) -> list[str]:
    """The columns whose name, or a level of which, a spreadsheet could take for a formula."""
    return [
        column.name
        for column in schema.columns
        if could_be_formula(column.name)
        or any(could_be_formula(v) for v in column.held or () if isinstance(v, str))
    ]
