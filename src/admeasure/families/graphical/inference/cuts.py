"""Where to cut a query that spans several nodes of a junction tree.

Every edge of the tree, seen from either end, offers a cut: the query's attributes beyond it are its
far part, the others its near part, and the edge's separator S joins the two. The cost of a cut is
counted in cells read and written. Queries are judged all at once by a cost that looks one cut
ahead; those that come out dear are judged again by what their parts would really cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, cells_of

_DEEP = 6.0
"""How much dearer a part is, at first sight, that is inside no node and must itself be cut."""
_CALL = 20_000.0
"""Cost of setting up one product, whatever its size."""
_MULTIPLIED = 1 / 16
"""Cost of one multiplication inside a matrix product, against reading and writing a cell."""


@dataclass(frozen=True)
class Arc:
    """An edge of the tree seen from one end: `far` are the attributes strictly beyond it."""

    near: int
    node: int
    separator: Clique
    far: frozenset[int]


@dataclass(frozen=True)
class Cut:
    """An arc, and the attributes of a query before and beyond it that are not in its separator."""

    arc: int
    part: Clique
    beyond: Clique

    def reversed(self) -> Cut:
        return Cut(self.arc ^ 1, self.beyond, self.part)

    @property
    def side(self) -> tuple[int, Clique]:
        """All that the table before the cut depends on."""
        return self.arc, self.part

    @property
    def alone(self) -> Clique:
        """The part if it is one attribute, or else what is beyond."""
        return self.part if len(self.part) == 1 else self.beyond


class Cuts:
    """The cuts of one tree. Arcs 2 k and 2 k + 1 are the two directions of edge k."""

    def __init__(self, tree: JunctionTree, limit_cells: float) -> None:
        self._levels = tree.levels
        self._limit = limit_cells
        self._sets = [frozenset(node) for node in tree.nodes]
        self.arcs = _find_arcs(tree)
        self._beginning: dict[int, list[int]] = {}
        for f, arc in enumerate(self.arcs):
            self._beginning.setdefault(arc.near, []).append(f)
        d = len(tree.levels)
        far = indicator([arc.far for arc in self.arcs], d)
        separator = indicator([arc.separator for arc in self.arcs], d)
        near = indicator([tree.nodes[arc.near] for arc in self.arcs], d)
        # One row for each attribute: what a query is judged by is a sum over its own rows. The last
        # row is none's, and makes queries equally long.
        has = np.concatenate([far, separator, ~(far | separator), ~(near | far)]).T
        self._has = np.vstack([has, np.zeros_like(has[:1])])
        self._logs = np.append(np.log(tree.levels), 0.0)
        self._separators = self._logs[:-1] @ separator.T
        self._judged: dict[Clique, tuple[float, int]] = {}

    def at(self, query: Clique, arc: int) -> Cut:
        """The cut of a query at an arc or its reverse, so that one attribute is beyond it if one is
        on either side: conditional tables of single attributes are kept."""
        separator, far = self.arcs[arc].separator, self.arcs[arc].far
        part = tuple(a for a in query if a not in far and a not in separator)
        cut = Cut(arc, part, tuple(a for a in query if a in far))
        return cut if len(part) > 1 else cut.reversed()

    def towards(self, attribute: int, arc: int) -> int | None:
        """Where an attribute beyond the arc, given its separator S, is cut: on the way to it, past
        the last node that holds S, at the separator that is smallest beside S in that node. None
        where such a node holds the attribute.

        What lies between is passed over: p(a | S) of a far attribute may need few of its tables.
        """
        separator = self.arcs[arc].separator
        way = iter(self._way(attribute, arc))
        for first in way:
            if not self._sets[self.arcs[first].node].issuperset(separator):
                break
        else:
            return None
        edge, best = set(self.arcs[first].separator), first
        fewest = cells_of(self._levels, edge.union(separator))
        for later in way:
            other = self.arcs[later].separator
            if edge.isdisjoint(other):
                break
            if edge.issuperset(other):
                cells = cells_of(self._levels, {*separator, *other})
                if cells <= fewest:
                    best, fewest = later, cells
        return best

    def _way(self, attribute: int, arc: int) -> Iterator[int]:
        """The arcs after this one, up to the first node that holds the attribute."""
        while attribute not in self._sets[self.arcs[arc].node]:
            onward = self._beginning[self.arcs[arc].node]
            arc = next(f for f in onward if attribute in self.arcs[f].far)
            yield arc

    def best(self, queries: Sequence[Clique]) -> list[int]:
        """The cheapest arc for every query; none of them is inside a node."""
        most = max(1, tuning.JUDGED_CELLS // max(1, len(self.arcs)))
        parts = (queries[start : start + most] for start in range(0, len(queries), most))
        return [arc for part in parts for arc in self._best(part)]

    def _best(self, queries: Sequence[Clique]) -> list[int]:
        cost, easy = self._first_sight(queries)
        chosen = np.where(easy, cost, cost * _DEEP + 4 * _CALL).argmin(axis=1)
        every = np.arange(len(queries))
        dear = cost[every, chosen] > np.where(easy[every, chosen], tuning.DEAR, tuning.DEAR_DEEP)
        answer = chosen.tolist()
        for t in np.flatnonzero(dear).tolist():
            answer[t] = self._judge(queries[t])[1]
        return answer

    def judged(self, query: Clique) -> float:
        """What a query costs that `best` found dear enough for a closer look; 0 for others."""
        return self._judged.get(query, (0.0, -1))[0]

    def _first_sight(self, queries: Sequence[Clique]) -> tuple[np.ndarray, np.ndarray]:
        """(query, arc): the cost if both parts were at hand, and whether they are."""
        query_log, counts, logs = self._summed(queries)
        far, _, outside, unheld = np.split(counts, 4, axis=1)
        far_log, separator_log = np.split(logs, 2, axis=1)
        joint = self._separators - separator_log + query_log
        near_cells = np.exp(joint - far_log)
        far_cells = np.exp(far_log + self._separators)
        cost = np.exp(joint) * _MULTIPLIED + near_cells + np.where(far > 1, far_cells, 0.0)
        cost[(far == 0) | (outside == 0)] = np.inf
        easy = ((unheld == 0) | (outside == 1)) & (far == 1)
        cost[near_cells > self._limit] = np.inf
        return cost, easy

    def _summed(self, queries: Sequence[Clique]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each query: the log of its cells; for each arc how many of its attributes are beyond
        it, in its separator, neither, and in neither node; the logs of cells of the first two."""
        most = 2 * len(self.arcs)
        query_log = np.zeros((len(queries), 1))
        counts = np.zeros((len(queries), 2 * most), dtype=np.int16)
        logs = np.zeros((len(queries), most))
        for places in zip_longest(*queries, fillvalue=len(self._levels)):
            of = list(places)
            has, log = self._has[of], self._logs[of, None]
            query_log += log
            counts += has
            logs += has[:, :most] * log
        return query_log, counts, logs

    def _judge(self, query: Clique) -> tuple[float, int]:
        """The real cost of a query and its best arc, -1 where a node holds it."""
        found = self._judged.get(query)
        if found is not None:
            return found
        if any(node.issuperset(query) for node in self._sets):
            found = (float(cells_of(self._levels, query)), -1)
        else:
            costs, easy = self._first_sight([query])
            found = (math.inf, int(costs[0].argmin()))
            for arc in costs[0].argsort(kind="stable").tolist():
                cost = float(costs[0, arc])
                if cost >= found[0]:
                    break
                if not easy[0, arc]:
                    cost += self._cost_of_parts(query, arc)
                if cost < found[0]:
                    found = (cost, arc)
        self._judged[query] = found
        return found

    def _cost_of_parts(self, query: Clique, arc: int) -> float:
        separator = self.arcs[arc].separator
        far = self.arcs[arc].far
        beyond = [a for a in query if a in far]
        near = [a for a in query if a not in far]
        cost = 0.0
        if sum(a not in separator for a in near) > 1:
            cost += self._judge(tuple(sorted({*near, *separator})))[0]
        if len(beyond) > 1:
            cost += self._judge(tuple(sorted({*beyond, *separator})))[0]
        return cost


def indicator(sets: Sequence[Iterable[int]], d: int) -> np.ndarray:
    """One row for each set, true at its members."""
    table = np.zeros((len(sets), d), dtype=bool)
    for row, members in zip(table, sets, strict=True):
        row[list(members)] = True
    return table


def _find_arcs(tree: JunctionTree) -> list[Arc]:
    """What both sides of an edge hold is in its separator; edges come before those further out."""
    beyond = [set(node) for node in tree.nodes]
    for edge in reversed(tree.edges):
        beyond[edge.parent] |= beyond[edge.child]
    every = frozenset().union(*tree.nodes)
    arcs = []
    for edge in tree.edges:
        parent, child, separator = edge.parent, edge.child, edge.separator
        out = frozenset(beyond[child].difference(separator))
        arcs.append(Arc(parent, child, separator, out))
        arcs.append(Arc(child, parent, separator, every - beyond[child]))
    return arcs
