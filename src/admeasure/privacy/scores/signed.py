"""Signed errors: queries that are answered too high, and negations of those answered too low.

DualQuery and FEM play with a query class that is closed under negation. The negation of "agrees
with a target in at least r of k columns" is "differs from it in at least k - r + 1", which is again
a counting query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from admeasure.privacy.scores.score import GRID, GRID_BITS, to_grid
from admeasure.queries import AtLeast, Query, Targets, WorkloadQuery
from admeasure.unit import Unit


@dataclass(frozen=True, eq=False)
class SignedError:
    """believed(q) - times · q(D), and its opposite for the negation of q; both in rows.

    `believed`: what has been answered, `times` answers together. With one answer that is how much
    too high it is; the negation's error is the opposite, because q and its negation count all rows
    between them. Sensitivity: q(D) moves by at most `unit.max_rows` between neighbours, so a score
    by at most `times · unit.max_rows`. Not monotone.
    """

    believed: Mapping[WorkloadQuery, np.ndarray]
    times: int = 1

    def sensitivity(self, unit: Unit) -> int:
        return self.times * unit.max_rows * GRID

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        asked = cast("Targets", query)
        true = self.times * (np.asarray(query.answer(counts), dtype=np.int64) << GRID_BITS)
        error = np.ravel(to_grid(self.believed[asked]) - true)
        return (
            np.concatenate([error, -error]) if _has_negation(asked, self._shape(asked)) else error
        )

    def chosen(self, query: Query, index: int) -> Query:
        asked = cast("Targets", query)
        shape = self._shape(asked)
        size = int(np.prod(shape))
        codes = [int(code) for code in np.unravel_index(index % size, shape)]
        return asked.cell(codes) if index < size else negation(asked, codes, shape)

    def _shape(self, query: Targets) -> tuple[int, ...]:
        return self.believed[query].shape


def _least(query: Targets) -> int:
    """In how many columns a row must differ from the target to be counted by the negation."""
    return len(query.columns) - query.at_least + 1


def _has_negation(query: Targets, shape: Sequence[int]) -> bool:
    """Whether any row can be counted by it: no row differs in a column of one level."""
    return sum(n > 1 for n in shape) >= _least(query)


def negation(query: Targets, codes: Sequence[int], shape: Sequence[int]) -> AtLeast:
    """Rows that the query's count of this target leaves out.

    >>> from admeasure.queries import Marginal
    >>> negation(Marginal(["a", "b"]), [0, 2], (2, 3))
    AtLeast(columns=('a', 'b'), codes=((1,), (0, 1)), at_least=1)
    """
    others = {
        column: [code for code in range(n) if code != target]
        for column, target, n in zip(query.columns, codes, shape, strict=True)
        if n > 1
    }
    return AtLeast(tuple(others), list(others.values()), _least(query))
