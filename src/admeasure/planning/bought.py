"""A domain that is bought: charged steps decide it, and the mechanism runs on what they found.

Columns with `bins = "private"` are read on a fine public grid. A share of the budget buys noisy
counts of each column's fine cells (`privacy.fine_counts`), from which about equally full bins are
cut; the mechanism has the rest of the budget, and a curator that sees the bins and nothing finer.
What a run asks for before the bins are known (workload, mechanism, memory, plan) is checked with
the most bins that a column can come to have.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from admeasure.planning.division import Item
from admeasure.planning.mechanism import Mechanism, Outcome
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.fine_counts import FineCounts
from admeasure.schema import Schema
from admeasure.schema.ordered import MOST_BINS
from admeasure.schema.private_bins import cut, fine
from admeasure.workload import Workload

BINS_SHARE = Fraction(1, 20)
"""Of the budget, for the bins of all open columns together."""


NOTE = (
    "The bins of {names} were found from noisy counts, for a charge: they are protected, unlike "
    "the rest of the schema."
)


def divide(schema: Schema, budget: Cost) -> tuple[tuple[Item, ...], Cost]:
    """An item for each column whose bins are bought, and what that leaves for the mechanism."""
    if not schema.open_columns:
        return (), budget
    domain = fine(schema).domain
    each = budget * BINS_SHARE / len(schema.open_columns)
    items = []
    for column in schema.open_columns:
        counts = FineCounts(column.name, domain)
        items.append(Item(str(counts), each, each.sigma(counts.l2_squared(schema.unit))))
    return tuple(items), budget - budget * BINS_SHARE


def run(
    mechanism: Mechanism, curator: Curator, workload: Workload, schema: Schema
) -> tuple[Schema, Outcome]:
    """Buy what is open of the schema, then run the mechanism; the schema of its outcome.

    The curator's source reads the table by `fine(schema)`.
    """
    if not schema.open_columns:
        return schema, mechanism.run(curator, workload, schema.zeros)
    found = find(curator, schema)
    outcome = mechanism.run(curator.recoded(found), workload, found.zeros)
    names = ", ".join(column.name for column in schema.open_columns)
    return found, replace(outcome, notes=(*outcome.notes, NOTE.format(names=names)))


def find(curator: Curator, schema: Schema) -> Schema:
    """The schema with bins for its open columns, each bought for its share."""
    items, _ = divide(schema, curator.budget)
    cells = {}
    for column, item in zip(schema.open_columns, items, strict=True):
        noisy = curator.statistic(FineCounts(column.name, curator.domain), item.cost)
        regular = len(noisy.values) - column.other - (column.missing_values is not None)
        cells[column.name] = equal_masses(noisy.values[:regular], noisy.sigma)
    return cut(schema, cells)


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
