"""Which rows of a unit are kept, where a unit may have more rows than the schema allows.

Nothing is released here. That one unit changes no more than `max_rows_per_unit` counted rows holds
because which of its rows are kept is a function of its own rows alone: not of the order in which a
table happens to be stored or read, nor of anyone else's rows. One rule serves every source
(docs/reference/schema.md, "Rows of one unit"):

    the first `max_rows_per_unit` rows of the unit by the MD5 of `unit|code|code|…`, then by codes

with the unit as a text (`unit_text`), the codes of all columns in decimal digits and in the order
of the schema, and the MD5 in hexadecimal digits. Rows that still tie are equal to every count.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import numpy as np

from admeasure.errors import DataError
from admeasure.schema.frames import EXACT_DOUBLE, StoredColumn
from admeasure.schema.problems import Problem
from admeasure.schema.values import quoted

_BLOCK = 1 << 16


def without_unit(name: str | None) -> Problem:
    return Problem(name, "has rows without a unit", "give every row its unit, or remove it")


def inexact_unit(name: str | None) -> Problem:
    return Problem(
        name,
        "has numbers that cannot name units exactly",
        "store units as whole numbers or as texts",
    )


def row_order(unit: str, codes: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """The place of a row among those of its unit.

    >>> row_order("ann", [3, 0])[0] == md5(b"ann|3|0").hexdigest()
    True
    """
    text = "|".join([unit, *map(str, codes)])
    return md5(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest(), tuple(codes)


def unit_text(value: Any) -> str:
    """A unit's name as a text: whole numbers in digits, true and false, dates in ISO form."""
    match value:
        case str():
            return value
        case bool() | np.bool_():
            return str(bool(value)).lower()
        case float() | np.floating():
            return str(int(value))
    return str(value)


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of each row, as a number, and what the units are called."""

    group: np.ndarray
    names: Sequence[Any] | np.ndarray

    def kept(self, codes: Sequence[np.ndarray], most: int) -> np.ndarray:
        """Which rows are counted, as a mask: at most so many of each unit. `codes` are those of all
        columns, in the order of the schema. Only units with too many rows need an order, so that
        only their rows are hashed."""
        kept = np.ones(len(self.group), dtype=bool)
        crowded = np.flatnonzero((np.bincount(self.group) > most)[self.group])
        if not len(crowded):
            return kept
        group, codes = self.group[crowded], [c[crowded] for c in codes]
        order = np.lexsort((*reversed(codes), *_hashes(group, self.names, codes), group))
        ordered = group[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        position = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        kept[crowded[order[position >= most]]] = False
        return kept


def units_of(identifiers: StoredColumn, name: str) -> tuple[Units | None, list[Problem]]:
    """The units that a column names; or None and why it cannot name any."""
    if identifiers.null is not None:
        return None, [without_unit(name)]
    values = identifiers.values
    if identifiers.kind != "object":
        if identifiers.kind == "float" and not _exact(values, identifiers.exact):
            return None, [inexact_unit(name)]
        distinct, group = np.unique(values, return_inverse=True)
        return Units(group, distinct), []
    numbers: dict[Any, int] = {}
    try:
        if any(v is None or v != v for v in values):
            return None, [without_unit(name)]
        group = np.array([numbers.setdefault(v, len(numbers)) for v in values], dtype=np.int64)
    except TypeError:
        raise DataError(
            f"Column {quoted(name)} cannot name units: its values cannot be compared. "
            "Use texts, numbers or dates."
        ) from None
    kinds = {_kind(v) for v in values}
    if len(kinds) > 1:
        raise DataError(
            f"Column {quoted(name)} cannot name units: its values are of several kinds. "
            "Give all of them as texts, or all as whole numbers."
        )
    if kinds == {float} and not _exact(np.array(values, dtype=float), EXACT_DOUBLE):
        return None, [inexact_unit(name)]
    return Units(group, list(numbers)), []


def _exact(values: np.ndarray, most: float) -> bool:
    whole = np.isfinite(values) & (values == np.trunc(values))
    return bool((whole & (np.abs(values) < most)).all())


def _kind(value: Any) -> Any:
    """Values of two kinds may be one unit here and two there: 1, 1.0 and True are equal to Python,
    and "1" is not."""
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind
    if isinstance(value, datetime.datetime):
        return datetime.datetime, value.tzinfo is None
    return type(value)


def _hashes(
    group: np.ndarray, names: Sequence[Any] | np.ndarray, codes: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The last and the first half of each row's MD5, as numbers that compare as its digits do."""
    found = np.empty((len(group), 2), dtype=np.uint64)
    texts = {g: unit_text(names[g]) for g in np.unique(group).tolist()}
    for start in range(0, len(group), _BLOCK):
        block = slice(start, start + _BLOCK)
        units = (texts[g] for g in group[block].tolist())
        rows = zip(*(c[block].tolist() for c in codes), strict=True)
        digests = b"".join(
            bytes.fromhex(row_order(unit, row)[0]) for unit, row in zip(units, rows, strict=True)
        )
        found[block] = np.frombuffer(digests, dtype=">u8").reshape(-1, 2)
    return found[:, 1], found[:, 0]
