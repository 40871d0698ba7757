"""Tables whose axes are sorted attributes: where many lie in one array, sums, broadcasts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from admeasure.families.graphical.structure.junction_tree import Clique


class CliqueLayout:
    """Tables on `cliques` in C order, one after another in a flat array."""

    def __init__(self, levels: Sequence[int], cliques: Sequence[Clique]) -> None:
        self.levels = levels
        self.cliques = tuple(cliques)
        self.shapes = [tuple(levels[a] for a in clique) for clique in self.cliques]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.bounds = [0, *itertools.accumulate(self.sizes)]
        self.cells = self.bounds[-1]

    def views(self, flat: np.ndarray) -> list[np.ndarray]:
        """The tables inside a flat array, in the order of the cliques."""
        cuts = itertools.pairwise(self.bounds)
        return [flat[a:b].reshape(shape) for (a, b), shape in zip(cuts, self.shapes, strict=True)]

    def each(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """One number for each table, at all of its cells."""
        return np.repeat(np.asarray(values, dtype=np.float64), self.sizes)


def sum_axis(table: np.ndarray, axis: int) -> np.ndarray:
    """The sum over one axis. Products with ones, and `einsum` where the axis is short, run several
    times faster than `numpy.sum`."""
    shape = table.shape
    n = shape[axis]
    kept = shape[:axis] + shape[axis + 1 :]
    after = math.prod(shape[axis + 1 :])
    table = np.ascontiguousarray(table)
    if after == 1:
        return (table.reshape(-1, n) @ np.ones(n)).reshape(kept)
    table = table.reshape(-1, n, after)
    return (np.einsum("ijk->ik", table) if n < 8 else np.ones(n) @ table).reshape(kept)


def summed_onto(table: np.ndarray, onto: tuple[int, ...]) -> np.ndarray:
    """The sum over the axes of which `onto` has length 1, neighbouring axes together."""
    shape = table.shape
    end = len(shape)
    while end:
        start = end - 1
        is_kept = onto[start] == shape[start]
        while start and (onto[start - 1] == shape[start - 1]) == is_kept:
            start -= 1
        if not is_kept:
            run = math.prod(shape[start:end])
            after = math.prod(onto[end:])
            table = sum_axis(table.reshape(-1, run, after), 1)
        end = start
    return table.reshape(onto)


def project(table: np.ndarray, clique: Clique, onto: Iterable[int]) -> np.ndarray:
    """The marginal on `onto` of a table on `clique`, largest axes summed out first."""
    kept = set(onto)
    axes = list(clique)
    for attribute in sorted(
        (a for a in clique if a not in kept), key=lambda a: -table.shape[clique.index(a)]
    ):
        table = sum_axis(table, axes.index(attribute))
        axes.remove(attribute)
    return table


def aligned(table: np.ndarray, clique: Clique, within: Sequence[int]) -> np.ndarray:
    """A view of a table on `clique` that broadcasts against tables on `within`."""
    lengths = dict(zip(clique, table.shape, strict=True))
    return table.reshape([lengths.get(a, 1) for a in within])


def divide_rows(table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(cells of weight, length of the last axis): rows divided by their weights; one that cannot
    occur is 0. The axes of the table but its last are those of the weights."""
    inverse = np.zeros_like(weight)
    np.divide(1.0, weight, out=inverse, where=weight > 1e-290)
    return np.multiply(table, inverse[..., None], order="C").reshape(-1, table.shape[-1])
