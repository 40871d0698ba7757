"""Rows whose marginals are as close to a model's answers as whole rows allow.

Down the tree, node by node, rows that agree on the separator form a group, and the node's new
attributes are shared out inside each group:

1. How many rows get each value: systematic sampling of the conditional table with one random
   offset a group, so every count is its expectation rounded down or up, and unbiased.
2. Which rows get it: the group is put in the order of the columns drawn before, coarse columns
   first, rows with equal codes in random order, and each value's rows are drawn one from each of
   as many equal stretches of that order. Columns of different branches are then spread evenly over
   each other, as independence given the separator asks, with less chance variation than a shuffle
   has. Every place inside its stretch is drawn anew, so that no pattern of the order can line up
   with a value: columns with a common parent are never tied to each other.

A cell with expected count 0.0, such as a structural zero, is in no row.
"""

from __future__ import annotations

import numpy as np

from admeasure.families.graphical.inference.calibration import Beliefs
from admeasure.families.graphical.structure.junction_tree import cells_of


def sample(beliefs: Beliefs, rows: int, rng: np.random.Generator) -> np.ndarray:
    """(rows, attributes) codes, in the smallest unsigned type that holds them."""
    tree = beliefs.tree
    levels = tree.levels
    codes = np.zeros((rows, len(levels)), dtype=np.min_scalar_type(max(levels) - 1))
    drawn: list[int] = []
    visits = [(0, ()), *((edge.child, edge.separator) for edge in tree.edges)]
    for position, separator in visits:
        node = tree.nodes[position]
        own = [a for a in node if a not in separator]
        order = [node.index(a) for a in (*separator, *own)]
        table = beliefs.tables[position].transpose(order)
        table = table.reshape(cells_of(levels, separator), -1)
        group = np.zeros(rows, dtype=np.int64)
        for a in separator:
            group = group * levels[a] + codes[:, a]
        others = sorted((a for a in drawn if a not in separator), key=lambda a: (levels[a], a))
        value = _share_out(table, group, [codes[:, a] for a in others], rng)
        for a in reversed(own):
            codes[:, a] = value % levels[a]
            value //= levels[a]
        drawn += own
    return codes


def _share_out(
    table: np.ndarray, group: np.ndarray, others: list[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """One column of `table` for every row, given the row of `table` (its group)."""
    rows = len(group)
    sizes = np.bincount(group, minlength=len(table))
    used = np.flatnonzero(sizes)
    counts = _round(table[used], sizes[used], rng)
    place, value = np.nonzero(counts)
    count = counts[place, value]
    # The k-th of a value's c rows lies somewhere in the k-th of c equal stretches of the group.
    k = np.arange(rows) - np.repeat(np.cumsum(count) - count, count)
    within = (k + rng.random(rows)) / np.repeat(count, count)
    values = np.repeat(value, count)[np.lexsort((within, np.repeat(place, count)))]
    order = np.lexsort((rng.random(rows), *reversed(others), group))
    shared = np.empty(rows, dtype=np.int64)
    shared[order] = values
    return shared


def _round(table: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whole counts that add up to `sizes` in each row, each its expectation rounded up or down."""
    edges = np.cumsum(table, axis=1)
    edges *= (sizes / edges[:, -1])[:, None]
    edges += rng.random(len(sizes))[:, None]
    np.floor(edges, out=edges)
    # Rounding must not push a row's last unit into a cell of probability 0 behind its last one.
    last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    ended = np.arange(table.shape[1]) >= last[:, None]
    edges = np.where(ended, sizes[:, None], np.minimum(edges, sizes[:, None]))
    return np.diff(edges, axis=1, prepend=0).astype(np.int64)
