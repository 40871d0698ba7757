"""Synthetic records found one by one, as DualQuery and FEM make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from admeasure.domain import Domain
from admeasure.families.support import Records, SupportModel
from admeasure.queries import WorkloadQuery
from admeasure.schema import Zero
from admeasure.workload import Workload

Record = Mapping[str, int]

MAX_TRIES = 1000


def model_of(found: Sequence[Record], domain: Domain, total: float) -> SupportModel:
    """The empirical distribution of the records."""
    rows = np.array([[record[c] for c in domain.columns] for record in found], dtype=np.int64)
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    codes = dict(zip(domain.columns, distinct.T.astype(np.uint16), strict=True))
    return SupportModel(Records(codes, domain), times / len(found), total)


def completed(part: Record, domain: Domain, rng: np.random.Generator) -> Record:
    """A record whose other columns are drawn uniformly: nothing was said about them, and no
    [[zero]] speaks of them."""
    return {c: part[c] if c in part else int(rng.integers(domain[c])) for c in domain.columns}


def uniform(domain: Domain, zeros: Sequence[Zero], rng: np.random.Generator) -> Record | None:
    """A record drawn uniformly among those that can occur, if one is soon found."""
    for _ in range(MAX_TRIES):
        record = {c: int(rng.integers(domain[c])) for c in domain.columns}
        if not any(zero.mask[tuple(record[c] for c in zero.columns)] for zero in zeros):
            return record
    return None


def answers(model: SupportModel, workload: Workload) -> dict[WorkloadQuery, np.ndarray]:
    """What the model answers to every query of the workload, in rows."""
    tables = model.marginals([q.columns for q in workload.queries])
    return {q: q.answer(t) for q, t in zip(workload.queries, tables, strict=True)}
