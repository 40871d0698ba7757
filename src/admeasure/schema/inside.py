"""How values lie inside bins, or codes inside levels of a hierarchy: the shares of finer leaves,
from which values are drawn back.

Private bins are cut from leaves whose noisy counts were bought; their shares are kept in a release
and may be published like all that follows from them. So a heap (40 hours, a round sum, zero) stays
where it is, though its bin is wider. Shares are no less than zero and so have a bias; what was
bought without it, by least squares, is kept beside them for intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admeasure.schema.grid import OrdinalGrid, RealGrid


@dataclass(frozen=True, eq=False)
class Pieces:
    """Of each leaf the bin that it is part of, its ends, and its part of the bin's rows."""

    level: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    shares: np.ndarray


@dataclass(frozen=True, eq=False)
class Inside:
    """`starts`: where leaves begin, as the grid's numbers, the first where the grid does; `shares`:
    how much of the column each has, in any unit. Bins begin where leaves do. `counts`: of rows in
    each leaf by least squares, without bias and therefore also below zero, where every node of
    `leaves.hierarchy` was counted with noise of scale `sigma`; None in releases from before these
    were kept. Leaves of a hierarchy of codes begin at 0, 1, …."""

    starts: np.ndarray
    shares: np.ndarray
    counts: np.ndarray | None = None
    sigma: float = 0.0

    def fits(self, grid: OrdinalGrid | RealGrid) -> bool:
        """Whether these are sound, and leaves of that grid."""
        starts = self.starts
        whole = starts.dtype == np.int64 and isinstance(grid, OrdinalGrid)
        real = starts.dtype == np.float64 and isinstance(grid, RealGrid)
        return bool(
            (whole or real)
            and self._is_sound()
            and (starts[:-1] < starts[1:]).all()
            and starts[-1] <= grid.high
            and np.isin(grid.starts, starts).all()
            and starts[0] == grid.low
        )

    def fits_leaves(self, leaves: int) -> bool:
        """Whether these are sound, and of so many codes of a hierarchy."""
        whole = self.starts.dtype == np.int64
        return whole and self._is_sound() and np.array_equal(self.starts, np.arange(leaves))

    def _is_sound(self) -> bool:
        shares = self.shares
        return bool(
            shares.dtype == np.float64
            and self.starts.ndim == 1
            and self.starts.shape == shares.shape != (0,)
            and np.isfinite(shares).all()
            and (shares >= 0).all()
            and (self.counts is None or self._counted(self.counts))
        )

    def _counted(self, counts: np.ndarray) -> bool:
        sound = counts.dtype == np.float64 and counts.shape == self.starts.shape
        return sound and bool(np.isfinite(counts).all()) and 0 < self.sigma < np.inf

    def pieces(self, grid: OrdinalGrid | RealGrid) -> Pieces:
        """The leaves with their parts of their bins; one without any share is one leaf."""
        lows = self.starts.astype(np.float64)
        whole = isinstance(grid, OrdinalGrid)
        highs = np.append(lows[1:] - whole, float(grid.high))
        level = grid.place_all(self.starts)
        known = np.bincount(level, self.shares)[level] > 0
        shares = np.where(known, self.shares, highs - lows + whole)
        return Pieces(level, lows, highs, shares / np.bincount(level, shares)[level])

    def draw(
        self, grid: OrdinalGrid | RealGrid, codes: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """A number in the bin of each code: a leaf by its share of the bin, and any number of it.
        A bin without any share is taken as one leaf."""
        fine = self._grid(grid)
        first = np.searchsorted(self.starts, grid.starts)
        last = np.append(first[1:], len(self.starts))
        summed = np.append(0.0, np.cumsum(self.shares))
        mass = summed[last] - summed[first]
        at = summed[first][codes] + rng.random(len(codes)) * mass[codes]
        chosen = np.searchsorted(summed, at, side="right") - 1
        chosen = np.clip(chosen, first[codes], last[codes] - 1)
        found = fine.draw(chosen, rng)
        empty = mass[codes] <= 0
        if empty.any():
            found[empty] = grid.draw(codes[empty], rng)
        return found

    def _grid(self, grid: OrdinalGrid | RealGrid) -> OrdinalGrid | RealGrid:
        if isinstance(grid, OrdinalGrid):
            return OrdinalGrid(grid.low, grid.high, self.starts, clamp=False, is_equal=False)
        return RealGrid.cut([*self.starts.tolist(), grid.high], clamp=False)
