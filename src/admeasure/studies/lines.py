"""A table of results on disk: JSON lines that survive a kill and can be added to.

A line is written whole, in one call, and is on the disk before `append` returns. What a kill leaves
of a line at the end of the file is no result: `read` ignores it and the next writer cuts it off.
One process at a time may hold the file for a run of jobs.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from admeasure.errors import DataError, UsageError
from admeasure.privacy.journal import flush_folder
from admeasure.untrusted import parse_json, read_bytes

JsonObject = dict[str, Any]

LARGEST_MEGABYTES = 4096.0
"""Of a table of results."""


@dataclass(frozen=True)
class Lines:
    """A file of JSON objects, one a line."""

    path: Path

    def read(self) -> list[JsonObject]:
        """All whole lines, in the order in which they were written."""
        if not os.path.lexists(self.path):
            return []
        *whole, _ = read_bytes(self.path, largest_megabytes=LARGEST_MEGABYTES).split(b"\n")
        return [self._parsed(line, number) for number, line in enumerate(whole, 1) if line.strip()]

    def append(self, record: JsonObject) -> None:
        """Add one line, durably."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        fresh = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}.") from None
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two writers of single lines take turns
            file.seek(_end_of_whole_lines(file))
            file.truncate()
            file.write(line)
            os.fsync(file.fileno())
        if fresh:
            flush_folder(self.path.parent)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the file for a run of jobs; another run that asks meanwhile is refused."""
        lock = self.path.with_name(f".{self.path.name}.lock")
        file = self._locked(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(file)

    def _locked(self, lock: Path) -> int:
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise UsageError(f"{lock} cannot be written: {error.strerror}.") from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise UsageError(
                    f"Another run is writing {self.path}. Wait for it, or name another file."
                ) from None
            # The run before may have removed the lock between our opening and locking it.
            if lock.exists() and os.path.samestat(os.fstat(file), lock.stat()):
                return file
            os.close(file)

    def _parsed(self, line: bytes, number: int) -> JsonObject:
        try:
            return parse_json(line, f"Line {number} of {self.path}", DataError)
        except DataError:
            raise DataError(
                f"Line {number} of {self.path} is no JSON object, so this is no table of results. "
                "Name another file, or remove the line."
            ) from None


def _end_of_whole_lines(file: Any) -> int:
    """Where the last whole line ends; the file is searched from its end."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        start = max(0, at - 4096)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0
