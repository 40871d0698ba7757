"""Levels of a hierarchy that are bought (`levels_of` with `enum = "private"`).

A column is read by its codes. A share of the budget buys noisy counts of all codes and groups
(`privacy.tree_counts`), which serve three times, as those of private bins do: levels are names of
the hierarchy that hold enough (`Hierarchy.cut`), their counts join the first measurement of the
column, and the shares of codes say how rows lie inside levels.
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
from admeasure.planning.bins import pair_sigma
from admeasure.planning.division import Item
from admeasure.planning.purchase import Purchase, in_words
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.tree_counts import TreeCounts
from admeasure.queries import Marginal
from admeasure.schema import Column, Schema
from admeasure.schema.categorical import StringColumn
from admeasure.schema.fields import MOST_BINS
from admeasure.schema.hierarchy import MOST_CUT, Hierarchy
from admeasure.schema.inside import Inside
from admeasure.unit import Unit

NOTE = (
    "The levels of {names} were chosen in their public hierarchies from noisy counts, for a "
    "charge: which they are is protected, unlike the rest of the schema. No bound rests on these "
    "counts."
)
FORESEEN = "Columns with a hierarchy (levels_of) are counted as if they had {many}."


@dataclass(frozen=True)
class PrivateGroups:
    """A column of codes, cut where noisy counts of its hierarchy say."""

    share: Fraction = Fraction(1, 10)
    delta_share: Fraction = Fraction(0)
    note: str = NOTE
    most: int = MOST_CUT

    def sells(self, column: Column) -> bool:
        return isinstance(column, StringColumn) and not column.is_sought

    def item(self, column: Column, schema: Schema, cost: Cost) -> Item:
        counts = self._counts(column, schema.as_read.domain)
        return Item(str(counts), cost, cost.sigma(counts.l2_squared(schema.unit)))

    def _counts(self, column: Column, domain: Domain) -> TreeCounts:
        return TreeCounts(column.name, domain, _hierarchy(column).levels, "levels")

    def foreseen(self, schema: Schema, items: Sequence[Item], likely: Mapping[str, int]) -> str:
        if not likely:
            return FORESEEN.format(many="the most levels that they may come to have")
        return FORESEEN.format(many=f"as many levels as can hold enough rows ({in_words(likely)})")

    def likely(self, column: Column, schema: Schema, budget: Cost, item: Item, rows: int) -> int:
        read = schema.as_read.domain
        least = self.least(column, rows, item.noise, budget, read, schema.unit)
        return min(column.regular, math.ceil(rows / least) + len(_hierarchy(column).tops))

    def buy(self, curator: Curator, column: Column, cost: Cost) -> Purchase:
        assert isinstance(column, StringColumn)
        hierarchy, counts = _hierarchy(column), self._counts(column, curator.domain)
        noisy = curator.statistic(counts, cost)
        divided = counts.divided(noisy.values)
        found = tree.estimate(counts.levels, divided, noisy.sigma)
        least = self.least(
            column, found.total, noisy.sigma, curator.budget, curator.domain, curator.unit
        )
        made = column.cut(hierarchy.cut(found.leaves, least))
        assert made.of_held is not None
        held = np.bincount(made.of_held, found.leaves)
        others = noisy.values[len(noisy.values) - (made.levels - made.regular) :]
        spread = level_variances(counts.levels, made.of_held)
        unbiased = tree.least_squares(counts.levels, divided)
        return Purchase(
            made,
            Inside(np.arange(len(found.leaves)), found.leaves, unbiased, noisy.sigma),
            Measurement(
                Marginal((column.name,)),
                np.append(held, others),
                noisy.sigma * math.sqrt(float(np.mean(spread))),
            ),
        )

    def least(
        self, column: Column, rows: float, sigma: float, budget: Cost, domain: Domain, unit: Unit
    ) -> float:
        """What a level must hold: more than an even share of the most levels, more than noise of
        its count would, and so much that its cells with another column hold more than theirs."""
        others = [min(domain[c], MOST_BINS) for c in domain.columns if c != column.name]
        cells = float(np.mean(others)) if others else 0.0
        noise = max(sigma, cells * pair_sigma(budget, self.share, domain, unit))
        return max(rows / self.most, tree.EVIDENCE * noise)


def level_variances(levels: tree.Levels, of_leaves: np.ndarray) -> np.ndarray:
    """The variance of the least squares count of each level, in squared scales of the noise: a
    group without the levels inside it has the noise of all of them."""
    above = [np.zeros(len(level)) for level in levels[:-1]]
    chosen = (of_leaves == level for level in range(of_leaves.max() + 1))
    return np.array([tree.least_squares(levels, [*above, one]) @ one for one in chosen])


def _hierarchy(column: Column) -> Hierarchy:
    assert isinstance(column, StringColumn)
    assert column.hierarchy is not None
    return column.hierarchy
