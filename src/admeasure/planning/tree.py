"""From noisy counts of a tree's nodes to counts of its leaves, and to bins.

Every level of the tree was measured with noise of one scale. Upwards, each node's own count is
averaged with the sum of its children, by precision; these are the least squares estimates of the
subtrees (Hay, Rastogi, Miklau and Suciu 2010, Theorem 3, here for any number of children).
Downwards, the children of a node are made to add up to it, the less precise moved the more, and to
be no less than zero. Without the latter this is the least squares estimate of the whole tree.

Where a column has no bound, its grid goes further than any table does: there nothing is believed
beyond the last node that holds more than noise would.

Bins are a cut of the tree: a node is divided while it holds more than an even share, and more than
noise would. Everything here is computed from what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Levels = Sequence[np.ndarray]

EVIDENCE = 4.0
"""How many times the scale of its noise a node must hold to be no work of noise."""

EVEN = 2.0
"""The same for its children to be told apart."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Estimated counts of every node, level by level, the leaves last.

    `levels`: of each level the first leaf of every node. `sigma`: the scale of the noise that was
    in every count.
    """

    levels: Levels
    counts: Sequence[np.ndarray]
    sigma: float

    @property
    def total(self) -> float:
        return float(self.counts[0].sum())

    @property
    def leaves(self) -> np.ndarray:
        return self.counts[-1]

    def cut(self, bins: float) -> list[int]:
        """The first leaf of each bin. A node is divided while it holds more than one of so many
        even shares, and more than noise would; neighbours that hold no more than that together are
        then one bin, and so is an empty node with the one beside it. So there are at most
        2 * bins + 1, and none is empty if any row is anywhere."""
        most = max(self.total / bins, EVIDENCE * self.sigma)
        starts, held = self._divided(most)
        found, filled = [0], held[0]
        for start, count in zip(starts[1:], held[1:], strict=True):
            if filled and count and filled + count > most:
                found.append(start)
                filled = 0.0
            filled += count
        return found

    def _divided(self, most: float) -> tuple[list[int], list[float]]:
        """The first leaves and the counts of the nodes that are not divided further."""
        found, nodes = [], np.arange(len(self.levels[0]))
        for i, first in enumerate(self.levels):
            counts = self.counts[i][nodes]
            deeper = (counts > most) & (i + 1 < len(self.levels))
            found += zip(first[nodes[~deeper]].tolist(), counts[~deeper].tolist(), strict=True)
            if not deeper.any():
                break
            lower = self.levels[i + 1]
            below = [*_children(first, lower).tolist(), len(lower)]
            divided = nodes[deeper].tolist()
            nodes = np.concatenate([np.arange(below[n], below[n + 1]) for n in divided])
        starts, held = zip(*sorted(found), strict=True)
        return list(starts), list(held)


def estimate(
    levels: Levels,
    noisy: Sequence[np.ndarray],
    sigma: float,
    *,
    unbounded: tuple[bool, bool] = (False, False),
    centre: int = 0,
) -> Tree:
    """Counts that are no less than zero and add up, to one row at least, from noisy ones. On a side
    without a bound they end where the evidence does; where there is none, at the leaf `centre`."""
    below, variances = subtrees(levels, noisy, sigma)
    low, high = reach(levels, below, variances) if any(unbounded) else (0, len(levels[-1]))
    if low >= high:
        low, high = centre, centre + 1
    low, high = low if unbounded[0] else 0, high if unbounded[1] else len(levels[-1])
    groups, masses = np.array([0]), np.array([max(1.0, float(below[0].sum()))])
    counts: list[np.ndarray] = []
    for i, (z, v) in enumerate(zip(below, variances, strict=True)):
        if i:
            groups, masses = _children(levels[i - 1], levels[i]), counts[-1]
        ends = _ends(levels[i], levels)
        inside = np.maximum(0, np.minimum(ends, high) - np.maximum(levels[i], low))
        divided = projected(z, v, groups, masses, inside > 0)
        counts.append(divided if not i else _told(divided, groups, masses, inside, sigma))
    return Tree(levels, counts, sigma)


def _told(
    divided: np.ndarray, groups: np.ndarray, masses: np.ndarray, inside: np.ndarray, sigma: float
) -> np.ndarray:
    """The children's counts where a node holds more than noise would; of one that does not, its
    children have even parts by their leaves, since what noise left of them says less than that."""
    leaves = np.add.reduceat(inside, groups)
    owner = np.repeat(np.arange(len(groups)), np.diff(np.append(groups, len(divided))))
    even = masses[owner] * inside / np.maximum(leaves, 1)[owner]
    return np.where((masses > EVEN * sigma)[owner], divided, even)


def reach(levels: Levels, z: Sequence[np.ndarray], v: Sequence[np.ndarray]) -> tuple[int, int]:
    """The first leaf, and the one after the last, of what holds more than noise would: of the
    outermost such node, of its outermost such child, and so on. None where there is no such
    node."""
    evident = [a > EVIDENCE * np.sqrt(b) for a, b in zip(z, v, strict=True)]
    found = []
    for outermost in (0, -1):
        low, high = 0, 0
        for first, there in zip(levels, evident, strict=True):
            ends = _ends(first, levels)
            inside = there & (first >= low) & (ends <= (high or ends[-1]))
            if not inside.any():
                break
            node = np.flatnonzero(inside)[outermost]
            low, high = int(first[node]), int(ends[node])
        found.append((low, high))
    return found[0][0], found[1][1]


def subtrees(
    levels: Levels, noisy: Sequence[np.ndarray], sigma: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of every node the least squares estimate from itself and what is below, and its variance.
    Nodes are the last axis."""
    estimates = [np.asarray(noisy[-1], dtype=float)]
    variances = [np.full(len(levels[-1]), sigma**2)]
    for i in range(len(levels) - 2, -1, -1):
        groups = _children(levels[i], levels[i + 1])
        sums, spread = (np.add.reduceat(a[0], groups, axis=-1) for a in (estimates, variances))
        variances.insert(0, 1 / (1 / sigma**2 + 1 / spread))
        estimates.insert(0, variances[0] * (noisy[i] / sigma**2 + sums / spread))
    return estimates, variances


def least_squares(levels: Levels, noisy: Sequence[np.ndarray]) -> np.ndarray:
    """Counts of leaves that come nearest to the noisy counts of all nodes, below zero where these
    say so: without bias. Nodes are the last axis.

    With A the sums of leaves at every node it is (AᵀA)⁻¹ Aᵀ y; so numbers w at the leaves and zeros
    elsewhere give (AᵀA)⁻¹ w, and w times that is the variance of w times the counts, in squared
    scales of the noise.
    """
    below, variances = subtrees(levels, noisy, 1.0)
    found = below[0]
    for i in range(1, len(levels)):
        groups, z, v = _children(levels[i - 1], levels[i]), below[i], variances[i]
        owner = np.repeat(np.arange(len(groups)), np.diff(np.append(groups, len(v))))
        over = (np.add.reduceat(z, groups, axis=-1) - found) / np.add.reduceat(v, groups)
        found = z - over[..., owner] * v
    return found


def projected(
    z: np.ndarray,
    variances: np.ndarray,
    groups: np.ndarray,
    masses: np.ndarray,
    within: np.ndarray,
) -> np.ndarray:
    """The nearest numbers to z, distances weighted by precision, that are no less than zero, add up
    to each group's mass and are zero where not `within`; groups begin at `groups`. Those that would
    fall below zero are left out until none does (Michelot 1986)."""
    owner = np.repeat(np.arange(len(groups)), np.diff(np.append(groups, len(z))))
    kept = within & (masses[owner] > 0)
    while True:
        over = np.add.reduceat(np.where(kept, z, 0.0), groups) - masses
        spread = np.add.reduceat(np.where(kept, variances, 0.0), groups)
        moved = z - (over / np.where(spread > 0, spread, 1.0))[owner] * variances
        fallen = kept & (moved < 0)
        if not fallen.any():
            return np.where(kept, moved, 0.0)
        kept &= ~fallen


def _children(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Where the children of each upper node begin among the lower nodes."""
    return np.searchsorted(lower, upper)


def _ends(first: np.ndarray, levels: Levels) -> np.ndarray:
    """The leaf after the last of each node of a level."""
    return np.append(first[1:], len(levels[-1]))
