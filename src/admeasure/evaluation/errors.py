"""How far a release, or any synthetic table, is from the private table. NOT PRIVATE.

Errors are of shares: each side's counts are divided by its own number of rows. `workload_error` is
McKenna et al. (AIM, 2022), Definition 2, on a list in which a query of weight w stands w times: the
weighted mean of L1 distances, 0 to 2 for marginals. A threshold takes part with the distance
between its answers, as a marginal does with its cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.evaluation.subsampling import Equivalent, Resampling
from admeasure.queries import WorkloadQuery
from admeasure.workload import Workload

NOT_PRIVATE = "NOT PRIVATE: true errors, computed from the private table. Do not publish."

BATCH_CELLS = 1 << 22
"""Marginals are compared in batches of about so many cells, which bounds the memory."""

Answers = Callable[[Sequence[Columns]], list[np.ndarray]]
"""Counts of marginals: `Source.counts` and `Model.marginals` are such."""


@dataclass(frozen=True)
class Worst:
    """One query of the workload and its L1 error in shares (0 to 2 for a marginal)."""

    query: str
    columns: Columns
    error: float


@dataclass(frozen=True)
class Errors:
    """Errors over a workload, in shares of the rows.

    `marginals` counts the column sets, `queries` the single numbers compared; `max_error`,
    `mean_error` and `rmse` are over those numbers.
    """

    marginals: int
    queries: int
    workload_error: float
    max_error: float
    mean_error: float
    rmse: float
    worst: tuple[Worst, ...]
    equivalent: Equivalent | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def in_words(self) -> str:
        """The subsampling equivalent as a sentence."""
        if self.equivalent is None:
            return "closer to the table than any sample of it"
        percent = 100 * self.equivalent.fraction
        shown = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
        rows = f"{self.equivalent.rows:,} row" + ("s" if self.equivalent.rows > 1 else "")
        return f"as good as a {shown}% sample ({rows}, drawn with replacement)"


def compare(truth: Answers, estimate: Answers, workload: Workload, domain: Domain) -> Errors:
    """The errors of `estimate` on the workload, with `truth` the private table's counts."""
    rows = int(truth([()])[0])
    resampling = Resampling(rows)
    absolute, squared, largest, numbers = 0.0, 0.0, 0.0, 0
    found: list[tuple[Worst, float]] = []
    for batch in _batches(workload, domain):
        columns = [query.columns for query in batch]
        sides = zip(batch, truth(columns), estimate(columns), strict=True)
        for query, true, believed in sides:
            exact = query.answer(true)
            answer = np.asarray(query.answer(believed), dtype=np.float64)
            total = float(np.sum(believed))
            shares = answer / total if total > 0 else np.zeros_like(answer)
            error = np.abs(shares - exact / rows)
            resampling.add(exact, workload.weight(query))
            absolute += float(error.sum())
            squared += float(np.square(error).sum())
            largest = max(largest, float(error.max()))
            numbers += error.size
            worst = Worst(str(query), query.columns, float(error.sum()))
            found.append((worst, workload.weight(query)))
    weights = math.fsum(weight for _, weight in found)
    mean = math.fsum(weight * worst.error for worst, weight in found) / weights
    return Errors(
        marginals=len(workload.marginals()),
        queries=numbers,
        workload_error=mean,
        max_error=largest,
        mean_error=absolute / numbers,
        rmse=math.sqrt(squared / numbers),
        worst=tuple(w for w, _ in sorted(found, key=lambda pair: -pair[0].error)[:5]),
        equivalent=resampling.equivalent(mean),
    )


def _batches(workload: Workload, domain: Domain) -> Iterator[list[WorkloadQuery]]:
    batch: list[WorkloadQuery] = []
    cells = 0
    for query in workload.queries:
        size = domain.cells(query.columns)
        if batch and cells + size > BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(query)
        cells += size
    if batch:
        yield batch
