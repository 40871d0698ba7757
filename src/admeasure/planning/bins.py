"""Bins that are bought (`bins = "private"`).

A column is read on a fine public grid. A share of the budget buys noisy counts of all nodes of a
tree over it (`privacy.tree_counts`), which serve three times: bins are a cut of the estimated tree
(`planning.tree`), their counts join the first measurement of the column, and the shares of the
leaves say how values lie inside the bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from admeasure.domain import Domain
from admeasure.measurement import Measurement
from admeasure.planning import tree
from admeasure.planning.division import Item
from admeasure.planning.purchase import Purchase, in_words
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.tree_counts import TreeCounts
from admeasure.queries import Marginal
from admeasure.schema import Column, Schema
from admeasure.schema.fields import MOST_BINS
from admeasure.schema.ordered import Ordered
from admeasure.schema.private_bins import cut, hierarchy, inside_of, leaf_of, recoding
from admeasure.unit import Unit

FEWEST_BINS = 8
PAIR = 0.5
"""What a cell of a pair of columns should hold on average, in scales of its noise."""

NOTE = (
    "The bins of {names} were found from noisy counts, for a charge: they are protected, unlike "
    "the rest of the schema. No bound rests on these counts."
)
FORESEEN = (
    "Columns with private bins are counted as if they had {many}; a table whose values are heaped "
    "may have a few."
)


@dataclass(frozen=True)
class PrivateBins:
    """A column on its fine grid, cut where a noisy tree says."""

    share: Fraction = Fraction(1, 10)
    delta_share: Fraction = Fraction(0)
    note: str = NOTE

    def sells(self, column: Column) -> bool:
        return isinstance(column, Ordered)

    def item(self, column: Column, schema: Schema, cost: Cost) -> Item:
        assert isinstance(column, Ordered)
        counts = TreeCounts(column.name, schema.as_read.domain, hierarchy(column))
        return Item(str(counts), cost, cost.sigma(counts.l2_squared(schema.unit)))

    def foreseen(self, schema: Schema, items: Sequence[Item], likely: Mapping[str, int]) -> str:
        if not likely:
            return FORESEEN.format(many="the most bins that they may come to have")
        return FORESEEN.format(many=f"as many bins as can hold enough rows ({in_words(likely)})")

    def likely(self, column: Column, schema: Schema, budget: Cost, item: Item, rows: int) -> int:
        """A bin is divided where it holds more than its share and more than noise would."""
        wanted = self.bins(rows, budget, schema.domain, schema.unit)
        return min(column.regular, 1 + int(min(wanted, rows / (tree.EVIDENCE * item.noise))))

    def buy(self, curator: Curator, column: Column, cost: Cost) -> Purchase:
        assert isinstance(column, Ordered)
        counts = TreeCounts(column.name, curator.domain, hierarchy(column))
        noisy = curator.statistic(counts, cost)
        divided = counts.divided(noisy.values)
        found = tree.estimate(
            counts.levels,
            divided,
            noisy.sigma,
            unbounded=(column.minimum is None, column.maximum is None),
            centre=leaf_of(column, 0),
        )
        wanted = self.bins(found.total, curator.budget, curator.domain, curator.unit)
        made = cut(column, found.cut(wanted))
        others = noisy.values[len(noisy.values) - (made.levels - made.regular) :]
        starts = np.flatnonzero(np.diff(recoding(column.as_read(), made), prepend=-1))
        held = np.append(np.add.reduceat(found.leaves, starts[: made.regular]), others)
        return Purchase(
            made,
            inside_of(
                column, found.leaves, tree.least_squares(counts.levels, divided), noisy.sigma
            ),
            Measurement(Marginal((column.name,)), held, noisy.sigma),
        )

    def bins(self, rows: float, budget: Cost, domain: Domain, unit: Unit) -> int:
        """K: so many that a cell of a pair of columns with as many bins each stands out of the
        noise."""
        sigma = pair_sigma(budget, self.share, domain, unit)
        wanted = math.sqrt(max(0.0, rows) / (PAIR * sigma))
        return int(min(max(wanted, FEWEST_BINS), (MOST_BINS - 1) // 2))


def pair_sigma(budget: Cost, share: Fraction, domain: Domain, unit: Unit) -> float:
    """The noise of a pair of columns, if half of what the mechanism has besides this share is
    divided among pairs, one for each column."""
    left = budget.without_delta * (1 - share) / (2 * len(domain))
    return left.sigma(unit.marginal_l2_squared)
