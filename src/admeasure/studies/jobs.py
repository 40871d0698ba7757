"""One run of a study: fit with seeded noise, then compare with the true table. NOT PRIVATE.

A job is known by what its outcome depends on: the contents of the table, the schema and the
workload (by their hashes, so that names and places may change), the mechanism with all its options,
the budget, the seed and what is judged. The package's version is not part of it; rows record it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from admeasure.studies import STAMP
from admeasure.studies.budgets import Conversion, StatedDelta
from admeasure.studies.lines import JsonObject

JudgedOn = Literal["answers", "rows"]
MEASURES = ("workload_error", "max_error", "mean_error", "rmse")
COSTS = ("seconds", "cpu_seconds", "peak_megabytes")


@dataclass(frozen=True)
class Place:
    """Where a job finds its files; on a cluster, the same on every machine."""

    data: str
    schema: str
    workload: str
    """a rule, or the path of a file"""
    public: str | None = None


@dataclass(frozen=True)
class Job:
    """One run. `identity` decides whether two are the same."""

    table: str
    workload: str
    label: str
    """the mechanism with the options that the plan names"""
    mechanism: str
    given: dict[str, str]
    """those options, as texts"""
    options: dict[str, Any]
    """all its options"""
    epsilon: float
    delta: StatedDelta
    seed: int
    judge: JudgedOn
    hashes: dict[str, str]
    place: Place
    conversion: Conversion = "tight"

    @property
    def identity(self) -> JsonObject:
        names = ("mechanism", "options", "epsilon", "delta", "seed", "judge", "hashes")
        found = {name: getattr(self, name) for name in names}
        # The usual one is not named, so that runs recorded before there was another stay known.
        return found if self.conversion == "tight" else {**found, "conversion": self.conversion}

    @cached_property
    def key(self) -> str:
        return digest(json.dumps(self.identity, sort_keys=True))

    @property
    def names(self) -> JsonObject:
        return {"table": self.table, "workload": self.workload, "label": self.label}

    @classmethod
    def from_json(cls, record: JsonObject) -> Job:
        return cls(**{**record, "place": Place(**record["place"])})

    def row(self, outcome: JsonObject) -> JsonObject:
        """The line of the results."""
        return {"stamp": STAMP, "key": self.key, **self.names, **self.identity, **outcome}


def is_row(record: JsonObject) -> bool:
    """Whether this is a row of a table of results: all that is read of it is there, and of its
    kind. Measures may be infinite and nothing else may."""
    texts = ("stamp", "key", "table", "workload", "label", "mechanism")
    failed = "failure" in record
    # Of a run that failed, the rule: its table may never have been read.
    numbers = ("epsilon",) if failed and record.get("delta") == "1/n^2" else ("epsilon", "delta")
    texts += ("failure", "error") if failed else ("version", "code")
    numbers += () if failed else (*MEASURES, *COSTS)
    return (
        all(isinstance(record.get(name), str) for name in texts)
        and all(type(record.get(name)) in (int, float) for name in numbers)
        and all(math.isfinite(record[name]) for name in numbers if name not in MEASURES)
        and isinstance(record.get("options"), dict)
        and type(record.get("seed")) is int
    )


def digest(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(raw).hexdigest()[:16]


def code_version() -> str:
    """A hash of the package's source, so that results of different code can be told apart."""
    package = Path(__file__).resolve().parents[1]
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:10]
