"""Few joint tables that many marginals can be summed from.

Counting rows costs a pass over them for each table, and summing a small joint table costs next to
nothing. So marginals that fit together in one small joint are counted once, as that joint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from admeasure.domain import Columns, Domain

T = TypeVar("T")

BATCH = 4096
"""Targets planned at a time, which bounds the cost of planning."""


def homes(
    domain: Domain, marginals: Sequence[Columns], max_cells: int, batch: int = BATCH
) -> dict[Columns, Columns]:
    """For each marginal a joint (columns in alphabetical order) that contains it. A joint of
    several marginals has at most `max_cells` cells."""
    order = sorted(domain.columns)
    rank = {column: i for i, column in enumerate(order)}
    ranks = {columns: tuple(sorted(rank[c] for c in columns)) for columns in marginals}
    targets = sorted(set(ranks.values()) - {()})  # neighbours share their first columns
    levels = np.array([domain[c] for c in order], np.float64)
    found: dict[tuple[int, ...], tuple[int, ...]] = {(): ()}
    for start in range(0, len(targets), batch):
        found |= _cover(targets[start : start + batch], levels, max_cells)
    return {columns: tuple(order[i] for i in found[target]) for columns, target in ranks.items()}


def _cover(
    targets: Sequence[tuple[int, ...]], levels: np.ndarray, max_cells: int
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Greedy: grow the largest target that has no joint yet by the columns that complete most
    others, as long as the joint stays small."""
    used = np.array(sorted({i for target in targets for i in target}))
    size = {t: math.prod(levels[list(t)]) for t in targets}
    waiting = sorted(targets, key=lambda t: -size[t])
    has = np.zeros((len(waiting), len(used)), bool)
    for row, target in zip(has, waiting, strict=True):
        row[np.searchsorted(used, target)] = True
    levels = levels[used]
    price = np.sqrt(np.log(np.maximum(levels, 2)))
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    while waiting:
        joint, cells = has[0].copy(), size[waiting[0]]
        while (room := ~joint & (levels * cells <= max_cells)).any():
            lacking = has & ~joint
            completes = lacking[lacking.sum(axis=1) == 1].sum(axis=0) * room
            best = int(np.argmax(completes / price))
            if not completes[best]:
                break
            joint[best] = True
            cells *= levels[best]
        columns = tuple(int(i) for i in used[joint])
        open_ones = (has & ~joint).any(axis=1)
        found |= {t: columns for t, still in zip(waiting, open_ones, strict=True) if not still}
        waiting = [t for t, still in zip(waiting, open_ones, strict=True) if still]
        has = has[open_ones]
    return found


def summed(table: np.ndarray, joint: Columns, columns: Columns) -> np.ndarray:
    """The marginal on `columns`, axes in their order, of a joint's table."""
    drop = tuple(i for i, c in enumerate(joint) if c not in columns)
    kept = [c for c in joint if c in columns]
    return table.sum(axis=drop).transpose([kept.index(c) for c in columns])


def batches(
    items: Iterable[T], cells: Callable[[T], int], most_cells: int, most: float = math.inf
) -> Iterator[list[T]]:
    """Neighbours in groups of at most `most_cells` cells, or of one; at most `most` in each."""
    batch: list[T] = []
    held = 0
    for item in items:
        size = cells(item)
        if batch and (held + size > most_cells or len(batch) >= most):
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += size
    if batch:
        yield batch
