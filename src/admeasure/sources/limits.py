"""How much memory the machine can spare, so that limits have a default."""

from __future__ import annotations

import os
from pathlib import Path

_GUESS_MEGABYTES = 4096.0


def available_megabytes(root: Path = Path("/")) -> float:
    """What is free now, within the control group's limit where there is one; 4 GB where the system
    does not say."""
    found = [m for m in (_meminfo(root), _control_group(root)) if m is not None]
    return max(min(found), 0.0) if found else _physical() or _GUESS_MEGABYTES


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
        return (limit - int((folder / "memory.current").read_text())) / 2**20
    except (OSError, ValueError):
        return None


def _physical() -> float | None:
    """Half of the memory that is built in, on systems that say no more than that."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**21
    except (AttributeError, OSError, ValueError):
        return None
