"""Where values lie inside the levels of a column of numbers or days, as far as a release says.

Inside a bin rows are taken to lie as synthetic rows do: by the shares of leaves where a run bought
these, else evenly. Means and variances of that are plain sums. How far the table may be from it
follows from the unbiased counts of leaves where a release has them, else from the bin's ends alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from admeasure.errors import UsageError
from admeasure.planning.tree import least_squares
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid
from admeasure.schema.inside import Inside
from admeasure.schema.leaves import hierarchy
from admeasure.schema.ordered import Ordered
from admeasure.schema.zeros import level_ends


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a column: the level of each, its middle and half its width, its part of the
    level's rows, how many rows it has by least squares, and of what noise these are."""

    level: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    share: np.ndarray
    counts: np.ndarray
    sigma: float
    tree: tuple[np.ndarray, ...]

    def sums(
        self, weights: np.ndarray, *, apart: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of the table's rows over leaves, weighted; rows of `weights` are sums. Each is
        divided into c, a number for each level, and a rest; where `apart`, so that the estimate of
        the rest is uncorrelated with those of the levels, of which other measurements tell more;
        else c is none. Returns c, the estimate of the rest, and its variance."""
        levels = np.eye(self.level.max() + 1)[:, self.level]
        c = np.zeros((len(weights), len(levels)))
        if apart:
            spread = self._covariance(levels)
            c = np.linalg.solve(spread @ levels.T, spread @ weights.T).T
        rest = weights - c[:, self.level]
        variance = np.einsum("kl,kl->k", rest, self._covariance(rest))
        return c, rest @ self.counts, self.sigma**2 * np.maximum(variance, 0.0)

    def _covariance(self, weights: np.ndarray) -> np.ndarray:
        """Times the weights, in squared scales of the noise."""
        zeros = [np.zeros((len(weights), len(nodes))) for nodes in self.tree[:-1]]
        return least_squares(self.tree, [*zeros, weights])


@dataclass(frozen=True, eq=False)
class Places:
    """Of each regular level of a column the ends, the mean and the variance of its values."""

    name: str
    lows: np.ndarray
    highs: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    leaves: Leaves | None

    @property
    def are_bins(self) -> bool:
        """Whether a level holds different values."""
        return bool((self.highs > self.lows).any())


def places(column: Column, inside: Inside | None) -> Places:
    """Refuses a column that has no numbers, or goes on without end."""
    name, grid = column.name, column.grid
    if isinstance(column, Ordered) and column.is_endless:
        raise UsageError(
            f"Column {name!r} has no bounds: a few of its values could be anything, and so "
            "could every mean. Give it `minimum` and `maximum` in the schema and fit again; a "
            "quantile (`admeasure answer --median`) needs none."
        )
    if not column.has_numbers:
        raise UsageError(
            f"Column {name!r} is of type {column.type} and has no numbers. Name conditions "
            f"instead, such as {{{name!r}: …}}: 1 where they are met, else 0."
        )
    lows, highs = (ends.astype(float) for ends in level_ends(column))
    whole = isinstance(grid, OrdinalGrid)
    if inside is None or grid is None:
        return Places(name, lows, highs, (lows + highs) / 2, _even(lows, highs, whole=whole), None)
    found = inside.pieces(grid)
    level, size = found.level, len(lows)
    middle, half = (found.lows + found.highs) / 2, (found.highs - found.lows) / 2
    means = np.bincount(level, found.shares * middle, size)
    second = (middle - means[level]) ** 2 + _even(found.lows, found.highs, whole=whole)
    variances = np.bincount(level, found.shares * second, size)
    leaves = None
    if inside.counts is not None:
        tree = hierarchy(inside.starts, days=column.holds_days)
        leaves = Leaves(level, middle, half, found.shares, inside.counts, inside.sigma, tree)
    return Places(name, lows, highs, means, variances, leaves)


def _even(lows: np.ndarray, highs: np.ndarray, *, whole: bool) -> np.ndarray:
    """The variance of values that lie evenly between ends."""
    width = highs - lows
    return (width * (width + 2) if whole else width**2) / 12
