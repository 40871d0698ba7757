"""A count of the rows in any of some cells of a marginal: what no conditions on single columns say.

A question about a column that others determine becomes one about these: which of their cells have
the values that are asked for is known, and need not be a product of sets of codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.queries.query import OneCount, arrange, as_counts, check_columns


@dataclass(frozen=True, init=False)
class AnyCell(OneCount):
    """How many rows are in one of the cells. `places` are those of the cells in the marginal's
    array of this shape, in the order of its memory (the last column's code changes fastest).

    >>> AnyCell(["age", "sex"], (3, 2), [5, 0, 5]).answer(np.array([[1, 2], [3, 4], [5, 6]]))
    array(7)
    """

    columns: Columns
    marginal: tuple[int, ...]
    places: tuple[int, ...]

    def __init__(
        self, columns: Iterable[str], marginal: Sequence[int], places: Iterable[int]
    ) -> None:
        given = tuple(columns)
        names, (levels,) = arrange(given, tuple(marginal))
        if names != given:
            raise WorkloadError("The columns of single cells must be in alphabetical order.")
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "marginal", tuple(index(n) for n in levels))
        object.__setattr__(self, "places", tuple(sorted({index(place) for place in places})))

    @classmethod
    def of(cls, columns: Columns, mask: np.ndarray) -> AnyCell:
        """The cells where a mask over the marginal is true."""
        return cls(columns, mask.shape, np.flatnonzero(mask).tolist())

    def __str__(self) -> str:
        return f"count in {len(self.places)} cells of ({', '.join(self.columns)})"

    def answer(self, counts: np.ndarray) -> np.ndarray:
        counts = as_counts(counts, len(self.columns))
        return np.asarray(counts.reshape(-1)[list(self.places)].sum())

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        cells = np.zeros(domain.cells(self.columns))
        cells[list(self.places)] = 1
        return cells.reshape(domain.shape(self.columns)) * values

    def validate(self, domain: Domain) -> None:
        check_columns(self.columns, domain)
        cells = domain.cells(self.columns)
        if self.marginal != domain.shape(self.columns) or any(
            not 0 <= place < cells for place in self.places
        ):
            raise WorkloadError(
                f"The cells of ({', '.join(self.columns)}) are not those of this schema, whose "
                f"marginal has {cells:,}."
            )
