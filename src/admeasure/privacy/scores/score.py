"""Scores for private selection, whose sensitivity holds in the computer's arithmetic.

The proof that choosing by a score costs rho needs `|score(D) - score(D')| <= sensitivity` for
neighbours D and D' in the numbers that the program computes, not only on paper. Sums of floating
point numbers do not give that: they round differently on D and on D'. So scores are integers.
Counts are integers already; whatever the model answers is rounded once, before it meets the
counts, to multiples of 1/GRID. From there on arithmetic is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from admeasure.errors import ResourceError
from admeasure.privacy.race import BlockScores
from admeasure.privacy.truth import Exact as Exact
from admeasure.privacy.truth import ExactAnswers
from admeasure.queries import Query
from admeasure.unit import Unit

GRID_BITS = 12
GRID = 1 << GRID_BITS
"""Model answers are kept to 1/4096 of a row."""

LARGEST = 2.0**37
"""Rows. With 12 bits of grid and 12 of weight a score stays below 2**63."""


def to_grid(answers: np.ndarray) -> np.ndarray:
    """Round a model's answers (counts) to the grid. Public: no private number is involved."""
    scaled = np.rint(np.asarray(answers, dtype=np.float64) * GRID)
    if not np.all(np.abs(scaled) < LARGEST * GRID):
        raise ResourceError("A model answer is not finite or beyond 2**37 rows.")
    return scaled.astype(np.int64)


def rounding(cells: int, total: float = math.inf) -> float:
    """Rows by which `to_grid` may move so many answers, all told. Rounding moves no answer by more
    than itself, so none that are not negative and add up to `total` by more than that.

    >>> rounding(8192), rounding(10**8), rounding(10**8, 5000.0)
    (1.0, 12207.03125, 5000.0)
    """
    return min(cells / (2 * GRID), total)


def fits_32_bits(total: float) -> bool:
    """Whether the errors of a model of so many rows fit 32-bit integers on the grid."""
    return 0 <= 2 * total * GRID < 2**31


class Score(Protocol):
    """How badly a query is answered: one integer for each thing that may be chosen."""

    def sensitivity(self, unit: Unit) -> int:
        """The most that any one integer can move between neighbours."""
        ...

    def of(self, query: Query, counts: np.ndarray) -> np.ndarray:
        """The scores of what `query` offers, from the exact counts of its marginal."""
        ...

    def chosen(self, query: Query, index: int) -> Query:
        """The query that the `index`-th of those scores stands for."""
        ...


@runtime_checkable
class ManyScore(Score, Protocol):
    """A score with one integer for each query, of many queries at once."""

    def of_many(self, queries: Sequence[Query], counts: Sequence[np.ndarray]) -> np.ndarray:
        """The scores of the queries, from the exact counts of their marginals."""
        ...


@dataclass(frozen=True, eq=False)
class Block:
    """Scores of some of what queries offer; those at the positions `without` are not on offer.

    `place` says of a position which query offers it, and as which of all that the query offers. It
    holds no scores: it is kept when they are gone.
    """

    scores: BlockScores
    place: Callable[[int], tuple[Query, int]]
    without: np.ndarray | None = None


@runtime_checkable
class StreamedScore(Protocol):
    """A score that is never held whole: for queries that offer more than memory does.

    The promise is that of `Score`: between neighbours no integer moves by more than `sensitivity`.
    What is not on offer must not depend on the table.
    """

    def sensitivity(self, unit: Unit) -> int:
        """The most that any one integer can move between neighbours."""
        ...

    def blocks(self, queries: Sequence[Query], exact: ExactAnswers) -> Iterator[Block]:
        """The scores of all that the queries offer, each once, from their exact answers."""
        ...

    def chosen(self, query: Query, index: int) -> Query:
        """The query that the `index`-th of those scores stands for."""
        ...
