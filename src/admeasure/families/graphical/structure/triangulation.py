"""Triangulation of graphs over attributes by greedy elimination, many graphs in lock step.

A vertex is eliminated by joining its neighbours; with it they are a clique of the triangulated
graph. Which vertex goes next is the rule's affair: min-weight, min-fill or weighted min-fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

Clique = tuple[int, ...]
Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A number for each vertex of each graph, from graphs and levels; the lowest goes next."""


def adjacency(d: int, cliques: Iterable[Clique]) -> np.ndarray:
    graph = np.zeros((d, d), dtype=bool)
    for clique in cliques:
        graph[np.ix_(clique, clique)] = True
    graph[np.arange(d), np.arange(d)] = False
    return graph


def by_weight(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Cells of the clique that eliminating each vertex would make, as a logarithm."""
    logs = np.log(levels)
    return graph @ logs + logs


def by_fill(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Edges that eliminating each vertex would add; ties go to the smaller clique."""
    degree = graph.sum(axis=2)
    closed = ((graph @ graph) * graph).sum(axis=2)
    return degree * (degree - 1) - closed + 1e-4 * by_weight(graph, levels)


def by_weighted_fill(graph: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The same, an edge counted as the product of its ends' levels."""
    scaled = graph * levels
    total = scaled.sum(axis=2) ** 2 - (scaled * levels).sum(axis=2)
    closed = ((scaled @ graph) * scaled).sum(axis=2)
    return total - closed + 1e-4 * by_weight(graph, levels)


RULES = (by_weight, by_fill, by_weighted_fill)


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
        score = rule(graph, sizes)
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
