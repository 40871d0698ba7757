"""A table in memory: a pandas, polars or pyarrow frame, a dict of columns, or codes.

Rows are encoded once, when the source is made, to one or two bytes a cell; the frame itself is not
kept. Counts are exact and private: what is released of them is the curator's affair.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError
from admeasure.schema.column import Column
from admeasure.schema.encode import encode_frame
from admeasure.schema.frames import Frame, StoredColumn
from admeasure.schema.model import Schema
from admeasure.schema.rules import Reads
from admeasure.schema.storage import Storage, storage_of_plain
from admeasure.schema.units import unit_text, units_of
from admeasure.schema.values import plain, quoted
from admeasure.sources.cells import count_cells
from admeasure.sources.coarser import recoded, recodings
from admeasure.sources.count import count_marginals
from admeasure.sources.texts import TextsOf, check_storage, count_texts, in_blocks, sought
from admeasure.sparse import SparseCounts, TextCounts


class MemorySource:
    """Counts of a frame.

    >>> schema = Schema.coded("toy", {"sex": 2, "age": 3})
    >>> source = MemorySource({"sex": [0, 1, 1], "age": [2, 0, 2]}, schema)
    >>> source.counts([("age", "sex")])[0].tolist()
    [[0, 1], [0, 0], [1, 1]]
    """

    def __init__(self, frame: Any, schema: Schema) -> None:
        self._schema = schema
        self._codes = encode_frame(frame, schema)

    @classmethod
    def from_codes(cls, codes: Mapping[str, np.ndarray], schema: Schema) -> MemorySource:
        """A source of rows that are encoded already. Rows of one unit cannot be told apart here,
        so a schema with a `unit_column` is refused."""
        if schema.privacy.unit_column is not None:
            raise DataError(
                "Codes do not hold the unit_column, so rows of one unit cannot be limited. "
                "Give the frame itself."
            )
        source = cls.__new__(cls)
        source._schema = schema
        source._codes = {c.name: _checked(codes, c.name, c.levels, c.dtype) for c in schema.columns}
        if len({len(c) for c in source._codes.values()}) > 1:
            raise DataError("The columns of codes differ in length. Make them equal.")
        return source

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def in_memory(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to let go."""

    @property
    def codes(self) -> Mapping[str, np.ndarray]:
        """The encoded rows. Private."""
        return self._codes

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        return count_marginals(self._codes, self._schema.domain, marginals)

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        return count_cells(self._codes, self._schema.domain, marginals)

    def by(self, schema: Schema) -> MemorySource:
        source = copy.copy(self)
        source._schema = schema
        source._codes = recoded(self._codes, recodings(self._schema, schema))
        return source


def texts_in(frame: Any, schema: Schema, names: Sequence[str]) -> TextsOf:
    """The texts of a frame's columns; what cannot be read as a text is refused at once."""
    table, unit, most = Frame(frame), schema.privacy.unit_column, schema.privacy.max_rows_per_unit
    read = {name: _texts(schema.column(name), table.column(name)) for name in names}

    def of(name: str) -> Iterator[TextCounts]:
        column = schema.column(name)
        held = sought(column, read[name])
        if unit is None:
            return in_blocks(sorted(Counter(t for t in held if t is not None).items()))
        units, _ = units_of(table.identifiers(unit), unit)
        assert units is not None  # the table was read
        group = np.asarray(units.group, dtype=np.int64)
        return count_texts(group, held, most, lambda g: unit_text(units.names[g]))

    return of


def _texts(column: Column, stored: StoredColumn) -> list[str | None]:
    """A text for each row, None where it is missing."""
    if stored.kind == "float":
        check_storage(column, Storage.REAL)
    values = stored.values if stored.kind == "object" else stored.values.tolist()
    if stored.kind == "day":
        values = stored.values.astype("datetime64[D]").tolist()
    read = [plain(value) for value in values]
    for storage in {storage_of_plain(value) for value in read if value is not None}:
        check_storage(column, storage)
    missing = np.zeros(len(read), bool) if stored.null is None else stored.null
    reader = Reads.TEXT.reader
    return [None if m or v is None else reader(v) for v, m in zip(read, missing, strict=True)]


def _checked(
    codes: Mapping[str, np.ndarray], name: str, levels: int, dtype: np.dtype
) -> np.ndarray:
    if name not in codes:
        raise DataError(f"Column {quoted(name)} has no codes. Give an array for each column.")
    values = np.asarray(codes[name])
    if values.ndim != 1 or (values.dtype.kind not in "iu" and values.size):
        raise DataError(f"The codes of column {quoted(name)} are not a list of whole numbers.")
    if values.size and not (values.min() >= 0 and values.max() < levels):
        raise DataError(
            f"The codes of column {quoted(name)} go outside 0 … {levels - 1}. "
            "Compare the schema with the one they were made by."
        )
    return np.ascontiguousarray(values, dtype=dtype)
