"""`evaluate`: how good a release is, by the private table. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from admeasure.errors import UsageError
from admeasure.evaluation import NOT_PRIVATE, Errors, compare
from admeasure.evaluation.future import FutureError, future_error
from admeasure.evaluation.prediction import Prediction, check_predicted
from admeasure.evaluation.prediction import predict as predicted
from admeasure.release import Release
from admeasure.schema import Privacy, Schema
from admeasure.sources.memory import MemorySource
from admeasure.sources.open import held, open_source
from admeasure.verbs.given import GivenSchema, GivenWorkload, schema_of, workload_of
from admeasure.workload.history import parse_future


@dataclass(frozen=True)
class Evaluation:
    """True errors: of the model's answers or a table's, of `rows` sampled rows, and of queries to
    come, where these were asked for. NOT PRIVATE."""

    errors: Errors
    of_model: bool
    sampled: Errors | None = None
    rows: int | None = None
    future: FutureError | None = None
    prediction: Prediction | None = None

    def to_json(self) -> dict[str, Any]:
        asked = {name: getattr(self, name) for name in ("future", "sampled", "prediction")}
        given = {name: asdict(found) for name, found in asked.items() if found is not None}
        return {"stamp": NOT_PRIVATE, **asdict(self.errors), **given}


def evaluate(
    target: Release | Any,
    data: Any,
    schema: GivenSchema,
    *,
    workload: GivenWorkload,
    rows: int | None = None,
    seed: int | None = None,
    future: str | None = None,
    predict: str | None = None,
    reading: Callable[[float], None] | None = None,
) -> Evaluation:
    """Errors of a release, or of a table of synthetic rows, against the private table `data`.

    The result shows true errors of the private table and is NOT PRIVATE. `rows` also judges as
    many sampled rows of a release; `future` queries that are yet to come, in the words of
    `--future`; `predict` how well synthetic rows teach a learner of scikit-learn to predict this
    column in real ones (`admeasure.evaluation.prediction`). `reading` hears which part of the
    private table has been read.
    """
    if rows is not None and rows < 1:
        raise UsageError(f"--rows must be at least 1; it is {rows}.")
    release = _release(target)
    schema = schema_of(schema)
    schema = schema if release is None else schema.found_by(release.schema)
    asked = workload_of(workload, schema)
    to_come = None if future is None else parse_future(future, schema.domain)
    if predict is not None:
        check_predicted(predict, schema)
    if release is None and rows is not None:
        raise UsageError("--rows samples a release; a table has its rows already. Leave it out.")
    if release is not None and release.schema.domain != schema.domain:
        raise UsageError(
            "The release was made with other columns or levels than the schema has. Give the "
            "schema that it was made by."
        )
    with held(open_source(data, schema, progress=reading)) as source:
        truth, sampled, prediction = source.counts, None, None
        if release is None:
            table = open_source(target, of_nobody(schema))
            believed = table.counts
            if predict is not None:
                prediction = predicted(predict, source, table, seed)
        else:
            believed = release.model.marginals
            if predict is not None:
                made = release.sample_codes(rows, seed=seed)
                prediction = predicted(predict, source, made, seed)
            if rows is not None:
                drawn = counts_of_rows(release, rows, seed)
                sampled = compare(truth, drawn, asked, schema.domain)
        errors = compare(truth, believed, asked, schema.domain)
        future_ = None if to_come is None else future_error(truth, believed, to_come)
        return Evaluation(errors, release is not None, sampled, rows, future_, prediction)


def _release(target: Any) -> Release | None:
    if isinstance(target, Release):
        return target
    is_folder = isinstance(target, str | Path) and (Path(target) / "release.json").exists()
    return Release.load(target) if is_folder else None


def counts_of_rows(release: Release, rows: int, seed: int | None) -> Callable[..., Any]:
    """Counts of as many synthetic rows."""
    codes = release.sample_codes(rows, seed=seed)
    return MemorySource.from_codes(codes, of_nobody(release.schema)).counts


def of_nobody(schema: Schema) -> Schema:
    """The schema of synthetic rows, which belong to nobody."""
    if schema.privacy.unit_column is None:
        return schema
    privacy = Privacy(unit="row", neighbours=schema.privacy.neighbours)
    return schema.model_copy(update={"privacy": privacy})
