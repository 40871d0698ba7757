"""Where a run's time goes, by step. Times only; nothing of the table.

(The time a run takes is listed in the certificate as unprotected.)
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

T = TypeVar("T")

STEPS: dict[str, tuple[tuple[str, str], ...]] = {
    "reading and encoding": (("sources/open.py", "open_source"),),
    "counting": (("sources/", "counts"),),
    "selection": (("selectors/", "select"),),
    "noise": (("privacy/noise.py", "discrete_gaussian"), ("privacy/noise.py", "top")),
    "estimation": (("families/", "update"),),
    "writing": (("release/store.py", "write_folder"), ("privacy/journal.py", "_append")),
}
"""Each step and the functions that do it, by file (or folder) of the package and name."""


def profiled(work: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """The result of the work, and the seconds spent in each step, calls below it included."""
    profile = cProfile.Profile()
    result = profile.runcall(work)
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profile).stats  # pyright: ignore[reportAttributeAccessIssue]
    seconds = {step: _seconds(stats, functions) for step, functions in STEPS.items()}
    return result, {**seconds, "total": round(max(s[3] for s in stats.values()), 3)}


def _seconds(stats: dict[Any, tuple[Any, ...]], functions: tuple[tuple[str, str], ...]) -> float:
    total = 0.0
    for (file, _, name), (_, _, _, cumulative, callers) in stats.items():
        if not _is_one(file, name, functions):
            continue
        # A function that is reached from another of the same step is counted there already.
        inside = sum(call[3] for (f, _, n), call in callers.items() if _is_one(f, n, functions))
        total += cumulative - inside
    return round(max(0.0, total), 3)


def _is_one(file: str, name: str, functions: tuple[tuple[str, str], ...]) -> bool:
    path = PurePath(file).as_posix()
    return any(f"/admeasure/{place}" in path and name == wanted for place, wanted in functions)
