"""Limits of memory and time for a run: checked before it starts and while it works.

A run that reaches a limit stops with a `ResourceError`. What it released is on disk, it is charged
for what it spent and no more, and with an `out` folder it can be resumed under a higher limit
(`admeasure.run`). Where the clock or the memory stands depends on the table: that a run reached a
limit is among what is not protected.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from admeasure.errors import ResourceError, UsageError

PERIOD_SECONDS = 0.2
"""How often a running step is interrupted to look at the clock and the memory."""


@dataclass(frozen=True)
class Limits:
    """The most memory of the process, in MB, and the most time, in seconds; None is no limit."""

    megabytes: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("memory", self.megabytes), ("time", self.seconds)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise UsageError(f"The limit of {name} must be a positive number; it is {value}.")

    def reading_megabytes(self) -> float | None:
        """What a source may keep of the table: half of what the limit leaves."""
        return None if self.megabytes is None else max(0.0, self.megabytes - resident()) / 2

    def keeping_bytes(self, most: int) -> int:
        """What a curator may keep of exact counts, and again of exact answers: a quarter each of
        what the limit leaves when the table has been read, and never more than `most`."""
        if self.megabytes is None:
            return most
        return min(most, int(max(0.0, self.megabytes - resident()) * 2**20 / 4))


def resident() -> float:
    """Memory that the process holds now, in MB; its peak where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError, IndexError):
        return peak()


def peak() -> float:
    """The most memory that the process ever held, in MB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def physical_megabytes() -> float:
    """Memory that is built in, in MB; without end where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    except (AttributeError, OSError, ValueError):
        return math.inf


@dataclass(frozen=True)
class Watch:
    """Limits and the moment from which time counts."""

    limits: Limits
    started: float = field(default_factory=lambda: time.perf_counter())

    def check(self, *_: object) -> None:
        """Raise `ResourceError` where a limit is reached. What a listener is told is ignored."""
        seconds, megabytes = self.limits.seconds, self.limits.megabytes
        if seconds is not None and time.perf_counter() - self.started >= seconds:
            raise ResourceError(
                f"The run reached its limit of {seconds:g} seconds. Raise --max-seconds."
            )
        if megabytes is not None and resident() >= megabytes:
            raise ResourceError(
                f"The run reached its limit of {megabytes:g} MB of memory. Raise --max-memory."
            )

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Check now, and again and again while the block runs.

        A signal interrupts long steps. Outside the main thread, and where another part of the
        program uses the timer, only the explicit calls of `check` remain.
        """
        self.check()
        if self.limits == Limits() or not _timer_is_free():
            yield
            return
        before = signal.signal(signal.SIGALRM, self.check)
        signal.setitimer(signal.ITIMER_REAL, PERIOD_SECONDS, PERIOD_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _timer_is_free() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
