"""Rows that can take the table's place: decoded values, spelled as the table spells them.

A column that is text in the table is text in the rows: categories, and what the schema has a form
for (`format`, `decimal`, `true_values`, …). There `missing` is the first of `missing_values` (null
where that is empty) and `other` the text of `other_text`, so that the two can be told apart and
encoding the rows gives back their codes. Other columns keep the type's own storage, in which both
are null; a CSV file has texts only, so that there every column is spelled out.

Like decoding this is post-processing of public facts and of codes that were paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from admeasure.schema.column import Column
from admeasure.schema.decode import OTHER, decode
from admeasure.schema.difference import reader
from admeasure.schema.inside import Inside
from admeasure.schema.model import Schema
from admeasure.schema.problems import Refusal


def rows(
    schema: Schema,
    codes: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    inside: Mapping[str, Inside] | None = None,
    *,
    as_texts: bool,
) -> dict[str, Any]:
    """The columns of a table with these codes; with `as_texts` as a CSV file has them.

    >>> schema = Schema.coded("toy", {"age": 3})
    >>> rows(schema, {"age": np.array([2])}, np.random.default_rng(0), as_texts=False)
    {'age': array([2])}
    """
    values = decode(schema, codes, rng, inside)
    return {
        name: _spelled(_described(schema, name), found, codes.get(name), as_texts=as_texts)
        for name, found in values.items()
    }


def other_text(column: Column) -> str:
    """The text that stands for `other`: one that the column reads as nothing else."""
    text = OTHER
    while column.code_of(text) >= Refusal.MISSING:
        text = f"({text})"
    return text


def _described(schema: Schema, name: str) -> Column:
    """What says how a column is spelled. One that is a sum is spelled as what is added to."""
    is_sum = any(entry.of == name for entry in schema.difference)
    return reader(schema, name) if is_sum else schema.column(name)


def _spelled(
    column: Column, values: np.ndarray, codes: np.ndarray | None, *, as_texts: bool
) -> np.ndarray:
    is_text = column.form is not None or column.type == "string"
    if not is_text and not (as_texts and _needs_text(column)):
        return values
    listed = values.tolist()
    spelled = {value: column.spelled(value) for value in set(listed) - {None}}
    made = np.array([spelled.get(value) for value in listed], dtype=object)
    gaps = np.array([value is None for value in listed], dtype=bool)
    other = np.zeros(len(gaps), bool) if codes is None else np.asarray(codes) == column.other_code
    made[gaps & ~other] = (column.missing_values or ("",))[0] or None
    if column.other:
        made[other] = other_text(column)
    return made


def _needs_text(column: Column) -> bool:
    """Whether a column of a CSV file has something that its own storage would not spell."""
    return column.levels > column.regular or getattr(column, "decimals", None) is not None
