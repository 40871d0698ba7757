"""Tables on cliques beside each other, and their facets: the sums over one attribute.

Whatever depends on fewer attributes than a clique has can be read from its facets, and be spread
over its cells through them. They have a small part of the cells. So maps between many overlapping
cliques (`residuals`, `regions`) are sparse matrices over facets, cheap to make and to apply, and
the large tables are only ever summed and added to as wholes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from admeasure.domain import subsets
from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.tables import CliqueLayout, aligned, sum_axis
from admeasure.families.graphical.structure.junction_tree import Clique

if TYPE_CHECKING:
    from scipy import sparse


class Facets:
    """The facets of the cliques of a layout, in a layout of their own."""

    def __init__(self, cliques: CliqueLayout) -> None:
        self._cliques = cliques
        sets = cliques.cliques
        facets = [(t, axis) for t, clique in enumerate(sets) for axis in range(len(clique))]
        self.parents = [t for t, _ in facets]
        """Which clique each is of."""
        self.layout = CliqueLayout(
            cliques.levels, [sets[t][:axis] + sets[t][axis + 1 :] for t, axis in facets]
        )
        self._large = [
            (f, *facet)
            for f, facet in enumerate(facets)
            if cliques.sizes[facet[0]] > tuning.SMALL_CELLS
        ]
        blocks: list[list[tuple[int, float]]] = [[] for _ in sets]
        for f, (t, _) in enumerate(facets):
            if cliques.sizes[t] <= tuning.SMALL_CELLS:
                blocks[t].append((f, 1.0))
        self._small_spread = meeting(cliques, self.layout, blocks)
        self._small_sums = self._small_spread.T.tocsr()
        self.subsets = self._parted()
        """The smaller sets within a clique, the empty one too: each in the list of the smallest
        facet that has it."""

    def _parted(self) -> list[list[Clique]]:
        parted: list[list[Clique]] = [[] for _ in self.parents]
        seen: set[tuple[int, Clique]] = set()
        for f in sorted(range(len(parted)), key=lambda f: self.layout.sizes[f]):
            t, facet = self.parents[f], self.layout.cliques[f]
            for subset in [(), *subsets(facet)]:
                if (t, subset) not in seen:
                    seen.add((t, subset))
                    parted[f].append(subset)
        return parted

    def sums(self, tables: np.ndarray) -> np.ndarray:
        """The facets of the cliques' tables."""
        found = self._small_sums @ tables
        views = self._cliques.views(tables)
        for f, t, axis in self._large:
            a, b = self.layout.bounds[f : f + 2]
            found[a:b] = sum_axis(views[t], axis).reshape(-1)
        return found

    def spread(self, facets: np.ndarray, into: np.ndarray) -> None:
        """Add to every cell of the cliques' tables what their facets hold there: the transpose of
        `sums`."""
        into += self._small_spread @ facets
        views = self._cliques.views(into)
        for f, t, axis in self._large:
            a, b = self.layout.bounds[f : f + 2]
            table = views[t]
            table += facets[a:b].reshape(*table.shape[:axis], 1, *table.shape[axis + 1 :])


def meeting(
    above: CliqueLayout, below: CliqueLayout, blocks: Sequence[Sequence[tuple[int, float]]]
) -> sparse.csr_array:
    """(cells of `above`, cells of `below`), a number wherever a cell lies over another.

    `blocks` has for each table of `above` which tables of `below` it meets, all on some of its own
    attributes, and the number for each.
    """
    from scipy import sparse  # takes a third of a second, which only a fit should pay

    entries = sum(size * len(met) for size, met in zip(above.sizes, blocks, strict=True))
    kind = np.int32 if max(entries, below.cells) < 2**31 else np.int64
    columns, values = np.empty(entries, kind), np.empty(entries)
    start = 0
    for clique, shape, size, met in zip(
        above.cliques, above.shapes, above.sizes, blocks, strict=True
    ):
        end = start + size * len(met)
        into = columns[start:end].reshape(*shape, len(met))
        values[start:end].reshape(size, len(met))[...] = [number for _, number in met]
        for k, (table, _) in enumerate(met):
            index = np.arange(below.bounds[table], below.bounds[table + 1], dtype=kind)
            into[..., k] = aligned(index.reshape(below.shapes[table]), below.cliques[table], clique)
        start = end
    lengths = np.repeat([len(met) for met in blocks], above.sizes)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    return sparse.csr_array((values, columns, bounds), shape=(above.cells, below.cells))
