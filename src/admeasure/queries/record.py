"""Queries as plain records, for logs, stored releases and JSON.

A record holds text, whole numbers and lists only, so that it is equal to what comes back from
JSON. `from_record(to_record(query)) == query` for every kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admeasure.errors import WorkloadError
from admeasure.queries.any_cell import AnyCell
from admeasure.queries.marginal import Cell, Marginal, Where
from admeasure.queries.predicate import Predicate
from admeasure.queries.query import Query
from admeasure.queries.residual import Residual
from admeasure.queries.threshold import AtLeast, Threshold, ThresholdCell

_KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "marginal": (Marginal, ("columns",)),
    "cell": (Cell, ("columns", "codes")),
    "where": (Where, ("columns", "codes")),
    "any-cell": (AnyCell, ("columns", "marginal", "places")),
    "threshold": (Threshold, ("columns", "at_least")),
    "threshold-cell": (ThresholdCell, ("columns", "at_least", "codes")),
    "at-least": (AtLeast, ("columns", "codes", "at_least")),
    "residual": (Residual, ("columns",)),
    "predicate": (Predicate, ("columns", "name")),
}
IN_WORKLOADS = ("marginal", "threshold")
"""The kinds that a workload may hold, in the order in which it holds them. Besides its columns such
a query is described by whole numbers."""
_NAMES = {kind: name for name, (kind, _) in _KINDS.items()}


def kind_of(query: object) -> str:
    """The name of the kind of a query; empty for anything else."""
    return _NAMES.get(type(query), "")


def fields_of(kind: str) -> tuple[str, ...]:
    """What a query of a kind is described by."""
    return _KINDS[kind][1]


def to_record(query: Query) -> dict[str, Any]:
    """A query as a record.

    >>> to_record(Threshold(["sex", "age", "race"], 2))
    {'query': 'threshold', 'columns': ['age', 'race', 'sex'], 'at_least': 2}
    """
    name = _NAMES[type(query)]
    return {"query": name} | {field: _lists(getattr(query, field)) for field in _KINDS[name][1]}


def from_record(record: Mapping[str, Any]) -> Query:
    """The query of a record; `WorkloadError` where it is not one."""
    try:
        kind, fields = _KINDS[record["query"]]
        return kind(**{field: record[field] for field in fields})
    except (KeyError, TypeError) as error:
        raise WorkloadError(
            f"This is not the record of a query: {dict(record)!r}. It may be damaged, or written "
            "by a newer version."
        ) from error


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if isinstance(value, tuple) else value
