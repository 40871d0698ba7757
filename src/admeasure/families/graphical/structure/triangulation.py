"""Triangulation of graphs over attributes by greedy elimination.

A vertex is eliminated by joining its neighbours; with it they are a clique of the triangulated
graph. Which vertex goes next is the rule's affair: min-weight, min-fill or weighted min-fill. Many
graphs are eliminated in lock step, with matrices (`eliminated`); one graph with few edges by its
lists of neighbours (`cliques_of`), which takes time in proportion to its vertices. Both make the
same cliques: every number that they compare is a whole number times a power of two.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

Clique = tuple[int, ...]
_TIE = 2.0**-14
"""How much the size of a clique counts beside edges that are added."""


def logs_of(levels: Sequence[int] | np.ndarray) -> np.ndarray:
    """Logarithms to multiples of 2^-20: their sums are the same in any order."""
    return np.rint(np.log(levels) * 2.0**20) * 2.0**-20


def adjacency(d: int, cliques: Iterable[Clique]) -> np.ndarray:
    graph = np.zeros((d, d), dtype=bool)
    for clique in cliques:
        graph[np.ix_(clique, clique)] = True
    graph[np.arange(d), np.arange(d)] = False
    return graph


def by_weight(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Cells of the clique that eliminating each vertex would make, as a logarithm."""
    logs = logs_of(levels)
    return graph @ logs + logs


def by_fill(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Edges that eliminating each vertex would add; ties go to the smaller clique."""
    degree = graph.sum(axis=2)
    closed = ((graph @ graph) * graph).sum(axis=2)
    return degree * (degree - 1) - closed + _TIE * by_weight(graph, levels)


def by_weighted_fill(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The same, an edge counted as the product of its ends' levels."""
    scaled = graph * levels
    total = scaled.sum(axis=2) ** 2 - (scaled * levels).sum(axis=2)
    closed = ((scaled @ graph) * scaled).sum(axis=2)
    return total - closed + _TIE * by_weight(graph, levels)


@dataclass(frozen=True)
class Rule:
    """A number for each vertex; the lowest goes next.

    `of_graphs`: of every vertex of each graph, from graphs and levels. `lengths`: the same from
    neighbours: edges between them are counted as products of these lengths, given levels; None
    counts no edges.
    """

    of_graphs: Callable[[np.ndarray, np.ndarray], np.ndarray]
    lengths: Callable[[Sequence[int]], list[float]] | None


RULES = (
    Rule(by_weight, None),
    Rule(by_fill, lambda levels: [1.0] * len(levels)),
    Rule(by_weighted_fill, lambda levels: [float(n) for n in levels]),
)


def cliques_of(
    neighbours: Sequence[Iterable[int]], levels: Sequence[int], rule: Rule
) -> list[set[int]]:
    """The cliques that greedy elimination of one graph makes, as `eliminated` does."""
    around = [set(others) for others in neighbours]
    logs = logs_of(levels).tolist()
    lengths = rule.lengths(levels) if rule.lengths else None

    def score(vertex: int) -> float:
        near = around[vertex]
        weight = logs[vertex] + sum(logs[other] for other in near)
        if lengths is None:
            return weight
        total = sum(lengths[other] for other in near) ** 2
        total -= sum(lengths[other] ** 2 for other in near)
        closed = sum(lengths[a] * sum(lengths[b] for b in around[a] & near) for a in near)
        return total - closed + _TIE * weight

    scores = [score(vertex) for vertex in range(len(around))]
    queue = [(value, vertex) for vertex, value in enumerate(scores)]
    heapq.heapify(queue)
    cliques: list[set[int]] = []
    dead: set[int] = set()
    while queue:
        value, vertex = heapq.heappop(queue)
        if vertex in dead or value != scores[vertex]:
            continue  # an older score of it
        dead.add(vertex)
        near = around[vertex]
        cliques.append({vertex, *near})
        moved = set(near)
        for other in near:
            around[other].discard(vertex)
        for one, two in combinations(near, 2):
            if two not in around[one]:
                moved |= around[one] & around[two]
                around[one].add(two)
                around[two].add(one)
        for other in moved:
            scores[other] = score(other)
            heapq.heappush(queue, (scores[other], other))
    return cliques


def eliminated(graphs: np.ndarray, levels: Sequence[int], rule: Rule) -> np.ndarray:
    """Greedy elimination of many graphs in lock step.

    `graphs` is (graph, vertex, vertex), boolean, without loops. The answer is (graph, step,
    vertex): the clique that each step makes. Equal scores go to the lowest vertex.
    """
    graph = graphs.astype(np.float64)
    sizes = np.asarray(levels, dtype=np.float64)
    count, d = graph.shape[:2]
    rows = np.arange(count)
    dead = np.zeros((count, d), dtype=bool)
    cliques = np.zeros((count, d, d), dtype=bool)
    diagonal = np.arange(d)
    for step in range(d):
        score = rule.of_graphs(graph, sizes)
        score[dead] = np.inf
        vertex = score.argmin(axis=1)
        around = graph[rows, vertex]
        cliques[:, step] = around > 0
        cliques[rows, step, vertex] = True
        np.maximum(graph, around[:, :, None] * around[:, None, :], out=graph)
        graph[:, diagonal, diagonal] = 0.0
        graph[rows, vertex] = 0.0
        graph[rows, :, vertex] = 0.0
        dead[rows, vertex] = True
    return cliques


def total_cells(cliques: np.ndarray, levels: Sequence[int]) -> np.ndarray:
    """Cells of the maximal ones among each graph's elimination cliques."""
    sizes = np.where(cliques, np.asarray(levels, dtype=np.float64), 1.0).prod(axis=2)
    member = cliques.astype(np.float64)
    shared = member @ member.transpose(0, 2, 1)
    within = shared == shared.diagonal(axis1=1, axis2=2)[:, :, None]
    # An elimination clique can only be contained in one that was made before it.
    d = cliques.shape[1]
    contained = (within & np.tri(d, d, -1, dtype=bool)).any(axis=2)
    return (sizes * ~contained).sum(axis=1)
