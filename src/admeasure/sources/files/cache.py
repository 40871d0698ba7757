"""Encoded rows on disk, for a table that is counted more often than it should be read.

Codes take one or two bytes a cell, lie column by column in segments of about a million rows, and
are read back without parsing anything. They are as private as the table. The file is made in a
folder that no one else may enter, for its owner alone, by a call that follows no link and takes no
existing file; and it loses its name before the first row is written. So nobody can open it by a
path, and the system frees it when the process ends, however that happens: an error, an interrupt,
SIGTERM or SIGKILL. What is written is not encrypted.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import ResourceError, UsageError
from admeasure.schema.values import quoted

SEGMENT_ROWS = 2**20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Chunk = Mapping[str, np.ndarray]


class CodeFile:
    """Codes of the named columns: `append` chunks, `finish`, then `chunks` as often as needed."""

    def __init__(
        self,
        folder: str | Path,
        dtypes: Mapping[str, np.dtype],
        *,
        segment_rows: int = SEGMENT_ROWS,
    ) -> None:
        self._folder, self._segment_rows = Path(folder), segment_rows
        self._dtypes = dict(dtypes)
        self._file = _nameless(self._folder)
        self.close = weakref.finalize(self, os.close, self._file)
        self._segments: list[tuple[int, int]] = []  # where each begins, and its rows
        self._waiting: list[Chunk] = []
        self._waiting_rows = 0
        self._end = 0

    @property
    def is_open(self) -> bool:
        return self.close.alive

    def append(self, chunk: Chunk) -> None:
        """Add rows. A disk that is full is a `ResourceError`, and nothing stays on it."""
        if not (rows := len(next(iter(chunk.values())))):
            return
        self._waiting.append(chunk)
        self._waiting_rows += rows
        if self._waiting_rows >= self._segment_rows:
            self.finish()

    def chunks(self, names: Columns) -> Iterator[dict[str, np.ndarray]]:
        """The codes of some columns, a segment at a time."""
        for start, rows in self._segments:
            places = self._places(start, rows)
            yield {name: self._read(name, places[name], rows) for name in names}

    @property
    def segments(self) -> int:
        """How many chunks a pass gives."""
        return len(self._segments)

    def _places(self, start: int, rows: int) -> dict[str, int]:
        places = {}
        for name, dtype in self._dtypes.items():
            places[name] = start
            start += rows * dtype.itemsize
        return places

    def finish(self) -> None:
        """Write what waits for a segment to be full."""
        if not self._waiting:
            return
        start, rows = self._end, self._waiting_rows
        try:
            for name, dtype in self._dtypes.items():
                joined = np.concatenate([chunk[name] for chunk in self._waiting])
                self._write_all(np.ascontiguousarray(joined, dtype).data.cast("B"))
        except OSError as error:
            self.close()
            raise _failed(self._folder, error) from None
        self._segments.append((start, rows))
        self._waiting, self._waiting_rows = [], 0

    def _write_all(self, data: memoryview) -> None:
        while data:
            written = os.pwrite(self._file, data, self._end)
            self._end += written
            data = data[written:]

    def _read(self, name: str, place: int, rows: int) -> np.ndarray:
        # Not mapped: a failing disk is then an error and not a signal, and pages that were read do
        # not count as this process's memory.
        codes = np.empty(rows, self._dtypes[name])
        rest = codes.data.cast("B")
        try:
            while rest:
                read = os.preadv(self._file, [rest], place)
                if not read:
                    raise OSError(errno.EIO, "short")
                place += read
                rest = rest[read:]
        except OSError as error:
            raise _failed(self._folder, error) from None
        return codes


def _nameless(folder: Path) -> int:
    """A new file without a name, open for reading and writing."""
    try:
        if stat.S_ISLNK(folder.lstat().st_mode):
            raise UsageError(f"{quoted(str(folder))} is a link. Name the folder itself.")
        inner = tempfile.mkdtemp(prefix="admeasure-", dir=folder)  # mode 0700
    except OSError as error:
        if error.errno in _FULL:
            raise _failed(folder, error) from None
        raise UsageError(
            f"No file can be made in {quoted(str(folder))}. Name a folder that you may write to."
        ) from None
    try:
        entrance = os.open(inner, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open("codes", flags, 0o600, dir_fd=entrance)
            os.unlink("codes", dir_fd=entrance)
        finally:
            os.close(entrance)
    except OSError as error:
        raise _failed(folder, error) from None
    finally:
        os.rmdir(inner)
    return file


def _failed(folder: Path, error: OSError) -> ResourceError:
    if error.errno in _FULL:
        return ResourceError(
            f"The disk of {quoted(str(folder))} has no room for the codes of the table. Nothing "
            "was left there. Name a folder with more room, or leave the cache out."
        )
    return ResourceError(
        f"The codes of the table could not be kept in {quoted(str(folder))}: "
        f"{os.strerror(error.errno or errno.EIO)}. Name another folder, or leave the cache out."
    )


def dtypes_of(columns: Sequence) -> dict[str, np.dtype]:
    """The storage of each column of a schema, the widest first so that codes lie aligned."""
    found = {column.name: column.dtype for column in columns}
    return dict(sorted(found.items(), key=lambda item: -item[1].itemsize))
