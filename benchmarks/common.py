"""What the benchmarks share: the tables, runs in processes of their own, results that are kept.

Everything a benchmark prints compares with the true table and is NOT PRIVATE. The tables are those
of the papers, coded as integers; they lie in the folder $ADMEASURE_DATA, or in shared/data beside
the repository, and are no part of it.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from admeasure.limits import Limits, peak
from admeasure.studies.jobs import code_version as code_version
from admeasure.studies.lines import Lines
from admeasure.studies.process import run_processes, serve

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

Record = dict[str, Any]


def data_path() -> Path:
    """Where the tables should be."""
    return Path(os.environ.get("ADMEASURE_DATA", ROOT.parent / "shared" / "data"))


def data_folder() -> Path:
    folder = data_path()
    if not folder.is_dir():
        sys.exit(f"No benchmark tables at {folder}. Set ADMEASURE_DATA to their folder.")
    return folder


def levels_of(table: str) -> dict[str, int]:
    """Column names and level counts of a coded table."""
    stored = json.loads((data_folder() / f"{table}.schema.json").read_text())
    return {column["name"]: column["domain_size"] for column in stored["columns"]}


@dataclass(frozen=True)
class Case:
    """One run: everything that its outcome depends on but the code."""

    table: str
    workload: str
    epsilon: float
    mechanism: str
    megabytes: float
    seed: int

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Results:
    """A file of JSON lines, one for each run; of several lines for a case the last one counts."""

    path: Path

    def read(self) -> dict[str, Record]:
        return {record["key"]: record for record in Lines(self.path).read()}

    def append(self, record: Record) -> None:
        """Add a line, on the disk before this returns."""
        Lines(self.path).append(record)


def parallel(
    jobs: Sequence[Record],
    function: Callable[[Record], Record],
    workers: int,
    *,
    results: Results,
    limit: float = 3600,
    megabytes: float | None = None,
    again: bool = False,
) -> Iterator[Record]:
    """Run `function` on the jobs without a result, `workers` at a time; records as they come.

    A job is a dict that JSON can carry, and what it holds is its identity: `key` is made of it.
    `function` is defined at the top of a script, which must run nothing when imported. Each job has
    a process of its own with one thread, at most `limit` seconds and `megabytes` of memory. A
    record (key, the job, `code`, what the function returned) is on the disk before it is yielded,
    so a killed benchmark goes on where it stopped. A failure is a record with `error` in place of a
    result; it is run again the next time.
    """
    missing = _without_result(jobs, results, again=again)
    if not missing:
        return
    script = Path(sys.modules[function.__module__].__file__ or "").resolve()
    command = [sys.executable, str(Path(__file__).resolve()), str(script), function.__name__]
    command.append(os.environ.get("XLA_FLAGS", ""))
    limits = Limits(megabytes=megabytes, seconds=limit)
    version = code_version()
    with Lines(results.path).held():
        for position, found in run_processes(missing, command, workers=workers, limits=limits):
            job = missing[position]
            record = {"key": key_of(job), **job, "code": version, **found}
            results.append(record)
            yield record


def here(
    jobs: Sequence[Record],
    function: Callable[[Record], Record],
    *,
    results: Results,
    again: bool = False,
) -> Iterator[Record]:
    """The same in this process, one job after the other, for jobs that take less time than starting
    a process does. A failure ends it."""
    version = code_version()
    with Lines(results.path).held():
        for job in _without_result(jobs, results, again=again):
            record = {"key": key_of(job), **job, "code": version, **function(job)}
            results.append(record)
            yield record


def _without_result(jobs: Sequence[Record], results: Results, *, again: bool) -> list[Record]:
    done = {} if again else {k: r for k, r in results.read().items() if "error" not in r}
    return list({key_of(job): job for job in jobs if key_of(job) not in done}.values())


def key_of(job: Record) -> str:
    return json.dumps(job, sort_keys=True)


def _serve(script: Path, name: str, flags: str = "") -> None:
    """The process of one job of `parallel`. `flags`: what the benchmark itself was started with,
    which `run_processes` replaces by those that keep a job to one thread."""
    os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()
    sys.path.insert(0, str(script.parent))
    serve(getattr(importlib.import_module(script.stem), name))


def peak_megabytes() -> float:
    return peak()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), *sys.argv[2:])
