"""`evaluate`: how good a release is, by the private table. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from admeasure.cli.asked import future_json, say_future
from admeasure.cli.console import banner, progress, say, say_json, table
from admeasure.errors import UsageError
from admeasure.evaluate import NOT_PRIVATE, Errors, compare
from admeasure.evaluate.future import future_error
from admeasure.release import Release
from admeasure.schema import Privacy, Schema
from admeasure.sources.address import printable
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import open_source
from admeasure.workload import Workload, parse_workload
from admeasure.workload.history import parse_future


def evaluate(
    target: str,
    data: str,
    schema_path: Path,
    workload_text: str,
    rows: int | None,
    seed: int | None,
    future_text: str | None = None,
    *,
    json: bool,
) -> None:
    if rows is not None and rows < 1:
        raise UsageError(f"--rows must be at least 1; it is {rows}.")
    schema = Schema.load(schema_path)
    workload = parse_workload(workload_text, schema.domain)
    future = None if future_text is None else parse_future(future_text, schema.domain)
    release = Release.load(target) if Path(target).is_dir() else None
    if release is None and rows is not None:
        raise UsageError("--rows samples a release; a table has its rows already. Leave it out.")
    if release is not None and release.schema.domain != schema.domain:
        raise UsageError(
            f"The release was made with other columns or levels than {schema_path} has."
        )
    with progress() as make:
        truth = open_source(data, schema, progress=make(f"reading {printable(data)}"))
        make("comparing")
        if release is None:
            believed = open_source(target, without_unit(schema), progress=None).counts
        else:
            believed = release.model.marginals
        errors = compare(truth.counts, believed, workload, schema.domain)
        unknown = None if future is None else future_error(truth.counts, believed, future)
        sampled = None
        if release is not None and rows is not None:
            sampled = _sampled(release, rows, seed, workload, truth.counts)
    if json:
        facts: dict[str, Any] = {
            "stamp": NOT_PRIVATE,
            "target": printable(target),
            **errors.to_json(),
        }
        facts |= future_json(unknown)
        say_json(facts if sampled is None else facts | {"sampled": sampled.to_json()})
        return
    banner(NOT_PRIVATE)
    kind = "the model's answers" if release is not None else printable(target)
    _print(errors, kind, sampled, rows)
    if unknown is not None and future_text is not None:
        say_future(unknown, future_text)
    banner(NOT_PRIVATE)


def _sampled(
    release: Release, rows: int, seed: int | None, workload: Workload, truth: Any
) -> Errors:
    import numpy as np

    codes = release.model.sample(rows, np.random.default_rng(seed))
    source = MemorySource.from_codes(codes, without_unit(release.schema))
    return compare(truth, source.counts, workload, release.schema.domain)


def without_unit(schema: Schema) -> Schema:
    """The schema of synthetic rows, which belong to nobody."""
    if schema.privacy.unit_column is None:
        return schema
    return Schema(
        table=schema.table,
        privacy=Privacy(unit="row", neighbours=schema.privacy.neighbours),
        columns=schema.columns,
        zero=schema.zero,
    )


def _print(errors: Errors, kind: str, sampled: Errors | None, rows: int | None) -> None:
    say(
        f"{errors.marginals:,} marginals, {errors.queries:,} queries. Errors are of shares of the "
        "rows."
    )
    say()
    sides = [(kind, errors)] + ([(f"{rows:,} sampled rows", sampled)] if sampled and rows else [])
    lines = [
        [
            name,
            f"{e.workload_error:.5f}",
            f"{e.max_error:.5f}",
            f"{e.mean_error:.3g}",
            f"{e.rmse:.3g}",
        ]
        for name, e in sides
    ]
    for line in table(["", "workload error", "max error", "mean error", "rmse"], lines):
        say(line)
    for name, e in sides:
        say(f"{name}: {e.in_words}.")
    say()
    worst = [[w.query, f"{w.error:.5f}"] for w in errors.worst]
    for line in table(["answered worst", "L1 error"], worst):
        say(line)
