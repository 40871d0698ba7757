"""What a junction tree can take, one clique after another, within a limit on its whole size.

`JunctionTree.grown` makes of all that was taken a tree that is no larger than the one carried along
here, so what is taken fits. Nothing here sees data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, cells_of


class Room:
    """Which candidates still fit a tree that takes some of them."""

    def __init__(self, tree: JunctionTree, candidates: Sequence[Clique], limit: float) -> None:
        self._tree, self._candidates, self._limit = tree, candidates, limit  # in cells
        levels = np.array(tree.levels, dtype=float)
        sizes = np.array([len(c) for c in candidates])
        self._pairs, self._others = np.flatnonzero(sizes == 2), np.flatnonzero(sizes != 2)
        ends = [c for c in candidates if len(c) == 2]
        self._ends = np.array(ends, dtype=np.intp).reshape(-1, 2)
        self._own, self._spread = np.empty(len(candidates)), np.empty(len(candidates))
        """Cells of each, and of each without its largest attribute."""
        pairs = levels[self._ends]
        self._own[self._pairs], self._spread[self._pairs] = pairs.prod(axis=1), pairs.min(axis=1)
        for i in self._others.tolist():
            own = cells_of(tree.levels, candidates[i])
            largest = max((tree.levels[a] for a in candidates[i]), default=1)
            self._own[i], self._spread[i] = own, own / largest

    def left(self) -> np.ndarray:
        """For each candidate, whether the tree stays within the limit with it, or holds it."""
        # All nodes grown by all attributes but the largest: most often there is room for that.
        fits = (self._own + self._tree.cells * self._spread) * (1 + 1e-12) <= self._limit
        if fits.all():
            return fits
        gain = self._tree.gains[self._ends[:, 0], self._ends[:, 1]]
        sizes = self._tree.cells + np.where(np.isinf(gain), self._own[self._pairs], gain)
        fits[self._pairs] |= (sizes * (1 + 1e-12) <= self._limit) | (gain == 0)
        others = [i for i in self._others.tolist() if not fits[i]]
        large = [i for i in others if not self._tree.contains(self._candidates[i])]
        fits[others] = True
        if large:
            some = [self._candidates[i] for i in large]
            fits[large] = self._tree.sizes_with(some, self._limit, triangulate=False) <= self._limit
        return fits

    def take(self, place: int) -> None:
        self._tree = self._tree.carrying(self._candidates[place])
