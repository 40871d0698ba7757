"""One value for each level of a column: what a row with that code looks like to a user's function.

A category is itself; a bin is its middle; missing is None. From the schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from admeasure.schema.decode import decode_column
from admeasure.schema.model import Schema


class _Middle:
    """Draws the middle of whatever it is asked for."""

    def integers(self, low: Any, high: Any, *, endpoint: bool) -> np.ndarray:
        return (np.asarray(low) + np.asarray(high)) // 2

    def random(self, size: int) -> np.ndarray:
        return np.full(size, 0.5)


def level_values(schema: Schema, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """The values of the levels of each column, by code."""
    middle = cast(np.random.Generator, _Middle())
    found = {}
    for name in columns:
        column = schema.column(name)
        values = np.asarray(decode_column(column, np.arange(column.levels), middle))
        found[name] = np.array([v.item() if hasattr(v, "item") else v for v in values], object)
    return found
