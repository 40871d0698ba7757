"""Bins that are bought (`bins = "private"`).

A column is read on a fine public grid. A share of the budget buys noisy counts of its fine cells
(`privacy.fine_counts`), from which about equally full bins are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from admeasure.planning.division import Item
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.fine_counts import FineCounts
from admeasure.schema import Column, Schema
from admeasure.schema.ordered import MOST_BINS, Ordered
from admeasure.schema.private_bins import cut

NOTE = (
    "The bins of {names} were found from noisy counts, for a charge: they are protected, unlike "
    "the rest of the schema."
)
FORESEEN = (
    "Columns with private bins are counted as if they had the most bins that they may come to have."
)


@dataclass(frozen=True)
class PrivateBins:
    """A column on its fine grid, cut where noisy counts say."""

    share: Fraction = Fraction(1, 20)
    delta_share: Fraction = Fraction(0)

    def sells(self, column: Column) -> bool:
        return isinstance(column, Ordered)

    def item(self, column: Column, schema: Schema, cost: Cost) -> Item:
        counts = FineCounts(column.name, schema.as_read.domain)
        return Item(str(counts), cost, cost.sigma(counts.l2_squared(schema.unit)))

    def foreseen(self, schema: Schema, items: Sequence[Item]) -> str:
        return FORESEEN

    def buy(self, curator: Curator, column: Column, cost: Cost) -> Column:
        assert isinstance(column, Ordered)
        noisy = curator.statistic(FineCounts(column.name, curator.domain), cost)
        regular = len(noisy.values) - column.other - (column.missing_values is not None)
        return cut(column, equal_masses(noisy.values[:regular], noisy.sigma))

    def note(self, names: str) -> str:
        return NOTE.format(names=names)


def equal_masses(noisy: np.ndarray, sigma: float, most: int = MOST_BINS) -> list[int]:
    """Where bins begin so that they are about equally full, the first at 0: at most `most`.

    Counts that noise alone may have made are taken as none: the sum of the others is divided into
    most / 2 parts, and a bin ends with the cell in which a part ends. A cell that is a part or more
    by itself (a heap of round numbers) begins a bin, too.

    >>> equal_masses(np.array([0, 5, 0, 0, 5, 90, 5, 0, 5]), sigma=0.1, most=8)
    [0, 5, 6]
    """
    mass = np.where(noisy > 2 * sigma, noisy, 0).astype(float)
    total = mass.sum()
    if total == 0:
        return [0]
    parts = most // 2
    done = np.floor(np.cumsum(mass) * parts / total + 1e-9)
    ending = np.flatnonzero((np.diff(done, prepend=0.0) > 0) & (done < parts))
    heaps = np.flatnonzero(mass * parts >= total)
    return sorted({0, *(ending + 1).tolist(), *heaps.tolist()})
