"""Limits of memory and time for a run: checked before it starts and while it works.

A run that reaches a limit stops with `LimitReached`. What it released is on disk, it is charged for
what it spent and no more, and with an `out` folder it can be resumed under a higher limit
(`admeasure.run`). Where the clock or the memory stands depends on the table: that a run reached a
limit is among what is not protected.

Time is looked at five times a second and at every draw. Memory too; and, because one array can be
larger than what is left, the system is told to refuse what would pass the limit (`_at_most`) while
a mechanism works on a table in memory.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from admeasure.errors import LimitReached, ResourceError, UsageError

MEGABYTE = 2**20
_GUESS_MEGABYTES = 4096.0

COUNTED_CELLS = 2**28
"""The most cells whose exact counts are held at a time: 2 GB."""

PERIOD_SECONDS = 0.2
"""How often a running step is interrupted to look at the clock and the memory."""

FRAIL = ("jax", "ortools")
"""Libraries that end the process when the system refuses them memory. DuckDB is another one: it is
always loaded, and at work only where the table is not held in memory."""

THREAD_STACK_BYTES = 1 << 20
"""Stack of a thread that is started under a limit of memory."""


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
        return min(most, int(max(0.0, self.megabytes - resident()) * MEGABYTE / 4))

    def room(self) -> float:
        """What the process may still take, in MB: of the limit, of the machine, of its ulimits."""
        room = min(available_megabytes(), room_in_addresses(), _left("RLIMIT_DATA", "VmData"))
        return room if self.megabytes is None else min(room, self.megabytes - resident())

    def require(self, megabytes: float, who: str) -> None:
        """Refuse what would not fit, before it is begun."""
        there = max(0.0, self.room())
        if megabytes > there:
            raise ResourceError(
                f"{who} would take about {megabytes:,.0f} MB of memory, and there is room for "
                f"{there:,.0f} MB. Use fewer columns, coarser bins or a smaller workload, or give "
                "it more (--max-memory, ulimit, another machine). Nothing is charged."
            )


def room_in_addresses() -> float:
    """Megabytes of addresses that the process may still have (`ulimit -v`)."""
    return _left("RLIMIT_AS", "VmSize")


def _left(limit: str, held: str) -> float:
    soft, _ = resource.getrlimit(getattr(resource, limit))
    now = status_bytes(held)
    if soft == resource.RLIM_INFINITY or now is None:
        return math.inf
    return (soft - now) / MEGABYTE


def resident(child: int | None = None) -> float:
    """Memory that the process, or a child of it, holds now, in MB. Where the system does not say,
    its peak; 0 of a child."""
    try:
        pages = int(Path(f"/proc/{child or 'self'}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE
    except (OSError, ValueError, IndexError):
        return peak() if child is None else 0.0


def peak() -> float:
    """The most memory that the process ever held, in MB."""
    held = status_bytes("VmHWM")  # what the process had that started this one does not count
    if held is not None:
        return held / MEGABYTE
    unit = MEGABYTE if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def physical_megabytes() -> float:
    """Memory that is built in, in MB; without end where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGABYTE
    except (AttributeError, OSError, ValueError):
        return math.inf


@dataclass(frozen=True)
class Watch:
    """Limits and the moment from which time counts."""

    limits: Limits
    started: float = field(default_factory=lambda: time.perf_counter())

    def check(self, *_: object) -> None:
        """Raise `LimitReached` where a limit is reached. What a listener is told is ignored."""
        seconds, megabytes = self.limits.seconds, self.limits.megabytes
        if seconds is not None and time.perf_counter() - self.started >= seconds:
            raise LimitReached(
                f"The run reached its limit of {seconds:g} seconds. Raise --max-seconds."
            )
        if megabytes is not None and resident() >= megabytes:
            raise self._out_of_memory()

    def _out_of_memory(self) -> LimitReached:
        return LimitReached(
            f"The run reached its limit of {self.limits.megabytes:g} MB of memory. Raise "
            "--max-memory."
        )

    @contextmanager
    def armed(self, *, strict: bool = False) -> Iterator[None]:
        """Check now, and again and again while the block runs.

        A signal interrupts long steps. Outside the main thread, and where another part of the
        program uses the timer, only the explicit calls of `check` remain. `strict`: memory beyond
        the limit is refused, for a block in which no library dies of that.
        """
        self.check()
        if self.limits == Limits() or not _timer_is_free():
            yield
            return
        try:
            with ExitStack() as held:
                if strict and self.limits.megabytes is not None:
                    held.enter_context(_at_most(self.limits.megabytes))
                held.enter_context(self._looking())
                yield
        except MemoryError:
            if self.limits.megabytes is None:
                raise
            raise self._out_of_memory() from None

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """An alarm checks while the block runs. It ends itself before it raises: one that comes
        when the block is being left would go on otherwise, and raise in the caller."""

        def rest() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

        def look(*_: object) -> None:
            try:
                self.check()
            except LimitReached:
                rest()
                raise

        before = signal.signal(signal.SIGALRM, look)
        try:
            signal.setitimer(signal.ITIMER_REAL, PERIOD_SECONDS, PERIOD_SECONDS)
            yield
        finally:
            rest()


@contextmanager
def _at_most(megabytes: float) -> Iterator[None]:
    """While the block runs, the system refuses memory beyond the limit: a `MemoryError`.

    Only where the system counts private memory by itself, touched or not (Linux), so that mapped
    files and libraries do not count, and where no library is loaded that ends the process if it is
    refused. NumPy's products of matrices do that too, when they set their room aside: with the
    first product, which is made before.
    """
    import numpy as np

    _ = np.ones((64, 64)) @ np.ones((64, 64))
    data = status_bytes("VmData") if sys.platform == "linux" else None
    if data is None or any(name in sys.modules for name in FRAIL):
        yield
        return
    soft, hard = before = resource.getrlimit(resource.RLIMIT_DATA)
    most = data + int(max(0.0, megabytes - resident()) * MEGABYTE)
    most = min(m for m in (most, soft, hard) if m != resource.RLIM_INFINITY)
    stack = threading.stack_size(THREAD_STACK_BYTES)  # whole stacks count, used or not
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
        threading.stack_size(stack)


def status_bytes(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _timer_is_free() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def available_megabytes(root: Path = Path("/")) -> float:
    """What is free now, within the control group's limit where there is one; 4 GB where the system
    does not say."""
    found = [m for m in (_meminfo(root), _control_group(root)) if m is not None]
    if found:
        return max(min(found), 0.0)
    half = physical_megabytes() / 2  # on systems that say no more than that
    return half if math.isfinite(half) else _GUESS_MEGABYTES


def _meminfo(root: Path) -> float | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        (line,) = (one for one in lines if one.startswith("MemAvailable:"))
        return int(line.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        return None


def _control_group(root: Path) -> float | None:
    folder = root / "sys/fs/cgroup"
    try:
        limit = int((folder / "memory.max").read_text())  # "max" where there is no limit
        return (limit - int((folder / "memory.current").read_text())) / MEGABYTE
    except (OSError, ValueError):
        return None
