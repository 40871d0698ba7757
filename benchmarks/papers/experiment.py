"""What an experiment is: a figure or table of a paper, its jobs, its picture, and its claims."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from admeasure.studies.reducers import Reduced, best_of_grid, mean_of
from common import Record
from papers.case import Case

Scale = Literal["reduced", "full"]
Verdict = Literal["holds", "holds partly", "does not hold here"]
Bars = Literal["range", "standard error"]


@dataclass(frozen=True)
class Runs:
    """Finished runs of some cases: each a record of the case and its outcome."""

    records: tuple[Record, ...]

    def where(self, **fields: Any) -> Runs:
        return Runs(tuple(r for r in self.records if all(r[k] == v for k, v in fields.items())))

    def having(self, test: Callable[[Record], bool]) -> Runs:
        return Runs(tuple(r for r in self.records if test(r)))

    def values(self, name: str) -> list[Any]:
        return sorted({r[name] for r in self.records})

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Runs]]:
        found: dict[tuple[Any, ...], list[Record]] = {}
        for r in self.records:
            found.setdefault(tuple(r[name] for name in names), []).append(r)
        for key in sorted(found):
            yield key, Runs(tuple(found[key]))

    def mean(self, measure: str) -> float | None:
        reduced = mean_of(self.records, measure)
        return None if reduced is None else reduced.mean

    def best(self, measure: str) -> Reduced | None:
        """The best setting of the options by mean."""
        return best_of_grid(self.records, measure, setting_of)

    def __bool__(self) -> bool:
        return bool(self.records)


def setting_of(record: Record) -> Hashable:
    return tuple(map(tuple, record["options"])), record["public"]


@dataclass(frozen=True)
class Point:
    """A mean over runs with its bar."""

    x: float
    y: float
    low: float
    high: float
    runs: int
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One set of axes: lines of points; with `heat` each line is a row of coloured fields. `notes`
    stand beside the points of a line."""

    title: str
    x: str
    y: str
    lines: dict[str, list[Point]] = field(default_factory=dict)
    logs: str = "xy"
    dotted: tuple[str, ...] = ()
    scatter: bool = False
    level: float | None = None
    """A dashed line across."""
    heat: bool = False
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What we see of a claim."""

    ours: str
    verdict: Verdict


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in our words, where it stands, and how it is judged.

    `judge` gives None where the runs that it needs are missing.
    """

    says: str
    where: str
    printed: str
    judge: Callable[[Runs], Found | None]


@dataclass(frozen=True)
class Experiment:
    """`cases` gives the jobs of a scale, `panels` what is drawn of their runs.

    `stands_in` names the tables that take others' places, `impossible` says why nothing is run,
    `reading` is our reading of differences.
    """

    name: str
    title: str
    cases: Callable[[Scale], Iterable[Case]] = lambda scale: ()
    panels: Callable[[Runs], Sequence[Panel]] = lambda runs: ()
    claims: tuple[Claim, ...] = ()
    stands_in: str = ""
    impossible: str = ""
    reading: str = ""

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]


def lines(
    runs: Runs,
    measure: str,
    *,
    x: str = "epsilon",
    line: Callable[[Record], str] = lambda r: Case.from_json(r["case"]).mechanism,
    bars: Bars = "standard error",
    reduce: Callable[[Runs, str], Reduced | None] = lambda runs, measure: runs.best(measure),
) -> dict[str, list[Point]]:
    """Lines by `line` over `x`; of several settings of the options the best by mean."""
    found: dict[str, list[Point]] = {}
    for name in sorted({line(r) for r in runs.records}):
        mine = runs.having(lambda r, name=name: line(r) == name)
        for at in mine.values(x):
            reduced = reduce(mine.where(**{x: at}), measure)
            if reduced is None:
                continue
            low, high = reduced.low, reduced.high
            if bars == "standard error":
                low, high = reduced.mean - reduced.error, reduced.mean + reduced.error
            note = shown_setting(reduced.setting)
            point = Point(at, reduced.mean, low, high, len(reduced.values), note)
            found.setdefault(name, []).append(point)
    return found


def shown_setting(setting: Any) -> str:
    return " ".join(f"{k}={v}" for k, v in setting[0]) if setting else ""


def judged(ours: str, *, holds: bool, partly: bool = False) -> Found:
    return Found(ours, "holds" if holds else "holds partly" if partly else "does not hold here")


def share_judged(ours: str, share: float, enough: float = 0.9, some: float = 0.5) -> Found:
    """A claim about many settings, by the share of them in which it holds."""
    return judged(ours, holds=share >= enough, partly=share >= some)
