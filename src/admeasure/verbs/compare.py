"""`compare`: tables of synthetic rows, made by any tool, against the real one. NOT PRIVATE.

Every table is read by the same schema and judged by the same measures as a release is by
`evaluate`; a release may stand among them, and is judged by its model's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from admeasure.errors import AdmeasureError, UsageError
from admeasure.evaluation import NOT_PRIVATE
from admeasure.verbs.evaluate import Evaluation, evaluate
from admeasure.verbs.given import GivenSchema, GivenWorkload, schema_of, workload_of


@dataclass(frozen=True)
class Compared:
    """What was found of each table, by name. NOT PRIVATE."""

    tables: Mapping[str, Evaluation]

    @property
    def by_error(self) -> list[str]:
        """The names, that with the least workload error first."""
        return sorted(self.tables, key=lambda name: self.tables[name].errors.workload_error)

    def to_json(self) -> dict[str, Any]:
        listed = {name: self.tables[name].to_json() for name in self.by_error}
        return {"stamp": NOT_PRIVATE, "tables": listed}


def compare(
    real: Any,
    synthetic: Mapping[str, Any],
    schema: GivenSchema,
    *,
    workload: GivenWorkload,
    predict: str | None = None,
    seed: int | None = None,
    started: Callable[[str], object] = lambda name: None,
) -> Compared:
    """Errors of several synthetic tables, by name, against the real one: paths, frames, dicts of
    columns, or releases. `predict` also says how well each teaches a learner to predict a column
    of the real table. `started` hears whose turn it is. The result is NOT PRIVATE.

    >>> from admeasure.schema import Schema
    >>> schema = Schema.coded("toy", {"a": 2, "b": 2})
    >>> real = {"a": [0, 1, 1, 0], "b": [0, 1, 1, 0]}
    >>> found = compare(real, {"same": real, "other": {"a": [0, 1], "b": [1, 0]}}, schema,
    ...                 workload="all-2way")
    >>> {name: found.tables[name].errors.workload_error for name in found.by_error}
    {'same': 0.0, 'other': 2.0}
    """
    if not synthetic:
        raise UsageError("Name at least one table of synthetic rows.")
    schema = schema_of(schema)
    asked = workload_of(workload, schema)
    found = {}
    for name, table in synthetic.items():
        started(name)
        try:
            found[name] = evaluate(table, real, schema, workload=asked, predict=predict, seed=seed)
        except AdmeasureError as error:
            raise type(error)(f"{name}: {error}") from None
    return Compared(found)
