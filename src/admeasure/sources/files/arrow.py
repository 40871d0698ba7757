"""Unsigned integer columns of a query's result as numpy arrays, batch by batch.

DuckDB hands out results as an Arrow C stream (a PyCapsule), a small and frozen binary interface
that is read here with ctypes: neither pyarrow nor pandas is needed, no Python object is made for a
cell, and only one batch is held at a time. Only what `admeasure.sources.files.source` asks for is
understood: flat columns of uint8 or uint16.

https://arrow.apache.org/docs/format/CStreamInterface.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class StreamError(Exception):
    """The stream broke off. `out_of_memory` is all that is kept of its reason: a text of the
    engine may hold values of the table."""

    def __init__(self, *, out_of_memory: bool) -> None:
        super().__init__()
        self.out_of_memory = out_of_memory


@dataclass(frozen=True)
class Batch:
    """Some rows: an array for each column, and the numbers of the columns that hold a NULL."""

    arrays: list[np.ndarray]
    with_nulls: frozenset[int]


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_LastError = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))
_Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", _GetNext),
    ("get_last_error", _LastError),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def batches(exporter: Any, dtypes: Sequence[np.dtype]) -> Iterator[Batch]:
    """The batches of whatever has `__arrow_c_stream__`; arrays are copies and stay valid."""
    # The capsule owns the stream and releases it when it goes, also where a reader stops early.
    capsule = exporter.__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = _Stream.from_address(pointer(capsule, b"arrow_array_stream"))
    while True:
        array = _Array()
        if stream.get_next(ctypes.byref(stream), ctypes.byref(array)) != 0:
            reason = stream.get_last_error(ctypes.byref(stream)) or b""
            raise StreamError(out_of_memory=b"Out of Memory" in reason)
        if not array.release:
            return
        try:
            batch = _batch(array, dtypes)
        finally:
            array.release(ctypes.byref(array))
        yield batch


def _batch(array: _Array, dtypes: Sequence[np.dtype]) -> Batch:
    if array.n_children != len(dtypes):
        raise RuntimeError(f"The stream has {array.n_children} columns, not {len(dtypes)}.")
    arrays, with_nulls = [], set()
    for i, dtype in enumerate(dtypes):
        child = array.children[i].contents
        start = array.offset + child.offset
        if child.null_count and _has_null(child, start, array.length):
            with_nulls.add(i)
        size = array.length * dtype.itemsize
        copy = np.empty(array.length, dtype)
        if size:
            ctypes.memmove(copy.ctypes.data, child.buffers[1] + start * dtype.itemsize, size)
        arrays.append(copy)
    return Batch(arrays, frozenset(with_nulls))


def _has_null(child: _Array, start: int, length: int) -> bool:
    if not child.buffers[0] or not length:
        return False
    first, last = start // 8, (start + length + 7) // 8
    held = (ctypes.c_uint8 * (last - first)).from_address(child.buffers[0] + first)
    valid = np.unpackbits(np.frombuffer(memoryview(held), np.uint8), bitorder="little")
    return not valid[start % 8 :][:length].all()
