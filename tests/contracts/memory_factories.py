"""The in-memory sources that the contract suite runs over, one for each kind of frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from admeasure.schema import Schema
from admeasure.sources import Source
from admeasure.sources.memory import MemorySource

Values = dict[str, list[Any]]


def _pandas(values: Values, schema: Schema, _: Path) -> Source:
    return MemorySource(pd.DataFrame(values), schema)


def _polars(values: Values, schema: Schema, _: Path) -> Source:
    return MemorySource(pl.DataFrame(values, strict=False), schema)


def _pyarrow(values: Values, schema: Schema, _: Path) -> Source:
    return MemorySource(pa.table(values), schema)


def _lists(values: Values, schema: Schema, _: Path) -> Source:
    return MemorySource(values, schema)


def _arrays(values: Values, schema: Schema, _: Path) -> Source:
    arrays = {}
    for name, column in values.items():
        arrays[name] = np.empty(len(column), dtype=object)
        arrays[name][:] = column
        if column and all(type(v) is int for v in column):
            arrays[name] = np.array(column)
    return MemorySource(arrays, schema)


FACTORIES: dict[str, Callable[[Values, Schema, Path], Source]] = {
    "memory-pandas": _pandas,
    "memory-polars": _polars,
    "memory-pyarrow": _pyarrow,
    "memory-lists": _lists,
    "memory-arrays": _arrays,
}
