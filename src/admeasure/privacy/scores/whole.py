"""Scores of the papers, in exact integers (see `admeasure.privacy.scores.score`).

For both scores the argument is the same. `counts` is the integer table M_r(D), `e` the model's
answer on the grid, fixed by what was released before. Between neighbours M_r changes by at most
`unit.rows_changed` in L1 and by at most `unit.max_rows` in any one cell, so by the triangle
inequality |M_r(D) - e| changes by no more. Multiplying by a whole weight multiplies that bound.
Neither score is monotone: an added row can bring a table closer to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import ResourceError
from admeasure.privacy.scores.score import GRID, GRID_BITS, LARGEST, to_grid
from admeasure.queries import Query, WorkloadQuery
from admeasure.unit import Unit

WEIGHT_GRID = 1 << 12
"""The largest weight of a round as a whole number; the others are rounded relative to it."""


@dataclass(frozen=True, eq=False)
class MarginalError:
    """w_r (||M_r(D) - M_r(model)||_1 - b_r): one score for each whole marginal.

    `answers`: M_r(model), in rows. `penalty`: b_r, in rows. `weights`: w_r, of the round's
    candidates and no others, since their maximum is the sensitivity; None weighs all alike.
    """

    answers: Mapping[Columns, np.ndarray]
    penalty: Mapping[Columns, float]
    weights: Mapping[Columns, float] | None = None

    def weight(self, columns: Columns) -> int:
        """The weight as a whole number, the largest being `WEIGHT_GRID`."""
        if self.weights is None:
            return 1
        return max(1, round(self.weights[columns] / self._largest * WEIGHT_GRID))

    @cached_property
    def _largest(self) -> float:
        assert self.weights is not None
        return max(self.weights.values())

    def sensitivity(self, unit: Unit) -> int:
        return unit.rows_changed * GRID * (1 if self.weights is None else WEIGHT_GRID)

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        return self.of_many([query], [counts])

    def of_many(self, queries: Sequence[Query], counts: Sequence[np.ndarray]) -> np.ndarray:
        sets = [query.columns for query in queries]
        believed = to_grid(np.concatenate([np.ravel(self.answers[r]) for r in sets]))
        sizes = [table.size for table in counts]
        starts = np.cumsum([0, *sizes[:-1]])
        # Beyond this the sum below could pass 63 bits and wrap around, differently for neighbours.
        sums = np.add.reduceat(np.abs(believed).astype(np.float64), starts)
        if (sums >= LARGEST * GRID).any():
            raise ResourceError("A model's answers to one marginal add up to more than 2**37 rows.")
        exact = np.concatenate([np.ravel(table) for table in counts])
        distances = np.add.reduceat(np.abs((exact << GRID_BITS) - believed), starts)
        penalties = [round(min(self.penalty[r], LARGEST) * GRID) for r in sets]
        weights = [self.weight(r) for r in sets]
        return np.array(weights, np.int64) * (distances - np.array(penalties, np.int64))

    def chosen(self, query: Query, index: int) -> Query:
        return query


@dataclass(frozen=True, eq=False)
class LargestError:
    """max_x |M_r(D)(x) - M_r(model)(x)|: one score for each whole marginal, by its worst cell.

    No cell moves by more than `unit.max_rows` between neighbours, so neither does the largest.
    """

    answers: Mapping[Columns, np.ndarray]

    def sensitivity(self, unit: Unit) -> int:
        return unit.max_rows * GRID

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        believed = to_grid(self.answers[query.columns])
        return np.array([int(np.abs((counts << GRID_BITS) - believed).max())])

    def chosen(self, query: Query, index: int) -> Query:
        return query


@dataclass(frozen=True, eq=False)
class CellError:
    """|q(D) - q(model)|: one score for each cell of each candidate marginal or threshold."""

    answers: Mapping[WorkloadQuery, np.ndarray]

    def sensitivity(self, unit: Unit) -> int:
        return unit.max_rows * GRID

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        believed = self.answers[cast("WorkloadQuery", query)]
        return np.abs((query.answer(counts) << GRID_BITS) - to_grid(believed))

    def chosen(self, query: Query, index: int) -> Query:
        asked = cast("WorkloadQuery", query)
        codes = np.unravel_index(index, self.answers[asked].shape)
        return asked.cell([int(code) for code in codes])
