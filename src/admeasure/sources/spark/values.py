"""Values as they pass from Spark to Python, and their codes.

A batch holds, for the columns of a table,

- p0, p1, … with the digits of most columns, and `odd` for rows that digits do not tell: see
  `digits`;
- `texts`: texts that have no digits, together, since Spark's cost is one a value;
- x0, x1, …: whatever else, as it is.

All of it is read by the schema's own encoder, each distinct text and digit once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from admeasure.schema.column import Column
from admeasure.schema.encode import marks
from admeasure.schema.frames import Frame, StoredColumn
from admeasure.sources.spark.digits import Packing, packing

TEXT_END, NO_TEXT = b"\xff", b"\xfe"
"""Texts that travel as one are each ended by a byte, and null is a byte, that no text in UTF-8
holds."""

Marked = tuple[np.ndarray, np.ndarray | None]
"""Codes or marks, and for each row its place among them (None: one for each row)."""


class NotText(ValueError):
    """A text is not UTF-8."""


@dataclass(frozen=True)
class ShippedColumns:
    """How columns travel: those of `packing` as digits, those of `texts` together, others alone."""

    columns: tuple[Column, ...]
    packing: Packing
    texts: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[Column], stored: Sequence[str]) -> ShippedColumns:
        """For columns stored in the types that Spark gives these names to."""
        packed = packing(columns, stored)
        rest = [i for i, kind in enumerate(stored) if kind == "string" and i not in packed.places]
        return cls(tuple(columns), packed, tuple(rest) if len(rest) > 1 else ())

    def selected(self, names: Sequence[str]) -> list[str]:
        """What the plan selects, in SQL, from columns of these names."""
        together = {*self.packing.places, *self.texts}
        alone = [f"{name} AS x{i}" for i, name in enumerate(names) if i not in together]
        numbers = self.packing.columns(names)
        found = [*alone, *(f"{number} AS p{j}" for j, number in enumerate(numbers))]
        if numbers:
            texts = joined([digits.text(names[i]) for i, digits in self.packing.digits])
            found.append(f"CASE WHEN {self.packing.is_odd(names)} THEN {texts} END AS odd")
        if self.texts:
            found.append(f"{joined([names[i] for i in self.texts])} AS texts")
        return found

    def read(self, table: pa.Table) -> list[Marked]:
        """The columns of a block."""
        found = self._digits(table) if self.packing.digits else {}
        if self.texts:
            distinct, index = split(pa.concat_arrays(table["texts"].chunks), len(self.texts))
            for j, i in enumerate(self.texts):
                found[i] = _occurring(index[:, j], distinct, self.columns[i])
        for i, column in enumerate(self.columns):
            if i not in found:
                found[i] = _alone(column, table[f"x{i}"])
        return [found[i] for i in range(len(self.columns))]

    @cached_property
    def _known(self) -> list[np.ndarray]:
        """The schema's code or mark of what each digit stands for."""
        return [marks(self.columns[i], digits.values()) for i, digits in self.packing.digits]

    def _digits(self, table: pa.Table) -> dict[int, Marked]:
        numbers = [table[f"p{j}"].to_numpy() for j in range(len(self.packing.numbers))]
        places = self.packing.unpack(numbers)
        odd = pa.concat_arrays(table["odd"].chunks)
        rows = np.flatnonzero(odd.is_valid().to_numpy(zero_copy_only=False))
        distinct, index = split(odd.drop_null(), len(places)) if len(rows) else ([], None)
        found: dict[int, Marked] = {}
        for j, (i, digits) in enumerate(self.packing.digits):
            known = self._known[j]
            if index is not None:
                occurs, place = np.unique(index[:, j], return_inverse=True)
                odd_values = digits.read([distinct[k] for k in occurs])
                places[i][rows] = len(known) + place
                known = np.append(known, marks(self.columns[i], odd_values))
            found[i] = _only(known, places[i]), places[i]
        return found


def joined(texts: Sequence[str]) -> str:
    """Texts as one, in SQL."""
    end, none = (f"CAST(X'{mark.hex()}' AS STRING)" for mark in (TEXT_END, NO_TEXT))
    return f"concat_ws({end}, {', '.join(f'coalesce({text}, {none})' for text in texts)}, '')"


def split(array: pa.StringArray, width: int) -> tuple[list[str | None], np.ndarray]:
    """Texts that Spark put together, `width` in each: the distinct ones, and the place of each, an
    array (rows, width)."""
    array = array.cast(pa.string())  # a session may ask for offsets of 64 bits
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1]
    data = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    ends = np.flatnonzero(data == TEXT_END[0]).astype(np.int32) + 1
    if len(ends) != len(array) * width:
        raise NotText
    pieces = pa.Array.from_buffers(
        pa.binary(),
        len(ends),
        [None, pa.py_buffer(np.append(np.int32(0), ends)), pa.py_buffer(data)],
    ).dictionary_encode()
    stripped = [piece[:-1] for piece in pieces.dictionary.to_pylist()]
    distinct = [None if piece == NO_TEXT else piece.decode() for piece in stripped]
    return distinct, pieces.indices.to_numpy().reshape(-1, width)


def _alone(column: Column, stored: pa.ChunkedArray) -> Marked:
    repeated = pa.types.is_string, pa.types.is_large_string, pa.types.is_decimal
    if not any(is_one(stored.type) for is_one in repeated):
        return marks(column, Frame({"x": stored}).column("x")), None
    encoded = pa.concat_arrays(stored.chunks).dictionary_encode()
    index = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    return _occurring(index, [*encoded.dictionary.to_pylist(), None], column)


def _occurring(index: np.ndarray, distinct: list, column: Column) -> Marked:
    """`distinct` may hold what other columns hold: only what occurs here is read."""
    index = np.ascontiguousarray(index)
    occurs = np.flatnonzero(np.bincount(index, minlength=len(distinct)))
    table = np.zeros(len(distinct), np.int32)
    table[occurs] = marks(column, StoredColumn("object", [distinct[k] for k in occurs]))
    return _only(table, index), index


def _only(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """What does not occur must not be seen as a mark."""
    occurs = np.bincount(index, minlength=len(table)) > 0
    return np.where(occurs, table, 0)
