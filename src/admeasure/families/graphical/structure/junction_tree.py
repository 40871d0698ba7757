"""Junction trees over integer attributes: their sizes, and growth by one clique.

A tree is the set of maximal cliques of a triangulated graph. Its size is what Private-PGM calls
JT-SIZE: 8 bytes for every cell of every maximal clique. This file promises that

* `JunctionTree.extended(clique)` is the smaller of the re-triangulated and the path-extended tree;
* a candidate for which `JunctionTree.sizes_with` reports a size within the limit has a tree of at
  most that size, and `extended` returns one.

Nothing here sees data: sizes depend on levels and cliques only.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.structure.cliques import Holders, maximal
from admeasure.families.graphical.structure.triangulation import (
    RULES,
    Clique,
    adjacency,
    cliques_of,
    eliminated,
    total_cells,
)
from admeasure.limits import MEGABYTE

BYTES_PER_CELL = 8

_BATCH_FLOATS = 4_000_000
"""How many floats one batch of candidate graphs may take."""


_OF_NODES = "cells", "edges", "gains", "_holders", "_components", "_neighbours", "_grown_by"
"""What follows from the levels and the nodes of a tree alone."""


def cells_of(levels: Sequence[int], clique: Iterable[int]) -> int:
    """How many cells the marginal of a clique has."""
    return math.prod(levels[a] for a in clique)


def megabytes_of(cells: float) -> float:
    """The size of a model with so many cells."""
    return cells * BYTES_PER_CELL / MEGABYTE


def _sorted(clique: Iterable[int]) -> Clique:
    return tuple(sorted(set(clique)))


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
        near: list[set[int]] = [set() for _ in joined]
        for clique in inside:
            for a in clique:
                near[a].update(b for b in clique if b != a)
        sizes = [levels[a] for a in joined]
        options = []
        for rule in RULES:
            made = cliques_of(near, sizes, rule)
            nodes = maximal(tuple(joined[i] for i in clique) for clique in made)
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
        holding: dict[int, list[int]] = {}
        for k, node in enumerate(self.nodes):
            for a in node:
                holding.setdefault(a, []).append(k)
        best = [(0, 0)] * len(sets)  # (shared attributes, node already in the tree)
        queue = [(0, k) for k in range(1, len(sets))]  # the most shared first, then the lowest
        outside = set(range(1, len(sets)))
        current, edges = 0, []
        while outside:
            shared: dict[int, int] = {}
            for a in self.nodes[current]:
                for k in holding[a]:
                    shared[k] = shared.get(k, 0) + 1
            for k, count in shared.items():
                if k in outside and count > best[k][0]:
                    best[k] = (count, current)
                    heapq.heappush(queue, (-count, k))
            child = -1
            while child not in outside:
                _, child = heapq.heappop(queue)
            parent = best[child][1]
            edges.append(Edge(parent, child, tuple(sorted(sets[parent] & sets[child]))))
            outside.remove(child)
            current = child
        return tuple(edges)

    @cached_property
    def _holders(self) -> Holders:
        return Holders(self.nodes)

    @cached_property
    def _held(self) -> Holders:
        return Holders(self.cliques)

    def contains(self, clique: Iterable[int]) -> bool:
        """Whether some node holds every attribute of the clique."""
        return self._holders.first(clique) is not None

    def extended(self, clique: Iterable[int]) -> JunctionTree:
        """The tree that also holds `clique`: re-triangulated, or with the clique's attributes
        carried along the tree's paths, whichever is the smaller."""
        return self.grown([clique])

    def grown(self, cliques: Iterable[Iterable[int]]) -> JunctionTree:
        """The tree that holds these cliques too, now and whenever it grows later: re-triangulated
        once, or carried along paths clique by clique, whichever is the smaller."""
        new = [c for c in map(_sorted, cliques) if self._held.first(c) is None]
        inside = [c for c in new if self.contains(c)]  # all at once: they move no node
        carried = self
        if inside:
            carried = self._with_cliques(maximal((*self.cliques, *inside)))
        for clique in new:
            carried = carried.carrying(clique)
        if carried.nodes == self.nodes:
            return carried
        rebuilt = JunctionTree.build(self.levels, (*self.cliques, *new))
        return min(carried, rebuilt, key=lambda tree: tree.cells)

    def carrying(self, clique: Iterable[int]) -> JunctionTree:
        """The tree that also holds `clique`, its attributes carried along the tree's paths."""
        clique = _sorted(clique)
        if self._held.first(clique) is not None:
            return self
        if self.contains(clique):  # which moves no node
            return self._with_cliques(self._cliques_with(clique))
        return self._path_extended(clique)

    def _with_cliques(self, cliques: tuple[Clique, ...]) -> JunctionTree:
        """A tree with the same nodes, and all that was found of them."""
        found = JunctionTree(self.levels, self.nodes, cliques)
        known = {name: self.__dict__[name] for name in _OF_NODES if name in self.__dict__}
        found.__dict__.update(known)
        return found

    def sizes_with(
        self,
        candidates: Sequence[Clique],
        limit_cells: float = math.inf,
        *,
        triangulate: bool = True,
    ) -> np.ndarray:
        """For each candidate, an upper bound on the cells of `extended(candidate)`, and without
        `triangulate` of `carrying(candidate)`.

        Four bounds, the next only for candidates that the last one leaves above the limit: all
        nodes grown by all attributes but the largest, which some node has (where there is a
        limit); of a pair, one attribute carried to the other; the path-extended tree; and
        re-triangulation, all candidates in lock step.
        """
        own = np.array([cells_of(self.levels, c) for c in candidates], dtype=float)
        largest = [max((self.levels[a] for a in c), default=1) for c in candidates]
        sizes = own + self.cells * own / np.array(largest, dtype=float)
        over = np.flatnonzero((sizes > limit_cells) | (limit_cells == math.inf))
        pairs = [i for i in over.tolist() if len(candidates[i]) == 2]
        if pairs and limit_cells < math.inf:
            gain = self.gains[*np.transpose([candidates[i] for i in pairs])]
            sizes[pairs] = self.cells + np.where(np.isinf(gain), own[pairs], gain)
            over = over[sizes[over] > limit_cells]
            over = over if triangulate else np.setdiff1d(over, pairs)
        if over.size:
            sizes[over] = self._path_sizes(self._member([candidates[i] for i in over.tolist()]))
        # Products in another order may round apart; a bound must not err on the low side.
        sizes *= 1 + 1e-12
        over = np.flatnonzero((sizes > limit_cells) & (own <= limit_cells * (1 + 1e-9)))
        if over.size and triangulate:
            member = self._member([candidates[i] for i in over.tolist()])
            sizes[over] = np.minimum(sizes[over], self._triangulated_sizes(member, limit_cells))
        return sizes

    def _member(self, candidates: Sequence[Clique]) -> np.ndarray:
        member = np.zeros((len(candidates), len(self.levels)))
        for row, candidate in zip(member, candidates, strict=True):
            row[list(candidate)] = 1.0
        return member

    @cached_property
    def gains(self) -> np.ndarray:
        """(a, b): the cells that the tree gains where one of the two is carried to the nearest node
        of the other, whichever is less; none in one node, infinite where no way leads there."""
        more = np.array(self.levels, dtype=float) - 1
        cells = [float(cells_of(self.levels, node)) for node in self.nodes]
        gained = np.full((len(self.nodes), len(self.levels)), math.inf)
        for k, node in enumerate(self.nodes):
            gained[k, list(node)] = 0.0
        joined = [edge for edge in self.edges if edge.separator]
        for edge in reversed(joined):
            way = gained[edge.child] + cells[edge.parent] * more
            gained[edge.parent] = np.minimum(gained[edge.parent], way)
        for edge in joined:
            way = gained[edge.parent] + cells[edge.child] * more
            gained[edge.child] = np.minimum(gained[edge.child], way)
        found = np.full((len(self.levels), len(self.levels)), math.inf)
        for k, node in enumerate(self.nodes):
            found[list(node)] = np.minimum(found[list(node)], gained[k])
        return np.minimum(found, found.T)

    @cached_property
    def _components(self) -> list[list[int]]:
        """Nodes grouped by what connects them through non-empty separators."""
        group = list(range(len(self.nodes)))
        for edge in self.edges:
            group[edge.child] = group[edge.parent] if edge.separator else edge.child
        found: dict[int, list[int]] = {root: [] for root in sorted(set(group))}
        for k, root in enumerate(group):
            found[root].append(k)
        return list(found.values())

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        """Nodes that share attributes, by node."""
        neighbours: list[list[int]] = [[] for _ in self.nodes]
        for edge in filter(lambda edge: edge.separator, self.edges):
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
        group = np.empty(count, dtype=np.intp)
        for number, component in enumerate(self._components):
            group[component] = number
        inside = group[:, None] == group
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

    @cached_property
    def _grown_by(self) -> dict[Clique, JunctionTree]:
        """What became of the nodes by carrying a clique: a round that chooses several marginals
        looks at the tree with them, and then grows it by them."""
        return {}

    def _path_extended(self, clique: Clique) -> JunctionTree:
        found = self._grown_by.get(clique)
        if found is None:
            hosts = self._host_sizes(self._member([clique]))[0]
            nodes = [set(node) for node in self.nodes]
            best = [min(component, key=hosts.__getitem__) for component in self._components]
            for attribute in clique:
                carriers = self._carriers(attribute)  # none but in the component that has it
                for host in best:
                    for k in np.flatnonzero(carriers[host]).tolist():
                        nodes[k].add(attribute)
            found = JunctionTree(self.levels, maximal((*nodes, clique)), ())
            self._grown_by[clique] = found
        return found._with_cliques(self._cliques_with(clique))

    def _cliques_with(self, clique: Clique) -> tuple[Clique, ...]:
        """The cliques of the tree and one that none of them holds."""
        members = frozenset(clique)
        return tuple(sorted([clique, *(c for c in self.cliques if not members.issuperset(c))]))

    def _triangulated_sizes(self, member: np.ndarray, limit_cells: float) -> np.ndarray:
        """By one rule after another, the quickest first, while it is over the limit."""
        d = len(self.levels)
        base = adjacency(d, self.cliques)
        sizes = np.full(len(member), math.inf)
        step = max(1, _BATCH_FLOATS // (8 * d * d))
        for rule in RULES:
            over = np.flatnonzero(sizes > limit_cells)
            for start in range(0, len(over), step):
                some = over[start : start + step]
                part = member[some] > 0
                graphs = base[None] | (part[:, :, None] & part[:, None, :])
                graphs[:, np.arange(d), np.arange(d)] = False
                cells = total_cells(eliminated(graphs, self.levels, rule), self.levels)
                sizes[some] = np.minimum(sizes[some], cells)
        return sizes

    def _is_junction_tree(self) -> bool:
        """Running intersection: the nodes that hold an attribute are joined by edges that do."""
        holding = Counter(chain.from_iterable(self.nodes))
        joining = Counter(chain.from_iterable(edge.separator for edge in self.edges))
        return all(holding[a] - joining[a] == 1 for a in range(len(self.levels)))
