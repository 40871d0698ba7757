"""Junction trees over integer attributes: their sizes, and growth by one clique.

A tree is the set of maximal cliques of a triangulated graph. Its size is what Private-PGM calls
JT-SIZE: 8 bytes for every cell of every maximal clique. This file promises that

* `JunctionTree.extended(clique)` is the smaller of the re-triangulated and the path-extended tree;
* a candidate for which `JunctionTree.sizes_with` reports a size within the limit has a tree of at
  most that size, and `extended` returns one.

Nothing here sees data: sizes depend on levels and cliques only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.structure.triangulation import (
    RULES,
    Clique,
    adjacency,
    eliminated,
    total_cells,
)

BYTES_PER_CELL = 8
MEGABYTE = 2**20

_BATCH_FLOATS = 4_000_000
"""How many floats one batch of candidate graphs may take."""


def cells_of(levels: Sequence[int], clique: Iterable[int]) -> int:
    """How many cells the marginal of a clique has."""
    return math.prod(levels[a] for a in clique)


def megabytes_of(cells: float) -> float:
    """The size of a model with so many cells."""
    return cells * BYTES_PER_CELL / MEGABYTE


def maximal(cliques: Iterable[Iterable[int]]) -> tuple[Clique, ...]:
    """The cliques that no other one contains, each sorted, in lexicographic order."""
    kept: list[frozenset[int]] = []
    for clique in sorted({frozenset(c) for c in cliques}, key=lambda c: (-len(c), sorted(c))):
        if not any(clique <= other for other in kept):
            kept.append(clique)
    return tuple(sorted(tuple(sorted(c)) for c in kept))


def check_limit(tree: JunctionTree, limit_megabytes: float | None) -> None:
    """Refuse a tree that is larger than the stated limit."""
    if limit_megabytes is not None and tree.megabytes > limit_megabytes:
        raise ResourceError(
            f"The graphical model would take {tree.megabytes:.3g} MB, over the limit of "
            f"{limit_megabytes:g} MB. Measure fewer or smaller marginals, or raise the limit."
        )


@dataclass(frozen=True)
class Edge:
    """Two neighbouring nodes (by position) and the attributes they share."""

    parent: int
    child: int
    separator: Clique


@dataclass(frozen=True)
class JunctionTree:
    """The maximal cliques of a triangulated graph over attributes 0 … d - 1.

    >>> tree = JunctionTree.build((2, 3, 4), [(0, 1), (1, 2)])
    >>> tree.nodes, tree.cells, tree.extended((0, 2)).cells
    (((0, 1), (1, 2)), 18, 24)
    """

    levels: tuple[int, ...]
    nodes: tuple[Clique, ...]
    cliques: tuple[Clique, ...]
    """What the tree was built for: only these must stay inside nodes when it grows."""

    @classmethod
    def build(cls, levels: Sequence[int], cliques: Iterable[Iterable[int]]) -> JunctionTree:
        """The smallest of three greedy triangulations; every attribute is in some node."""
        levels = tuple(int(n) for n in levels)
        cliques = maximal(cliques)
        # An attribute that no clique joins to another is a node by itself, and need not take part
        # in what grows with the cube of the attributes.
        joined = sorted({a for clique in cliques for a in clique if len(clique) > 1})
        place = {a: i for i, a in enumerate(joined)}
        alone = [(a,) for a in range(len(levels)) if a not in place]
        inside = [tuple(place[a] for a in c) for c in cliques if len(c) > 1]
        graph = adjacency(len(joined), inside)[None]
        sizes = [levels[a] for a in joined]
        options = []
        for rule in RULES:
            rows = eliminated(graph, sizes, rule)[0]
            nodes = maximal(tuple(joined[i] for i in np.flatnonzero(row)) for row in rows)
            options.append((sum(cells_of(levels, node) for node in nodes), nodes))
        _, nodes = min(options, key=lambda option: option[0])
        return cls(levels, tuple(sorted((*nodes, *alone))), cliques)

    @classmethod
    def of_nodes(cls, levels: Sequence[int], nodes: Iterable[Iterable[int]]) -> JunctionTree:
        """A tree with exactly these nodes, which must have the running intersection property."""
        nodes = maximal(nodes)
        tree = cls(tuple(int(n) for n in levels), nodes, nodes)
        if not tree._is_junction_tree():
            raise ValueError("these nodes do not form a junction tree")
        return tree

    @cached_property
    def cells(self) -> int:
        return sum(cells_of(self.levels, node) for node in self.nodes)

    @property
    def megabytes(self) -> float:
        return megabytes_of(self.cells)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """A maximum spanning tree by separator size, parents before children, rooted at node 0.

        Components that share nothing hang from the root by an empty separator, so that there is
        always one tree.
        """
        sets = [frozenset(node) for node in self.nodes]
        best = [(-1, -1)] * len(sets)  # (shared attributes, node already in the tree)
        outside = list(range(1, len(sets)))
        current, edges = 0, []
        while outside:
            for k in outside:
                shared = len(sets[k] & sets[current])
                if shared > best[k][0]:
                    best[k] = (shared, current)
            child = max(outside, key=lambda k: (best[k][0], -k))
            parent = best[child][1] if best[child][0] else 0
            edges.append(Edge(parent, child, tuple(sorted(sets[parent] & sets[child]))))
            outside.remove(child)
            current = child
        return tuple(edges)

    def contains(self, clique: Iterable[int]) -> bool:
        """Whether some node holds every attribute of the clique."""
        wanted = frozenset(clique)
        return any(wanted <= frozenset(node) for node in self.nodes)

    def extended(self, clique: Iterable[int]) -> JunctionTree:
        """The tree that also holds `clique`: re-triangulated, or with the clique's attributes
        carried along the tree's paths, whichever is the smaller."""
        clique = tuple(sorted(set(clique)))
        rebuilt = JunctionTree.build(self.levels, (*self.cliques, clique))
        return min(self._path_extended(clique), rebuilt, key=lambda tree: tree.cells)

    def sizes_with(
        self, candidates: Sequence[Iterable[int]], limit_cells: float = math.inf
    ) -> np.ndarray:
        """For each candidate, an upper bound on the cells of `extended(candidate)`.

        Three bounds, the next only for candidates that the last one leaves above the limit: all
        nodes grown by all attributes but the largest, which some node has (where there is a
        limit); the path-extended tree; and re-triangulation, all candidates in lock step.
        """
        member = np.zeros((len(candidates), len(self.levels)))
        for row, candidate in zip(member, candidates, strict=True):
            row[list(candidate)] = 1.0
        logs = np.log(self.levels)
        own = np.exp(member @ logs)
        sizes = own + self.cells * own / np.exp((member * logs).max(axis=1, initial=0.0))
        over = np.flatnonzero((sizes > limit_cells) | (limit_cells == math.inf))
        if over.size:
            sizes[over] = self._path_sizes(member[over])
        # Products in another order may round apart; a bound must not err on the low side.
        sizes *= 1 + 1e-12
        over = np.flatnonzero((sizes > limit_cells) & (own <= limit_cells * (1 + 1e-9)))
        if over.size:
            sizes[over] = np.minimum(sizes[over], self._triangulated_sizes(member[over]))
        return sizes

    @cached_property
    def _components(self) -> list[list[int]]:
        """Nodes grouped by what connects them through non-empty separators."""
        group = list(range(len(self.nodes)))
        for edge in self.edges:
            group[edge.child] = group[edge.parent] if edge.separator else edge.child
        return [[k for k, g in enumerate(group) if g == root] for root in sorted(set(group))]

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        """Nodes that share attributes, by node."""
        neighbours: list[list[int]] = [[] for _ in self.nodes]
        for edge in self.edges:
            if edge.separator:
                neighbours[edge.parent].append(edge.child)
                neighbours[edge.child].append(edge.parent)
        return neighbours

    def _carriers(self, attribute: int) -> np.ndarray:
        """(host, node): the nodes that must take in `attribute` so that the host has it.

        None where the host has it, or where it lives in another component. The nodes with the
        attribute are connected, so there is one way from a host to them.
        """
        carriers = np.zeros((len(self.nodes), len(self.nodes)), dtype=bool)
        reached = [k for k, node in enumerate(self.nodes) if attribute in node]
        seen = set(reached)
        for k in reached:  # grows while it is walked: breadth first
            for other in self._neighbours[k]:
                if other not in seen:
                    seen.add(other)
                    carriers[other] = carriers[k]
                    carriers[other, other] = True
                    reached.append(other)
        return carriers

    def _host_sizes(self, member: np.ndarray) -> np.ndarray:
        """(candidate, host): cells of the host's component once the host holds the candidate's
        attributes of that component."""
        asked = np.flatnonzero(member.any(axis=0))
        member = member[:, asked]
        count = len(self.nodes)
        inside = np.zeros((count, count), dtype=bool)
        for component in self._components:
            inside[np.ix_(component, component)] = True
        weight = np.empty((len(asked), count * count))
        for row, attribute in zip(weight, asked, strict=True):
            row[:] = self._carriers(int(attribute)).ravel() * math.log(self.levels[attribute])
        base = np.array([math.log(cells_of(self.levels, node)) for node in self.nodes])
        sizes = np.empty((len(member), count))
        step = max(1, _BATCH_FLOATS // (count * count))
        for start in range(0, len(member), step):
            grown = (member[start : start + step] @ weight).reshape(-1, count, count)
            grown += base
            sizes[start : start + step] = (np.exp(grown) * inside).sum(axis=2)
        return sizes

    def _path_sizes(self, member: np.ndarray) -> np.ndarray:
        hosts = self._host_sizes(member)
        total = np.zeros(len(member))
        touched = np.zeros(len(member), dtype=int)
        for component in self._components:
            attributes = sorted({a for k in component for a in self.nodes[k]})
            total += hosts[:, component].min(axis=1)
            touched += member[:, attributes].any(axis=1)
        joined = np.exp(member @ np.log(self.levels))
        return np.where(touched > 1, total + joined, total)

    def _path_extended(self, clique: Clique) -> JunctionTree:
        member = np.zeros((1, len(self.levels)))
        member[0, list(clique)] = 1.0
        hosts = self._host_sizes(member)[0]
        nodes = [set(node) for node in self.nodes]
        for component in self._components:
            host = min(component, key=lambda k: hosts[k])
            for attribute in clique:
                for k in np.flatnonzero(self._carriers(attribute)[host]):
                    nodes[k].add(attribute)
        return JunctionTree(
            self.levels, maximal((*nodes, clique)), maximal((*self.cliques, clique))
        )

    def _triangulated_sizes(self, member: np.ndarray) -> np.ndarray:
        d = len(self.levels)
        base = adjacency(d, self.cliques)
        sizes = np.empty(len(member))
        step = max(1, _BATCH_FLOATS // (8 * d * d))
        for start in range(0, len(member), step):
            part = member[start : start + step] > 0
            graphs = base[None] | (part[:, :, None] & part[:, None, :])
            graphs[:, np.arange(d), np.arange(d)] = False
            options = [
                total_cells(eliminated(graphs, self.levels, rule), self.levels) for rule in RULES
            ]
            sizes[start : start + step] = np.min(options, axis=0)
        return sizes

    def _is_junction_tree(self) -> bool:
        """Running intersection: the nodes that hold an attribute are joined by edges that do."""
        for attribute in range(len(self.levels)):
            holding = sum(attribute in node for node in self.nodes)
            joining = sum(attribute in edge.separator for edge in self.edges)
            if holding - joining != 1:
                return False
        return True
