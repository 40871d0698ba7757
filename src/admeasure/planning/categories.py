"""Categories that are bought (`enum = "private"`).

A text is a level if so many units hold it that their noisy number passes a threshold
(`privacy.found_levels`); whatever else a row holds is `other`. The threshold is so high that a text
which one unit alone holds passes it with no more than the column's share of delta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from admeasure.planning.division import Item
from admeasure.planning.purchase import Purchase
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.found_levels import FoundLevels
from admeasure.schema import Column, Schema
from admeasure.schema.categorical import StringColumn
from admeasure.schema.found_levels import MOST_FOUND, with_levels

NOTE = (
    "The levels of {names} were found in the table, for a charge: which they are is protected, "
    "unlike the rest of the schema, but for a probability that delta counts. What is not found is "
    "`other`."
)


@dataclass(frozen=True)
class PrivateCategories:
    """A column whose levels are the texts that many hold."""

    share: Fraction = Fraction(1, 20)
    delta_share: Fraction = Fraction(1, 10)
    note: str = NOTE

    def sells(self, column: Column) -> bool:
        return column.is_sought

    def item(self, column: Column, schema: Schema, cost: Cost) -> Item:
        levels = FoundLevels(column.name)
        return Item(str(levels), cost, levels.sigma(schema.unit, cost))

    def foreseen(self, schema: Schema, items: Sequence[Item], likely: Mapping[str, int]) -> str:
        unit, cost, many = schema.unit, items[0].cost, max(likely.values(), default=MOST_FOUND)
        levels, names = FoundLevels(""), ", ".join(i.what.removeprefix("levels of ") for i in items)
        return (
            f"A level of {names} is found where a noisy number of units ({unit.name}) that hold it "
            f"is at least {levels.threshold(unit, cost):,}. One that {levels.needed(unit, cost):,} "
            "hold is found with a probability of at least 95%, one that a single unit holds with "
            f"at most {float(cost.delta_share):.3g}. A codebook (`enum = […]`) is better and free. "
            f"These columns are counted as if {many} levels were found."
        )

    def likely(self, column: Column, schema: Schema, budget: Cost, item: Item, rows: int) -> int:
        """As many as can be held by enough units, if each has all of its rows."""
        enough = FoundLevels("").needed(schema.unit, item.cost)
        return min(MOST_FOUND, max(1, rows // enough))

    def buy(self, curator: Curator, column: Column, cost: Cost) -> Purchase:
        assert isinstance(column, StringColumn)
        return Purchase(with_levels(column, curator.find(FoundLevels(column.name), cost)))
