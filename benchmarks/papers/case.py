"""One run of an experiment, for all experiments: everything that its outcome depends on.

NOT PRIVATE: seeded noise, errors against the true tables.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from admeasure.studies.budgets import Conversion, StatedDelta, delta_for, epsilon_to_ask
from common import Record, cpu_seconds, peak_megabytes
from papers import judges
from papers.tables import table_of

Judge = Literal["answers", "rows", "bounds", "present", "future"]


@dataclass(frozen=True)
class Case:
    """A table, a workload, a mechanism with its options, and the promise it is run under.

    `delta` is a number or 1/n²; `conversion` the tight one or the papers' loose one; `public` names
    a public table of the table; `judge` says which errors are taken: those of the model's answers,
    of synthetic rows (answers, where a mechanism makes none), of bounds as well, of the largest
    error alone by blocks, or of queries to come.
    """

    table: str
    workload: str
    mechanism: str
    epsilon: float
    seed: int = 0
    options: tuple[tuple[str, str], ...] = ()
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    delta: StatedDelta = 1e-9
    conversion: Conversion = "tight"
    public: str | None = None
    judge: Judge = "answers"

    @property
    def key(self) -> str:
        """A name for the piece that holds its outcome."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def line(self) -> str:
        """The mechanism with its options and public table."""
        given = " ".join(f"{name}={value}" for name, value in self.options)
        public = f" from {self.public}" if self.public else ""
        return f"{self.mechanism}{public} {given}".strip()

    def to_json(self) -> Record:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Record) -> Case:
        options = tuple((str(name), str(value)) for name, value in record["options"])
        return cls(**{**record, "options": options})


def options(**given: Any) -> tuple[tuple[str, str], ...]:
    """Options as a case holds them: `rounds=4` for `--rounds 4`."""
    return tuple((name.replace("_", "-"), str(value)) for name, value in sorted(given.items()))


def by_replacement(
    table: str,
    workload: str,
    mechanism: str,
    epsilon: float,
    seed: int,
    judge: Judge,
    public: str | None = None,
    **given: Any,
) -> Case:
    """A run under the promise of GEM's, PMW-Pub's and RAP's papers."""
    return Case(
        table,
        workload,
        mechanism,
        epsilon,
        seed,
        options(**given),
        neighbours="replace",
        delta="1/n^2",
        conversion="loose",
        public=public,
        judge=judge,
    )


def run(case: Case) -> Record:
    """Fit and judge, in a process that does nothing else."""
    from admeasure.errors import UsageError
    from admeasure.mechanisms import build
    from admeasure.verbs.fit import fit

    table = table_of(case.table)
    schema = table.schema(case.neighbours)
    workload = table.workload(case.workload, schema.domain)
    delta = delta_for(case.delta, table.rows)
    wall, cpu = time.perf_counter(), cpu_seconds()
    release = fit(
        table.private,
        schema,
        workload=workload,
        mechanism=build(case.mechanism, dict(case.options)),
        epsilon=epsilon_to_ask(case.epsilon, delta, case.conversion),
        delta=delta,
        public=table.public[case.public] if case.public else None,
        seed=case.seed,
    )
    record: Record = {
        "seconds": round(time.perf_counter() - wall, 3),
        "cpu_seconds": round(cpu_seconds() - cpu, 3),
        "peak_megabytes": round(peak_megabytes(), 1),
        "model_megabytes": round(float(release.facts["model_megabytes"] or 0.0), 3),
        "rounds": release.facts["rounds"],
        "cells": sum(schema.domain.cells(query.columns) for query in workload.queries),
    }
    truth = table.source(schema)
    answers: Callable[..., Any] = release.model.marginals
    if case.judge == "rows":
        try:
            rows = release.model.sample(release.rows, np.random.default_rng(case.seed))
            answers, record["judged"] = judges.counts_of(rows, schema), "rows"
        except UsageError:  # a mechanism that answers questions only
            record["judged"] = "answers"
    if case.judge == "present":
        record |= judges.present(truth, release.model, workload)
    elif case.judge == "future":
        record |= judges.future(truth, answers, workload, case.workload)
    else:
        record |= judges.errors(truth, answers, workload, schema)
    if case.judge == "bounds":
        record |= judges.bounds(truth, release)
    record["all_cpu_seconds"] = round(cpu_seconds(), 2)
    return record
