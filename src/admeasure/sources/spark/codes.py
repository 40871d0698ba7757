"""Codes of rows as they lie in Spark's executors: records of a few kilobytes, each one value.

A record holds the codes of some rows, column after column in the schema's order, one or two bytes
a code. Spark's cost is one a value, so that a record costs about what a row of values does. A
record is small because Spark hands over `spark.sql.execution.arrow.maxRecordsPerBatch` of them at
a time (10,000 by default, then 40 MB).

Codes are as private as the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from admeasure.domain import Columns
from admeasure.joints import batches
from admeasure.schema.column import Column

RECORD_BYTES = 4096

Codes = dict[str, np.ndarray]


def pack(
    codes: Mapping[str, np.ndarray], columns: Sequence[Column], record_bytes: int = RECORD_BYTES
) -> pa.BinaryArray:
    """The records of a block; at least one, which is empty where there are no codes."""
    if not codes:
        return pa.array([b""], pa.binary())
    width = sum(column.dtype.itemsize for column in columns)
    rows = len(next(iter(codes.values())))
    each = max(1, record_bytes // width)
    full, rest = divmod(rows, each)
    data = np.empty(rows * width, np.uint8)
    _fill(data[: full * each * width], codes, columns, slice(0, full * each), each)
    _fill(data[full * each * width :], codes, columns, slice(full * each, rows), rest)
    ends = np.arange(full + 1, dtype=np.int32) * np.int32(each * width)
    if rest:
        ends = np.append(ends, np.int32(len(data)))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def _fill(
    data: np.ndarray,
    codes: Mapping[str, np.ndarray],
    columns: Sequence[Column],
    of: slice,
    each: int,
) -> None:
    """Write records of `each` rows."""
    if not len(data):
        return
    start, records = 0, data.reshape((of.stop - of.start) // each, -1)
    for column in columns:
        coded = np.ascontiguousarray(codes[column.name][of], _stored(column))
        end = start + each * column.dtype.itemsize
        records[:, start:end] = coded.view(np.uint8).reshape(len(records), -1)
        start = end


def unpack(
    arrays: Iterable[pa.BinaryArray], columns: Sequence[Column], wanted: Columns, most: int
) -> Iterator[tuple[Codes, int]]:
    """The codes of the wanted columns and the number of rows, in blocks of at most `most` rows (or
    one record, where it has more)."""
    pieces = (piece for array in arrays for piece in _pieces(array, columns, wanted, most))
    for some in batches(pieces, lambda piece: piece[1], most):
        yield _joined([codes for codes, _ in some], wanted), sum(rows for _, rows in some)


def _joined(pieces: Sequence[Codes], wanted: Columns) -> Codes:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in wanted}


def _pieces(
    array: pa.BinaryArray, columns: Sequence[Column], wanted: Columns, most: int
) -> Iterator[tuple[Codes, int]]:
    """Runs of records of equal length are read together."""
    if not len(array):
        return
    width = sum(column.dtype.itemsize for column in columns)
    _, offsets, data = array.buffers()
    # A session may ask for offsets of 64 bits.
    wide = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    ends = np.frombuffer(offsets, wide)[array.offset :][: len(array) + 1]
    lengths = np.diff(ends)
    changes = [0, *(np.flatnonzero(np.diff(lengths)) + 1), len(array)]
    for begin, end in pairwise(changes):
        each = int(lengths[begin]) // width if width else 0
        if not each:
            continue
        step = max(1, most // each)
        for first in range(begin, end, step):
            last = min(first + step, end)
            run = np.frombuffer(data, np.uint8)[ends[first] : ends[last]].reshape(last - first, -1)
            yield _columns(run, columns, wanted, each), (last - first) * each


def _columns(run: np.ndarray, columns: Sequence[Column], wanted: Columns, each: int) -> Codes:
    found, start = {}, 0
    for column in columns:
        end = start + each * column.dtype.itemsize
        if column.name in wanted:
            coded = np.ascontiguousarray(run[:, start:end]).reshape(-1)
            found[column.name] = coded.view(_stored(column))
        start = end
    return found


def _stored(column: Column) -> np.dtype:
    return column.dtype.newbyteorder("<")
