"""Several runs in one number, as papers report them. NOT PRIVATE.

A run is one seed of one setting; a method has several settings (a grid of options). Which of them
counts is a choice, made by the true errors, that a private run would have to pay for.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JobRow = Mapping[str, Any]
Setting = Hashable


@dataclass(frozen=True)
class Reduced:
    """The values of the runs that count, and the setting they are of (None: of several)."""

    values: tuple[float, ...]
    setting: Setting | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def error(self) -> float:
        """One standard error of the mean; 0 for a single run."""
        n = len(self.values)
        return statistics.stdev(self.values) / math.sqrt(n) if n > 1 else 0.0

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


def by_setting(
    runs: Iterable[JobRow], setting: Callable[[JobRow], Setting]
) -> dict[Setting, list[JobRow]]:
    """Runs of each setting; those with fewer seeds than the most are left out, since the least of
    noisy means favours them."""
    groups: dict[Setting, list[JobRow]] = {}
    for run in runs:
        groups.setdefault(setting(run), []).append(run)
    most = max(map(len, groups.values()), default=0)
    return {key: found for key, found in groups.items() if len(found) == most}


def best_of_grid(
    runs: Iterable[JobRow], measure: str, setting: Callable[[JobRow], Setting]
) -> Reduced | None:
    """The setting with the smallest mean, as papers report it; None without runs."""
    return best_by(runs, measure, measure, setting)


def best_by(
    runs: Iterable[JobRow], chosen_by: str, measure: str, setting: Callable[[JobRow], Setting]
) -> Reduced | None:
    """The setting with the smallest mean of one measure, judged by another: best by present error,
    judged on future error (Avent and Korolova 2023, 5.3.1)."""
    groups = by_setting(runs, setting)
    if not groups:
        return None
    best = min(groups, key=lambda s: statistics.fmean(r[chosen_by] for r in groups[s]))
    return Reduced(tuple(r[measure] for r in groups[best]), best)


def mean_of(runs: Sequence[JobRow], measure: str) -> Reduced | None:
    """All runs alike."""
    return Reduced(tuple(r[measure] for r in runs)) if runs else None
