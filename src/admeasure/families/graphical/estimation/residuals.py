"""Tables split into orthogonal effects, one for each set of attributes.

A table on a clique c is the sum over A ⊆ c of its effects: the part that depends on A alone and
sums to zero along every attribute of A. Marginals of one distribution share their effects, so
weighted least squares on noisy marginals y_i of cliques c_i,

    sum over i of |M_i p - y_i|^2 / sigma_i^2,

equals, up to a constant, the sum over A in the cliques' downward closure of

    |effect_A(M_A p) - r_A|^2 / tau_A^2,     1 / tau_A^2 = sum over c_i ⊇ A of n_A / (n_i sigma_i^2)

with r_A the precision-weighted mean of what the y_i say (n: cells). That is the whole information
of any set of overlapping measurements, without its redundancy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from admeasure.domain import subsets
from admeasure.families.graphical.estimation.facets import Facets, meeting
from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.tables import CliqueLayout, sum_axis
from admeasure.families.graphical.structure.junction_tree import Clique, cells_of


def centred_each(tables: np.ndarray) -> np.ndarray:
    """Of tables of one shape, one after another, the effects of all of their attributes together:
    each without its means along each."""
    for axis in range(1, tables.ndim):
        means = sum_axis(tables, axis) / tables.shape[axis]
        tables = tables - np.expand_dims(means, axis)
    return tables


Named = tuple[Clique, np.ndarray]


def alike_in_shape(tables: Iterable[Named]) -> list[list[Named]]:
    """Tables parted by their shapes, so that those of one shape may be computed with together;
    large ones each by itself."""
    found: dict[tuple[int, ...], list[list[Named]]] = {}
    for clique, table in tables:
        groups = found.setdefault(table.shape, [[]])
        if (len(groups[-1]) + 1) * table.size > tuning.TOGETHER_CELLS and groups[-1]:
            groups.append([])
        groups[-1].append((clique, table))
    return [group for groups in found.values() for group in groups]


def stacked(group: Sequence[Named]) -> np.ndarray:
    """Tables of one shape, one after another."""
    return np.stack([table for _, table in group])


def centred_all(tables: Mapping[Clique, np.ndarray]) -> dict[Clique, np.ndarray]:
    """The effect of each table."""
    found: dict[Clique, np.ndarray] = {}
    for group in alike_in_shape(tables.items()):
        effects = centred_each(stacked(group))
        found |= {clique: effect for (clique, _), effect in zip(group, effects, strict=True)}
    return found


def said(tables: Iterable[Named]) -> dict[Clique, np.ndarray]:
    """For each set, the sum of the means over other attributes of all tables that hold it."""
    found: dict[Clique, np.ndarray] = {}
    for group in alike_in_shape(tables):
        for axes, means in means_within(stacked(group)).items():
            for (clique, _), mean in zip(group, means, strict=True):
                subset = tuple(clique[i] for i in axes)
                found[subset] = found[subset] + mean if subset in found else mean
    return found


def means_within(tables: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """Of tables of one shape, one after another, and for each choice of their axes, the means over
    the others."""
    every = tuple(range(tables.ndim - 1))
    found = {every: tables}
    for size in range(len(every) - 1, 0, -1):
        for axes in itertools.combinations(every, size):
            missing = next(i for i in every if i not in axes)
            parent = tuple(sorted((*axes, missing)))
            place = parent.index(missing) + 1
            found[axes] = sum_axis(found[parent], place) / tables.shape[missing + 1]
    return found


class Effects:
    """The effects theta_A of the sum of tables on `cliques`, none of which holds another, each
    spread over the whole domain."""

    def __init__(
        self, cliques: CliqueLayout, facets: Facets, weights: Mapping[Clique, float]
    ) -> None:
        """`weights` has a number for every set in the closure."""
        self._cliques = cliques
        self._facets = facets
        tops = set(cliques.cliques)
        self._smaller = CliqueLayout(cliques.levels, [s for s in weights if s not in tops])
        sizes = self._smaller.sizes
        place = {subset: k for k, subset in enumerate(self._smaller.cliques)}
        self._lift = meeting(
            facets.layout,
            self._smaller,
            [
                [(place[s], sizes[place[s]] / cliques.sizes[t]) for s in held if s]
                for t, held in zip(facets.parents, facets.subsets, strict=True)
            ],
        )
        self._drop = self._lift.T.tocsr()
        of_tops = [weights[clique] for clique in cliques.cliques]
        self._top_weights = cliques.each(of_tops)
        self._less_top_means = _SignedMeans(
            facets.layout,
            facets.subsets,
            [cliques.cliques[t] for t in facets.parents],
            [of_tops[t] for t in facets.parents],
        )
        self._weights = self._smaller.each([weights[s] for s in self._smaller.cliques])
        self._less_means = _SignedMeans(
            self._smaller,
            [[(), *subsets(s)][:-1] for s in self._smaller.cliques],
            self._smaller.cliques,
            [1.0] * len(sizes),
        )

    def bend(self, tables: np.ndarray) -> np.ndarray:
        """The gradient by the tables of half the sum over A of weight_A |theta_A|^2."""
        sums = self._facets.sums(tables)
        means = self._drop @ sums
        pull = self._weights * (means + self._less_means.of(means))
        found = self._top_weights * tables
        self._facets.spread(self._lift @ pull + self._less_top_means.of(sums), found)
        return found

    def spread(self, effects: Mapping[Clique, np.ndarray]) -> np.ndarray:
        """The gradient by the tables of the sum over A of theta_A . effect_A."""
        own, smaller = (
            np.concatenate([np.zeros(0), *(effects[s].reshape(-1) for s in layout.cliques)])
            for layout in (self._cliques, self._smaller)
        )
        self._facets.spread(self._lift @ smaller, own)
        return own


class _SignedMeans:
    """What makes the effect of A out of a table on A: the sum over its smaller subsets B of
    (-1)^(|A| - |B|) times the mean on B, times a weight.

    `above` has parts of the tables, and each part the subsets of `held` and belongs to a table on
    the clique of `wholes`.
    """

    def __init__(
        self,
        above: CliqueLayout,
        held: Sequence[Sequence[Clique]],
        wholes: Sequence[Clique],
        weights: Sequence[float],
    ) -> None:
        below = CliqueLayout(above.levels, [subset for sets in held for subset in sets])
        places = itertools.count()
        self._matrix = meeting(above, below, [[(next(places), 1.0) for _ in sets] for sets in held])
        self._transposed = self._matrix.T.tocsr()
        factors = [
            weight
            * (-1) ** (len(whole) - len(subset))
            / cells_of(above.levels, set(whole) - set(subset))
            for sets, whole, weight in zip(held, wholes, weights, strict=True)
            for subset in sets
        ]
        self._factors = below.each(factors)

    def of(self, tables: np.ndarray) -> np.ndarray:
        return self._matrix @ (self._factors * (self._transposed @ tables))
