"""Marginals, their single cells, and counts of rows in a product of level sets.

Sensitivities follow `admeasure.queries.sensitivity`. One row is in exactly one cell of a marginal
(c = 1), and two rows are in two different cells at most (d = 2); a single count has c = d = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.queries.query import (
    Conditions,
    PerCell,
    arrange,
    as_counts,
    conditions,
    level_set,
)
from admeasure.queries.sensitivity import Sensitivity, of_counts, of_one_count
from admeasure.unit import Unit


@dataclass(frozen=True, init=False)
class Marginal(PerCell):
    """How many rows there are in each cell of the columns; `Marginal(())` is the row count.

    >>> Marginal(["sex", "age"])
    Marginal(columns=('age', 'sex'))
    """

    columns: Columns

    def __init__(self, columns: Iterable[str]) -> None:
        object.__setattr__(self, "columns", arrange(columns)[0])

    def __str__(self) -> str:
        return f"marginal ({', '.join(self.columns)})" if self.columns else "number of rows"

    @property
    def at_least(self) -> int:
        """A row must agree with a cell in all its columns."""
        return len(self.columns)

    def answer(self, counts: np.ndarray) -> np.ndarray:
        return as_counts(counts, len(self.columns))

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        return np.broadcast_to(values, self.shape(domain))

    def cell(self, codes: Sequence[int]) -> Cell:
        """The query of one cell."""
        return Cell(self.columns, codes)

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        """Add/remove: (m, m², m). Replace: (2 m, 2 m², m); m alone where there is one cell."""
        if domain.cells(self.columns) == 1:
            return of_one_count(unit)
        return of_counts(unit, touched=1, exchanged=2)


@dataclass(frozen=True, init=False)
class Cell(Conditions):
    """How many rows have these codes in these columns."""

    columns: Columns
    codes: tuple[int, ...]

    def __init__(self, columns: Iterable[str], codes: Sequence[int]) -> None:
        names, (arranged,) = arrange(columns, codes)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "codes", tuple(index(code) for code in arranged))

    def __str__(self) -> str:
        return f"count where {conditions(self.columns, self.requirement[0])}"

    @property
    def at_least(self) -> int:
        return len(self.columns)

    @property
    def requirement(self) -> tuple[Sequence[Sequence[int]], int]:
        return [(code,) for code in self.codes], len(self.columns)

    def answer(self, counts: np.ndarray) -> np.ndarray:
        return np.asarray(as_counts(counts, len(self.columns))[self.codes])


@dataclass(frozen=True, init=False)
class Where(Conditions):
    """How many rows have, in every column, one of the codes given for it.

    >>> Where(["sex", "age"], [{1}, range(3)])
    Where(columns=('age', 'sex'), codes=((0, 1, 2), (1,)))
    """

    columns: Columns
    codes: tuple[tuple[int, ...], ...]

    def __init__(self, columns: Iterable[str], codes: Sequence[Iterable[int]]) -> None:
        names, (arranged,) = arrange(columns, codes)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "codes", tuple(level_set(levels) for levels in arranged))

    def __str__(self) -> str:
        return f"count where {conditions(self.columns, self.codes)}"

    @property
    def requirement(self) -> tuple[Sequence[Sequence[int]], int]:
        return self.codes, len(self.columns)

    def answer(self, counts: np.ndarray) -> np.ndarray:
        left = as_counts(counts, len(self.columns))
        for levels in self.codes:
            left = left[list(levels)].sum(axis=0)
        return np.asarray(left)
