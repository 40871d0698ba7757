"""What a run has released so far, on disk before it is used.

The curator is the only part of a run that is random in a way that matters for privacy, and
everything else is a function of what the curator returned. So a record of its results is all a
killed run needs: run again with the same journal, the curator hands out the recorded results in
the same order, spends nothing on them, and draws anew where the record ends.

Every draw leaves two lines: an intent (query, cost) before noise is drawn, the result before it
is used. Both are flushed to the disk. An intent without a result is a draw that nobody has seen:
the process died holding it. It is drawn again, independently, and both intents stay on record.
Since the lost value influenced nothing that was released, the guarantee is that of one draw; the
proof is in docs/privacy.md.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.errors import ReleaseError, UsageError

Event = dict[str, Any]


def pack(values: np.ndarray) -> Event:
    """An integer array as text that JSON can carry."""
    raw = np.asarray(values, dtype="<i8", order="C")
    return {
        "shape": list(raw.shape),
        "zlib": base64.b64encode(zlib.compress(raw.tobytes(), 1)).decode("ascii"),
    }


def unpack(packed: Event) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["zlib"]))
    return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(packed["shape"])


@dataclass
class Journal:
    """Results in the order in which they were given out, in memory.

    `listeners` hear of every event as it happens; progress bars are listeners. Events hold
    privatised results only.
    """

    events: list[Event] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    _results: list[Event] = field(default_factory=list)
    _replayed: int = 0

    def next_recorded(self, asked: Event) -> Event | None:
        """The recorded result of this very request, or None where the record ends."""
        if self._replayed >= len(self._results):
            return None
        found = self._results[self._replayed]
        if any(found.get(key) != value for key, value in asked.items()):
            raise ReleaseError(
                "The log of the interrupted run does not fit this run: it recorded "
                f"{found['event']} at a place where {asked['event']} with other arguments is "
                "asked. Resume with the same data, schema, workload and options."
            )
        self._replayed += 1
        self._tell(found)
        return found

    def intend(self, asked: Event) -> None:
        """Note that a draw is about to be made."""
        self._append({**asked, "event": "intent", "of": asked["event"]})

    def record(self, asked: Event, result: Event) -> Event:
        """Note its result, durably, before anyone sees it."""
        event = {**asked, **result}
        self._append(event)
        self._replayed += 1
        self._tell(event)
        return event

    def _append(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] != "intent":
            self._results.append(event)

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


class FileJournal(Journal):
    """A journal with one JSON object a line, each flushed to the disk.

    A line torn by a kill is cut off when the file is opened again: it is the same as a draw whose
    result was never recorded. The file is locked while it is open: two processes that continued
    the same run would draw twice for one charge.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(
                f"Another process is running the run at {path.parent}. Wait for it to end."
            ) from None
        keep = 0
        raw = path.read_bytes()
        for line in raw.splitlines(keepends=True):
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not line.endswith(b"\n") or not isinstance(event, dict):
                break
            super()._append(event)
            keep += len(line)
        if b"\n" in raw[keep:].rstrip(b"\n"):
            os.close(descriptor)
            raise ReleaseError(f"{path} is damaged: a line in its middle is not a record.")
        os.ftruncate(descriptor, keep)
        os.lseek(descriptor, 0, os.SEEK_END)
        self._file = os.fdopen(descriptor, "wb")
        _flush_folder(path.parent)

    def _append(self, event: Event) -> None:
        self._file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        super()._append(event)

    def close(self) -> None:
        self._file.close()


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
