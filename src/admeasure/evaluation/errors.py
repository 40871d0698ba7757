"""How far a release, or any synthetic table, is from the private table. NOT PRIVATE.

Errors are of shares: each side's counts are divided by its own number of rows. `workload_error` is
McKenna et al. (AIM, 2022), Definition 2, on a list in which a query of weight w stands w times: the
weighted mean of L1 distances, 0 to 2 for marginals. A threshold takes part with the distance
between its answers, as a marginal does with its cells.

Of a workload that is looked at by a sample (`workload.rule`) the errors are those of the sample, so
that `workload_error` is an unbiased estimate of the mean over all marginals; `standard_error` says
how far it may be from it, over the draw of the sample: s sqrt((1 - m/M) / m) for m of M marginals
whose errors have the standard deviation s. Among `worst` are then also marginals that a search
found (`_searched`): no upper bound, since nobody looked at them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.evaluation.subsampling import Equivalent, Resampling
from admeasure.joints import batches
from admeasure.queries import Marginal, WorkloadQuery
from admeasure.workload import KWay, Workload

NOT_PRIVATE = "NOT PRIVATE: true errors, computed from the private table. Do not publish."

BATCH_CELLS = 1 << 22
"""Marginals are compared in batches of about so many cells, which bounds the memory."""

WORST = 5
SEARCH_STEPS = 4
"""How often a search for the worst marginal goes to a worse one."""

CountsOf = Callable[[Sequence[Columns]], list[np.ndarray]]
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

    `marginals` counts the column sets that were looked at, `queries` the single numbers compared;
    `max_error`, `mean_error` and `rmse` are over those numbers. `asked` counts all column sets of
    the workload; where they are more, `workload_error` is known within its `standard_error`.
    """

    marginals: int
    queries: int
    workload_error: float
    max_error: float
    mean_error: float
    rmse: float
    worst: tuple[Worst, ...]
    equivalent: Equivalent | None
    asked: int
    standard_error: float

    @property
    def looked_at(self) -> str:
        """How many marginals were looked at, in words."""
        if self.marginals == self.asked:
            return f"{self.marginals:,} marginals"
        return f"a sample of {self.marginals:,} of {self.asked:,} marginals"

    @property
    def in_words(self) -> str:
        """The subsampling equivalent as a sentence."""
        if self.equivalent is None:
            return "closer to the table than any sample of it"
        percent = 100 * self.equivalent.fraction
        shown = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
        rows = f"{self.equivalent.rows:,} row" + ("s" if self.equivalent.rows > 1 else "")
        return f"as good as a {shown}% sample ({rows}, drawn with replacement)"


def compare(
    truth: CountsOf,
    estimate: CountsOf,
    workload: Workload,
    domain: Domain,
    *,
    batch_cells: int = BATCH_CELLS,
) -> Errors:
    """The errors of `estimate` on the workload, with `truth` the private table's counts; so many
    cells are compared at a time."""
    rows = int(truth([()])[0])
    resampling = Resampling(rows)
    absolute, squared, largest, numbers = 0.0, 0.0, 0.0, 0
    found: list[tuple[Worst, float]] = []
    for query, exact, error in _errors(
        truth, estimate, workload.queries, domain, rows, batch_cells
    ):
        resampling.add(exact, workload.weight(query))
        absolute += float(error.sum())
        squared += float(np.square(error).sum())
        largest = max(largest, float(error.max()))
        numbers += error.size
        worst = Worst(str(query), query.columns, float(error.sum()))
        found.append((worst, workload.weight(query)))
    weights = math.fsum(weight for _, weight in found)
    mean = math.fsum(weight * worst.error for worst, weight in found) / weights
    ranked = _worst_first(worst for worst, _ in found)
    if workload.sampled:
        ranked = _searched(truth, estimate, workload, domain, ranked)
    return Errors(
        marginals=len(workload.marginals()),
        queries=numbers,
        workload_error=mean,
        max_error=largest,
        mean_error=absolute / numbers,
        rmse=math.sqrt(squared / numbers),
        worst=tuple(ranked[:WORST]),
        equivalent=resampling.equivalent(mean),
        asked=workload.asked,
        standard_error=_standard_error([worst.error for worst, _ in found], workload.asked)
        if workload.sampled
        else 0.0,
    )


def _errors(
    truth: CountsOf,
    estimate: CountsOf,
    queries: Iterable[WorkloadQuery],
    domain: Domain,
    rows: int,
    batch_cells: int = BATCH_CELLS,
) -> Iterator[tuple[WorkloadQuery, np.ndarray, np.ndarray]]:
    """Each query with its exact answer and the errors of shares: of the rows that the estimate
    says there are, which answers that do not add up need not sum to."""
    total = float(estimate([()])[0])
    for batch in batches(queries, lambda q: domain.cells(q.columns), batch_cells):
        columns = [query.columns for query in batch]
        sides = zip(batch, truth(columns), estimate(columns), strict=True)
        for query, true, believed in sides:
            exact = query.answer(true)
            answer = np.asarray(query.answer(believed), dtype=np.float64)
            shares = answer / total if total > 0 else np.zeros_like(answer)
            yield query, exact, np.abs(shares - exact / rows)


def _worst_first(found: Iterable[Worst]) -> list[Worst]:
    return sorted(found, key=lambda worst: -worst.error)


def _standard_error(errors: Sequence[float], of: int) -> float:
    """Of the mean of a sample that was drawn without replacement."""
    m = len(errors)
    spread = float(np.std(errors, ddof=1)) if m > 1 else 0.0
    return spread * math.sqrt((1 - m / of) / m)


def _searched(
    truth: CountsOf, estimate: CountsOf, workload: Workload, domain: Domain, found: list[Worst]
) -> list[Worst]:
    """The worst of the sample, and what is worse when one column at a time is exchanged."""
    assert workload.rule is not None
    rows = int(truth([()])[0])
    seen = {worst.columns for worst in found}
    for _ in range(SEARCH_STEPS):
        near = [c for c in _near(workload.rule, found[0].columns) if c not in seen]
        near = [c for c in near if domain.cells(c) <= BATCH_CELLS]
        seen.update(near)
        errors = _errors(truth, estimate, map(Marginal, near), domain, rows)
        more = [Worst(str(q), q.columns, float(error.sum())) for q, _, error in errors]
        ranked = _worst_first([*found[:WORST], *more])
        stays, found = ranked[0].columns == found[0].columns, ranked
        if stays:
            break
    return found


def _near(rule: KWay, columns: Columns) -> Iterator[Columns]:
    """The marginals of a rule that have all columns but one in common with this one."""
    for out in columns:
        kept = [c for c in columns if c != out]
        if out != rule.target:
            yield from (canonical((*kept, c)) for c in rule.columns if c not in columns)
