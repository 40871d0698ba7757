"""Calibrated tables: the expected counts of every node of a junction tree.

One pass in logarithms from the leaves to the root gives, for each node, the conditional table of
its own attributes given the separator to its parent; one pass of products from the root down gives
the nodes' tables. Row-wise maxima are taken where potentials differ widely, so the answers are
finite for potentials of any size, and a potential of -inf gives exactly 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from admeasure.errors import UsageError
from admeasure.families.graphical.structure.cliques import Holders
from admeasure.families.graphical.structure.junction_tree import (
    Clique,
    JunctionTree,
    cells_of,
)

_WIDE = 600.0
"""A table whose logarithms span less than this loses nothing to underflow after one shift."""


class ContradictionError(UsageError):
    """The structural zeros leave no possible record."""

    def __init__(self) -> None:
        super().__init__(
            "The structural zeros leave no possible record. Remove or narrow one of the rules."
        )


@dataclass(frozen=True)
class Beliefs:
    """Tables of expected counts, one for each node, axes in the node's order."""

    tree: JunctionTree
    total: float
    tables: tuple[np.ndarray, ...]
    log_z: float


def calibrate(tree: JunctionTree, potentials: Mapping[Clique, np.ndarray], total: float) -> Beliefs:
    """The expected counts of every node under exp(sum of potentials) / Z, scaled to `total`."""
    levels, nodes = tree.levels, tree.nodes
    logs = _node_potentials(tree, potentials)
    conditionals: list[np.ndarray] = [np.empty(0)] * len(nodes)
    for edge in reversed(tree.edges):
        node = nodes[edge.child]
        own = [a for a in node if a not in edge.separator]
        perm = [node.index(a) for a in (*edge.separator, *own)]
        rows = cells_of(levels, edge.separator)
        matrix = np.ascontiguousarray(logs[edge.child].transpose(perm)).reshape(rows, -1)
        message, conditional = _normalise(matrix)
        conditionals[edge.child] = conditional
        parent = nodes[edge.parent]
        shape = tuple(levels[a] if a in edge.separator else 1 for a in parent)
        logs[edge.parent] += message.reshape(shape)
    root = logs[0].reshape(1, -1)
    log_z, table = _normalise(root)
    if not math.isfinite(log_z[0]):
        raise ContradictionError
    tables: list[np.ndarray] = [np.empty(0)] * len(nodes)
    tables[0] = (table * total).reshape(logs[0].shape)
    for edge in tree.edges:
        parent, node = nodes[edge.parent], nodes[edge.child]
        away = tuple(i for i, a in enumerate(parent) if a not in edge.separator)
        weight = tables[edge.parent].sum(axis=away).reshape(-1, 1)
        own = [a for a in node if a not in edge.separator]
        order = [*edge.separator, *own]
        joint = conditionals[edge.child]
        joint *= weight
        joint = joint.reshape([levels[a] for a in order])
        tables[edge.child] = np.ascontiguousarray(joint.transpose([order.index(a) for a in node]))
    return Beliefs(tree, total, tuple(tables), float(log_z[0]))


def _node_potentials(
    tree: JunctionTree, potentials: Mapping[Clique, np.ndarray]
) -> list[np.ndarray]:
    """Each node's log table: every potential is added to the smallest node that holds it."""
    levels, nodes = tree.levels, tree.nodes
    logs = [np.zeros([levels[a] for a in node]) for node in nodes]
    by_size = sorted(range(len(nodes)), key=lambda k: (logs[k].size, k))
    holders = Holders(nodes[k] for k in by_size)
    for clique, theta in potentials.items():
        place = holders.first(clique)
        if place is None:
            raise ValueError(f"no node of the tree holds the clique {clique}")
        home = by_size[place]
        logs[home] += theta.reshape([levels[a] if a in clique else 1 for a in nodes[home]])
    return logs


def _normalise(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log of each row's sum of exponentials, each row's share); an impossible row is 0."""
    top = matrix.max()
    if not top < math.inf:
        raise ValueError("a potential is not a number or infinite")
    if matrix.min() > top - _WIDE:
        shift: np.ndarray | float = float(top)
    else:
        shift = matrix.max(axis=1, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0.0)
    table = matrix - shift
    np.exp(table, out=table)
    sums = table @ np.ones(table.shape[1])
    with np.errstate(divide="ignore"):
        message = np.log(sums) + np.ravel(shift)
    table /= np.where(sums > 0, sums, 1.0)[:, None]
    return message, table
