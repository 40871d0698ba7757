"""Rows whose marginals are as close to a model's answers as whole rows allow."""

from __future__ import annotations

import numpy as np

from admeasure.families.graphical.beliefs import Beliefs
from admeasure.families.graphical.tree import cells_of


def sample(beliefs: Beliefs, rows: int, rng: np.random.Generator) -> np.ndarray:
    tree = beliefs.tree
    levels = tree.levels
    codes = np.zeros((rows, len(levels)), dtype=np.min_scalar_type(max(levels) - 1))
    plan = [(0, ())] + [(e.child, e.separator) for e in tree.edges]
    for node_i, sep in plan:
        node = tree.nodes[node_i]
        own = [a for a in node if a not in sep]
        table = beliefs.tables[node_i].transpose([node.index(a) for a in (*sep, *own)])
        table = table.reshape(cells_of(levels, sep), -1)
        group = np.zeros(rows, dtype=np.int64)
        for a in sep:
            group = group * levels[a] + codes[:, a]
        value = _draw(table, group, rng)
        for a in reversed(own):
            codes[:, a] = value % levels[a]
            value //= levels[a]
    return codes


def _draw(table, group, rng):
    rows = len(group)
    n = np.bincount(group, minlength=len(table))
    used = np.flatnonzero(n)
    p = table[used]
    p = p / p.sum(1, keepdims=True)
    n = n[used]
    cum = np.cumsum(p, axis=1) * n[:, None]
    cum[:, -1] = n
    u = rng.random(len(used))[:, None]
    edge = np.floor(cum + u)
    edge[:, -1] = n
    counts = np.diff(edge, axis=1, prepend=0).astype(np.int64)
    vals = np.repeat(np.tile(np.arange(table.shape[1]), len(used)), counts.ravel())
    order = np.lexsort((rng.random(rows), group))
    out = np.empty(rows, dtype=np.int64)
    out[order] = vals
    return out
