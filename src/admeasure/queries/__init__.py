"""Queries: k-way marginals, r-of-k thresholds, single counts; each a linear map of one marginal."""

from __future__ import annotations

from admeasure.queries.any_cell import AnyCell
from admeasure.queries.marginal import Cell, Marginal, Where
from admeasure.queries.predicate import Predicate
from admeasure.queries.query import Query, Targets, WorkloadQuery
from admeasure.queries.record import from_record, to_record
from admeasure.queries.residual import Residual
from admeasure.queries.sensitivity import Sensitivity
from admeasure.queries.threshold import AtLeast, Threshold, ThresholdCell

__all__ = [
    "AnyCell",
    "AtLeast",
    "Cell",
    "Marginal",
    "Predicate",
    "Query",
    "Residual",
    "Sensitivity",
    "Targets",
    "Threshold",
    "ThresholdCell",
    "Where",
    "WorkloadQuery",
    "from_record",
    "to_record",
]
