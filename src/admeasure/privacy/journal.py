"""What a run has released so far, on disk before it is used.

The curator is the only part of a run that is random in a way that matters for privacy, and
everything else is a function of what the curator returned. So a record of its results is all a
killed run needs: run again with the same journal, the curator hands out the recorded results in
the same order, spends nothing on them, and draws anew where the record ends.

Every draw leaves two lines: an intent (query, cost) before noise is drawn, the result before it
is used. Both are flushed to the disk. An intent without a result is a draw that nobody has seen:
the process died holding it. It is drawn again, independently, and both intents stay on record.
Since the lost value influenced nothing that was released, the guarantee is that of one draw; the
proof is in docs/explanations/privacy.md. It needs that whether a result gets on the disk does not
depend on the result, so room for the longest possible result is set aside before the draw: a disk
that is full refuses then. And a fault of the program during a draw, which may depend on what was
drawn, is put on record in the result's place: such a run stays charged and cannot be continued.

Visible means committed. A record counts from its line end on: readers (the local page) take whole
lines and nothing else. So a result is written without its line end and flushed; then the budget
book, where there is one, notes how long the journal is with it, and its hash; only then is the line
ended. From the moment the first byte of it is written nothing of this process takes it away again,
whatever signal or error comes in between, and a run that is resumed takes up a whole record that
lacks nothing but its end. What was ever visible is on the disk, in the book, and replayed.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import math
import operator
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from admeasure.errors import AdmeasureError, ReleaseError, UsageError
from admeasure.privacy.cost import Cost
from admeasure.privacy.events import Event
from admeasure.untrusted import parse_json, read_bytes

LARGEST_MEGABYTES = 65536.0
"""Of a journal: it holds every noisy answer of its run."""


@dataclass(frozen=True)
class Mark:
    """How far a journal goes: its length in bytes and the SHA-256 of them, as hexadecimal text."""

    length: int
    sha256: str


NOTHING = Mark(0, hashlib.sha256().hexdigest())
"""The mark of an empty journal."""


@dataclass(frozen=True)
class TrainingProgress:
    """How a run that learns is doing: computed from privatised numbers alone.

    `error`: the largest distance of the model from the newest noisy answers before it learned from
    them, in shares of the rows; `loss`: where training ended.
    """

    round: int
    error: float
    loss: float


def pack(values: np.ndarray) -> Event:
    """An integer array as text that JSON can carry."""
    raw = np.asarray(values, dtype="<i8", order="C")
    return {
        "shape": list(raw.shape),
        "zlib": base64.b64encode(zlib.compress(raw.tobytes(), 1)).decode("ascii"),
    }


def longest_packed(shape: tuple[int, ...]) -> int:
    """Bytes that no packed array of this shape passes, whatever its values.

    zlib adds at most 5 bytes for each 16 KB and 6 once to what it cannot compress (RFC 1951: five
    for each stored block); base64 makes 4 bytes of 3.
    """
    raw = 8 * math.prod(shape)
    return (raw + raw // 1024 + 64) * 4 // 3 + 24 * len(shape) + 64


def unpack(packed: Event) -> np.ndarray:
    """The array; a `ReleaseError` where the text does not hold as many numbers as it says."""
    try:
        shape = tuple(map(operator.index, packed["shape"]))
        length = 8 * math.prod(shape)
        # One byte more than announced tells a text that unpacks to more than it says.
        raw = zlib.decompressobj().decompress(base64.b64decode(packed["zlib"]), length + 1)
        return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(shape)
    except (zlib.error, ValueError, TypeError, KeyError, OverflowError):
        raise ReleaseError("The values of a record are damaged. Restore the folder.") from None


def without_values(event: Event) -> Event:
    """The event as a release publishes it: values that a file of the release holds are replaced by
    their hash."""
    if "values" not in event:
        return event
    digest = hashlib.sha256(unpack(event["values"]).tobytes()).hexdigest()
    return {**{k: v for k, v in event.items() if k != "values"}, "sha256": digest}


@dataclass
class Journal:
    """Results in the order in which they were given out, in memory.

    `listeners` hear of every event as it happens; progress bars are listeners. Events hold
    privatised results only. `watchers` are shown how a run is doing; that is not recorded.
    """

    events: list[Event] = field(default_factory=list)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    watchers: list[Callable[[TrainingProgress], None]] = field(default_factory=list)
    _results: list[Event] = field(default_factory=list)
    _replayed: int = 0

    def spent(self, total: Cost) -> Cost:
        """What the results on record cost, counted as `total` is."""
        found = total * 0
        for event in self._results:
            found += total.from_record(event)
        return found

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
        if "failed" in found:
            raise UsageError(
                "The interrupted run cannot be continued: it ended by a fault of the program while "
                "something was drawn, which may have to do with what was drawn. It stays charged. "
                "Please report the fault; remove the run's folder and run anew."
            )
        self._replayed += 1
        self._tell(found)
        return found

    def intend(self, asked: Event, room: int = 0) -> None:
        """Note that a draw is about to be made, whose result takes at most `room` bytes."""
        self._append({**asked, "event": "intent", "of": asked["event"]})

    def record(self, asked: Event, result: Event) -> Event:
        """Note its result, durably, before anyone sees it."""
        event = {**asked, **result}
        self._append(event)
        self._replayed += 1
        self._tell(event)
        return event

    @contextmanager
    def drawing(self, asked: Event, room: int = 0) -> Iterator[None]:
        """The time between an intent and its result, in which a draw is made. If a fault of the
        program ends it, it may be for what was drawn; drawn again until no fault comes, the result
        would not have the law of one draw. So the fault is the result."""
        self.intend(asked, room)
        try:
            yield
        except (AdmeasureError, OSError, MemoryError):
            raise  # the table, the disk, a limit
        except Exception:
            self._append({**asked, "failed": True})
            raise

    def show(self, progress: TrainingProgress) -> None:
        """Tell whoever watches the run."""
        for watcher in self.watchers:
            watcher(progress)

    def _append(self, event: Event) -> None:
        self.events.append(event)
        if event["event"] != "intent":
            self._results.append(event)

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


class FileJournal(Journal):
    """A journal with one JSON object a line, each flushed to the disk.

    A line torn by a kill, and room set aside and not used (zero bytes), are cut off when the file
    is opened again: that is a draw whose result was never visible. A whole result without its line
    end is kept. The file is locked while it is open: two processes that continued the same run
    would draw twice for one charge.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._commit: Callable[[Mark], None] | None = None
        self._hash = hashlib.sha256()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except IsADirectoryError:
            raise ReleaseError(f"{path} is a folder and no journal. Restore it.") from None
        try:
            self._lock()
            self._end = self._read()
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
            flush_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def mark(self) -> Mark:
        """How far the records go."""
        return Mark(self._end, self._hash.hexdigest())

    def reaches(self, mark: Mark) -> bool:
        """Whether the journal holds what `mark` is the mark of, as its beginning."""
        if mark.length > self._end:
            return False
        # The line end of the last record may not be there yet, and belongs to it.
        records = self._bytes()[: mark.length][:-1] + b"\n" * bool(mark.length)
        return hashlib.sha256(records).hexdigest() == mark.sha256

    def commit_by(self, commit: Callable[[Mark], None]) -> None:
        """Have the mark of every result noted before the result is visible; at once for what is
        there already."""
        self._commit = commit
        commit(self.mark)

    def intend(self, asked: Event, room: int = 0) -> None:
        super().intend(asked)
        room += len(_line(asked)) + 64
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file, self._end, room)
        else:
            _write(self._file, bytes(room), self._end)

    def close(self) -> None:
        """Give back the room that was not used, and the lock."""
        os.ftruncate(self._file, self._end)
        os.close(self._file)

    def _append(self, event: Event) -> None:
        """Write a record, flush it, commit it, and only then end its line."""
        line = _line(event)
        start = self._end
        # From here on nothing cuts the record off: not even `close`, when a signal ends the run.
        self._end = start + len(line)
        self._hash.update(line)
        # The line end before may still be missing, after a kill: it comes with this record.
        begin = b"\n" if start else b""
        _write(self._file, begin + line[:-1], start - len(begin))
        os.fsync(self._file)
        super()._append(event)
        if self._commit is not None and event["event"] != "intent":
            self._commit(self.mark)
        _write(self._file, b"\n", self._end - 1)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Another process is running the run at {self._path.parent}. Wait for it to end."
            ) from None

    def _damaged(self, what: str) -> ReleaseError:
        return ReleaseError(
            f"{self._path} is damaged: {what} is not a record. Restore the folder, or remove it "
            "and run anew; what was reserved stays charged."
        )

    def _bytes(self) -> bytes:
        return read_bytes(self._path, ReleaseError, largest_megabytes=LARGEST_MEGABYTES)

    def _read(self) -> int:
        """Take in the whole records; the length of the file up to their end."""
        end, raw = 0, self._bytes()
        for line in raw.rstrip(b"\0").splitlines(keepends=True):
            if not line.startswith(b"{") or b"\0" in line or _is_torn(line):
                break
            event = parse_json(line, f"A line of {self._path}", ReleaseError)
            if not isinstance(event.get("event"), str):
                raise self._damaged("a line of it")
            super()._append(event)
            whole = line.removesuffix(b"\n") + b"\n"
            self._hash.update(whole)
            end += len(whole)
        if b"\n" in raw[end:].rstrip(b"\0\n"):
            raise self._damaged("a line in its middle")
        return end


def _is_torn(line: bytes) -> bool:
    """Whether this is the beginning of a record: no beginning of a JSON object is one itself."""
    try:
        return not line.endswith(b"\n") and not parse_json(line, "A line", ReleaseError)
    except ReleaseError:
        return True


def _line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _write(file: int, content: bytes, start: int) -> None:
    while content:
        written = os.pwrite(file, content, start)
        content, start = content[written:], start + written


def flush_folder(folder: Path) -> None:
    """Make what was created or renamed in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
