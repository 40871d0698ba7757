"""What the curator gives out: a query, its noisy answer and the noise's scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from admeasure.domain import Columns
from admeasure.queries import Marginal, Query


@dataclass(frozen=True, eq=False)
class Measurement:
    """`values = query(table) + N_Z(0, sigma^2)` in every cell: safe to keep and to publish."""

    query: Query
    values: np.ndarray
    sigma: float

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def joined(self, other: Measurement) -> Measurement:
        """What both say of one query together, noise being independent: their mean by precision."""
        mine, its = self.sigma**-2, other.sigma**-2
        values = (mine * self.values + its * other.values) / (mine + its)
        return Measurement(self.query, values, (mine + its) ** -0.5)


@dataclass(frozen=True, eq=False)
class NoisyErrors:
    """How far a release's model is from the table, with noise (`privacy.workload_errors`): safe to
    publish. `values` are `mean_factor` times the mean over a workload, then each marginal's; all in
    rows, with noise of scale sigma. `weighs_alike`: whether all marginals weigh the same in it."""

    marginals: tuple[Columns, ...]
    values: np.ndarray
    sigma: float
    weighs_alike: bool = False

    def __post_init__(self) -> None:
        self.values.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Pooled:
    """What was measured of one set of columns: the mean by precision, and a cell's variance."""

    table: np.ndarray
    variance: float


def pooled(log: Iterable[Measurement], sizes: Sequence[int]) -> dict[Columns, Pooled]:
    """By sets of so many columns inside whole marginals: noise adds up over summed cells."""
    sums: dict[Columns, np.ndarray] = {}
    precision: dict[Columns, float] = {}
    for m in log:
        if not isinstance(m.query, Marginal):
            continue
        columns = m.query.columns
        for inside in chain.from_iterable(combinations(range(len(columns)), k) for k in sizes):
            part = tuple(columns[i] for i in inside)
            others = tuple(i for i in range(len(columns)) if i not in inside)
            table = m.values.sum(axis=others) if others else m.values
            weight = table.size / (m.values.size * m.sigma**2)
            sums[part] = sums.get(part, 0.0) + weight * table
            precision[part] = precision.get(part, 0.0) + weight
    return {c: Pooled(table / precision[c], 1 / precision[c]) for c, table in sums.items()}


def believed_total(log: Sequence[Measurement]) -> float:
    """The number of rows: the mean of the measurements' sums by their precision."""
    weights = [1 / (m.values.size * m.sigma**2) for m in log]
    sums = [w * float(m.values.sum()) for w, m in zip(weights, log, strict=True)]
    return max(1.0, sum(sums) / sum(weights))


def mean_factor(marginals: int) -> int:
    """How many times over the mean error of so many marginals is released beside each of them: so
    that it takes about a fifth of what all of that costs. Stored releases rely on it.

    >>> [mean_factor(m) for m in (1, 12, 455)]
    [1, 2, 11]
    """
    return max(1, (math.isqrt(marginals) + 1) // 2)
