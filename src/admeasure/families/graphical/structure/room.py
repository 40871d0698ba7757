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
        levels = tree.levels
        self._own = np.array([cells_of(levels, c) for c in candidates], dtype=float)
        largest = [max((levels[a] for a in c), default=1) for c in candidates]
        self._spread = self._own / np.array(largest, dtype=float)

    def left(self) -> np.ndarray:
        """For each candidate, whether the tree stays within the limit with it, or holds it."""
        # All nodes grown by all attributes but the largest: most often there is room for that.
        fits = (self._own + self._tree.cells * self._spread) * (1 + 1e-12) <= self._limit
        unsure = np.flatnonzero(~fits)
        if unsure.size:
            some = [self._candidates[i] for i in unsure.tolist()]
            sizes = self._tree.sizes_with(some, self._limit, triangulate=False)
            held = [self._tree.contains(clique) for clique in some]
            fits[unsure] = (sizes <= self._limit) | held
        return fits

    def take(self, place: int) -> None:
        self._tree = self._tree.carrying(self._candidates[place])
