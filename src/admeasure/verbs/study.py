"""`study`: mechanisms compared over grids, on all cores or a cluster. NOT PRIVATE.

As a program, `python -m admeasure.verbs.study` is the process of one job, which comes on standard
input.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure import __version__
from admeasure.errors import UsageError
from admeasure.files import refuse_suffix, refuse_to_overwrite
from admeasure.studies import STAMP
from admeasure.studies.budgets import delta_for, epsilon_to_ask
from admeasure.studies.jobs import MEASURES, Job, JudgedOn, code_version, digest
from admeasure.studies.lines import JsonObject
from admeasure.studies.picture import check_picture, draw
from admeasure.studies.plan import StudyPlan, load_plan
from admeasure.studies.process import serve
from admeasure.studies.run import run_study
from admeasure.studies.table import StudyCell, best_of_options, check_measure, export_rows, summary

if TYPE_CHECKING:
    from admeasure.release import Release

JOB = "admeasure.verbs.study"
"""The module whose process carries out one job."""


@dataclass(frozen=True)
class StudyResults:
    """A row for each job, in the plan's order, and what they say of one measure. NOT PRIVATE."""

    rows: list[JsonObject]
    measure: str

    @cached_property
    def cells(self) -> list[StudyCell]:
        """Means and deviations over seeds, one cell for each setting."""
        return summary(self.rows, self.measure)

    @property
    def best(self) -> list[StudyCell]:
        """The cells with the best options of each mechanism; their labels say which."""
        return best_of_options(self.cells)

    @property
    def failed(self) -> int:
        return sum("failure" in row for row in self.rows)

    @property
    def versions(self) -> int:
        """Of how many versions of the code these are results."""
        return len({(row["version"], row["code"]) for row in self.rows if "failure" not in row})

    def to_json(self) -> JsonObject:
        head = {"stamp": STAMP, "jobs": len(self.rows), "failed": self.failed}
        return {**head, "measure": self.measure, "cells": [cell.to_json() for cell in self.cells]}


def study(
    plan: StudyPlan | str | Path,
    out: str | Path,
    *,
    jobs: int | None = None,
    ray: str | None = None,
    retry: bool = False,
    measure: str = "workload_error",
    export: str | Path | None = None,
    picture: str | Path | None = None,
    overwrite: bool = False,
    started: Callable[[int, int], None] = lambda missing, jobs: None,
    hear: Callable[[JsonObject], None] = lambda row: None,
) -> StudyResults:
    """Compare mechanisms over tables, workloads, options, epsilons and seeds. NOT PRIVATE.

    `plan` is a file (docs/how-to/studies.md), `out` the table of results, which is continued: a
    study that was interrupted goes on where it stopped, a plan with more seeds adds the new runs,
    and with `retry` runs that failed are tried again. `jobs` run at a time, one a core where it is
    not said; with `ray` on a cluster: "auto", "local" or its address.

    `measure` is what the cells of the result are of; `export` writes all rows as a .csv or .parquet
    file, `picture` draws the cells as a .png, .svg or .pdf file; `overwrite` allows these to be
    there already. `started` is told how many jobs are to be run, of how many; `hear` each row as it
    is recorded.

    >>> results = study("compare.toml", "compare.jsonl", jobs=4)  # doctest: +SKIP
    >>> [(cell.label, cell.epsilon, cell.mean) for cell in results.cells]  # doctest: +SKIP
    """
    for path, check in ((export, refuse_suffix), (picture, check_picture)):
        if path is not None:
            check(Path(path))
            refuse_to_overwrite(Path(path), force=overwrite)
    check_measure(measure)
    read = plan if isinstance(plan, StudyPlan) else load_plan(plan)
    rows = run_study(read, out, JOB, workers=jobs, ray=ray, retry=retry, started=started, hear=hear)
    found = StudyResults(rows, measure)
    if export is not None:
        export_rows(rows, Path(export))
    if picture is not None:
        draw(found.cells, measure, Path(picture))
    return found


def run_job(record: JsonObject) -> JsonObject:
    """The measures and costs of one job, in a process that does nothing else."""
    from admeasure.evaluation import compare
    from admeasure.limits import peak
    from admeasure.mechanisms import build
    from admeasure.schema import Schema
    from admeasure.sources.open import held, open_source
    from admeasure.verbs.fit import fit
    from admeasure.workload import parse_workload

    job = Job.from_json(record)
    schema = Schema.load(job.place.schema)
    workload = parse_workload(job.place.workload, schema.domain)
    found = {"schema": digest(schema.dumps()), "workload": digest(workload.dumps())}
    for name, hashed in found.items():
        if hashed != job.hashes[name]:
            raise UsageError(f"The {name} was changed after the study began. Run the plan again.")
    delta = job.delta
    if delta == "1/n^2":
        with held(open_source(job.place.data, schema)) as source:
            delta = delta_for(delta, int(source.counts([()])[0]))
    started, used = time.perf_counter(), time.process_time()
    release = fit(
        job.place.data,
        schema,
        workload=workload,
        mechanism=build(job.mechanism, job.given),
        epsilon=epsilon_to_ask(job.epsilon, delta, job.conversion),
        delta=delta,
        public=job.place.public,
        seed=job.seed,
    )
    costs = {
        "seconds": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - used, 3),
        "peak_megabytes": round(peak(), 1),
    }
    schema = schema.found_by(release.schema)
    truth = open_source(job.place.data, schema)
    answers, judged = (release.model.marginals, "answers")
    if job.judge == "rows":
        answers, judged = _rows(release, job)
    errors = compare(truth.counts, answers, workload, schema.domain)
    return {
        **{name: getattr(errors, name) for name in MEASURES},
        **costs,
        "delta": delta,
        "judged": judged,
        "rounds": release.facts["rounds"],
        "model_megabytes": release.facts["model_megabytes"],
        "version": __version__,
        "code": code_version(),
    }


def _rows(release: Release, job: Job) -> tuple[Any, JudgedOn]:
    """Counts of as many synthetic rows as the release believes the table has; the model's answers
    where it has no rows, as the papers judge baselines of answers beside the others."""
    from admeasure.verbs.evaluate import counts_of_rows

    try:
        return counts_of_rows(release, release.rows, job.seed), "rows"
    except UsageError:
        return release.model.marginals, "answers"


if __name__ == "__main__":
    serve(run_job)
