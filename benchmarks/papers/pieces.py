"""Outcomes on the disk, one small file for each case, and the jobs that have none yet.

A file is written whole and renamed, so what is there is an outcome; a run that is killed loses the
jobs under way and nothing else. A failure is an outcome too, and is tried again when asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from admeasure.limits import Limits
from admeasure.studies.jobs import code_version
from admeasure.studies.process import run_processes, serve
from common import Record
from papers.case import Case, run
from papers.experiment import Runs


@dataclass(frozen=True)
class Pieces:
    """A folder of outcomes."""

    folder: Path

    def path(self, case: Case) -> Path:
        return self.folder / f"{case.key}.json"

    def read(self, case: Case) -> Record | None:
        """The record of a case; None where there is none, or none that is whole."""
        try:
            found = json.loads(self.path(case).read_text())
        except (OSError, ValueError):
            return None
        return {**case.to_json(), **found}

    def runs(self, cases: Iterable[Case]) -> Runs:
        found = [self.read(case) for case in dict.fromkeys(cases)]
        return Runs(tuple(r for r in found if r is not None and "failure" not in r))

    def failures(self, cases: Iterable[Case]) -> list[Record]:
        found = [self.read(case) for case in dict.fromkeys(cases)]
        return [r for r in found if r is not None and "failure" in r]

    def missing(self, cases: Iterable[Case], *, retry: bool = False) -> list[Case]:
        found = []
        for case in dict.fromkeys(cases):
            record = self.read(case)
            if record is None or (retry and "failure" in record):
                found.append(case)
        return found

    def write(self, case: Case, outcome: Record, code: str) -> Record:
        record = {"case": case.to_json(), "code": code, **outcome}
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{case.key}.{os.getpid()}.new"
        with beside.open("w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path(case))
        return {**case.to_json(), **record}


def carry_out(
    pieces: Pieces, cases: list[Case], *, workers: int, seconds: float, megabytes: float | None
) -> Iterator[Record]:
    """Run the cases, `workers` processes at a time; records as they are on the disk."""
    # Several processes share one accelerator, each taking what it needs.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    command = [sys.executable, str(Path(__file__).with_name("__main__.py")), "--job"]
    limits = Limits(megabytes=megabytes, seconds=seconds)
    version = code_version()
    jobs = [case.to_json() for case in cases]
    for position, outcome in run_processes(jobs, command, workers=workers, limits=limits):
        yield pieces.write(cases[position], outcome, version)


def serve_job() -> None:
    """The process of one job, which comes on standard input."""
    serve(lambda record: run(Case.from_json(record)))
