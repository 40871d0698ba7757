"""The jobs of a plan that have no result yet, run and recorded one by one.

A row is on the disk before the next thing happens, so a study that is killed goes on where it
stopped: no job with a row is run again, and the jobs that were under way are. A plan with more
seeds, epsilons or mechanisms adds the new jobs to the same file. Failures are rows too; they are
run again when asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.limits import Limits
from admeasure.studies.jobs import Job, is_row
from admeasure.studies.lines import JsonObject, Lines
from admeasure.studies.plan import StudyPlan
from admeasure.studies.process import run_processes


def run_study(
    plan: StudyPlan,
    out: str | Path,
    module: str,
    *,
    workers: int | None = None,
    ray: str | None = None,
    retry: bool = False,
    started: Callable[[int, int], None] = lambda missing, jobs: None,
    hear: Callable[[JsonObject], None] = lambda row: None,
) -> list[JsonObject]:
    """Run what is missing; the rows of all jobs of the plan, in its order. NOT PRIVATE.

    A job is carried out by a process of `module`, which is told it on standard input (`process`).
    `workers` processes at a time, by default one for each core (on Ray: what the cluster has).
    `started` is told how many jobs are to be run, of how many; `hear` each row as it is recorded.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--jobs must be at least 1; it is {workers}.")
    lines = Lines(Path(out))
    with lines.held():
        recorded = results(lines)
        done = {key for key, row in recorded.items() if not (retry and "failure" in row)}
        missing = [job for job in plan.jobs if job.key not in done]
        started(len(missing), len(plan.jobs))
        for position, outcome in _outcomes(missing, module, plan.limits, workers, ray):
            row = missing[position].row(outcome)
            lines.append(row)
            recorded[row["key"]] = row
            hear(row)
    # Names are the plan's: the same run may be called otherwise in an older row.
    return [recorded[job.key] | job.names for job in plan.jobs]


def results(lines: Lines) -> dict[str, JsonObject]:
    """The rows of a file by their jobs' keys; of several for a job the last one counts."""
    found = {}
    for number, row in enumerate(lines.read(), 1):
        if not is_row(row):
            raise UsageError(
                f"Line {number} of {lines.path} is no row of a study. Name another file."
            )
        found[row["key"]] = row
    return found


def _outcomes(
    jobs: Sequence[Job], module: str, limits: Limits, workers: int | None, ray: str | None
) -> Iterator[tuple[int, JsonObject]]:
    if not jobs:
        return iter(())
    records = [asdict(job) for job in jobs]
    if ray is None:
        command = [sys.executable, "-m", module]
        at_once = workers or cores()
        return run_processes(records, command, workers=at_once, limits=limits)
    from admeasure.studies.cluster import run_on_ray

    return run_on_ray(records, module, address=ray, workers=workers, limits=limits)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
