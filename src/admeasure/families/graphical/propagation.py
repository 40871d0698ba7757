"""Any marginals of a calibrated junction tree, many at once.

A marginal inside a node is a projection of the node's table. One that spans several nodes is cut at
a separator S of the tree: with q1 on the near side and q2 beyond,

    p(q1, q2) = sum over S of p(q1, S) p(q2 | S).

All queries with the same near part and the same cut share one matrix product. Conditional tables
p(a | S) for each directed edge, projections and near parts are kept and used again; what is kept
is bounded (`_KEPT_CELLS`), and so is any one intermediate table (`limit_cells`).

Only positive numbers are added and multiplied: where a node says 0.0, so does every answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.beliefs import Beliefs
from admeasure.families.graphical.tables import sum_axis
from admeasure.families.graphical.tree import Clique, cells_of, megabytes_of

LIMIT_CELLS = 1 << 27
"""The most cells one intermediate table may have unless the caller says otherwise (1 GB)."""
_KEPT_CELLS = 1 << 23
_DEEP = 6.0
"""How much dearer a near part is that is not inside a node and must itself be cut."""


@dataclass(frozen=True)
class _Arc:
    """An edge of the tree seen from one end: `far` are the attributes strictly beyond it."""

    near: int
    node: int
    separator: Clique
    far: frozenset[int]


class Propagation:
    """Answers marginal queries from one set of beliefs."""

    def __init__(self, beliefs: Beliefs, limit_cells: float = LIMIT_CELLS) -> None:
        self._beliefs = beliefs
        self._levels = beliefs.tree.levels
        self._nodes = beliefs.tree.nodes
        self._sets = [frozenset(node) for node in self._nodes]
        self._limit = limit_cells
        self._by_size = sorted(
            range(len(self._nodes)), key=lambda k: (beliefs.tables[k].size, self._nodes[k])
        )
        self._arcs = self._find_arcs()
        self._onward: list[list[int]] = [
            [f for f, next_ in enumerate(self._arcs) if self._goes_on(arc, next_)]
            for arc in self._arcs
        ]
        self._kept: dict[Clique, np.ndarray] = {}
        self._kept_cells = 0
        self._conditionals: dict[tuple[int, int], np.ndarray] = {}
        d = len(self._levels)
        self._log_levels = np.log(self._levels)
        self._far = _indicator([arc.far for arc in self._arcs], d)
        self._separator = _indicator([arc.separator for arc in self._arcs], d)
        self._near = _indicator([self._nodes[arc.near] for arc in self._arcs], d)

    def marginals(self, queries: Sequence[Clique]) -> list[np.ndarray]:
        """Expected counts, one array for each query, axes in the query's order (sorted)."""
        answers: list[np.ndarray | None] = [None] * len(queries)
        across: list[int] = []
        for position, query in enumerate(queries):
            if self._home(query) is not None:
                answers[position] = self._inside(query)
            else:
                across.append(position)
        for (near, arc), members in self._group([queries[p] for p in across]).items():
            # One matrix product for all queries with this near part and this cut.
            for index, table in self._cut(near, arc, members):
                answers[across[index]] = table
        return [np.array(a) if a.base is not None else a for a in answers if a is not None]

    # The tree seen from every edge

    def _find_arcs(self) -> list[_Arc]:
        edges = self._beliefs.tree.edges
        neighbours: dict[int, list[int]] = {k: [] for k in range(len(self._nodes))}
        for edge in edges:
            neighbours[edge.parent].append(edge.child)
            neighbours[edge.child].append(edge.parent)
        arcs = []
        for edge in edges:
            for near, node in ((edge.parent, edge.child), (edge.child, edge.parent)):
                beyond, stack = set(self._sets[node]), [(node, near)]
                while stack:
                    at, origin = stack.pop()
                    for other in neighbours[at]:
                        if other != origin:
                            beyond |= self._sets[other]
                            stack.append((other, at))
                arcs.append(
                    _Arc(near, node, edge.separator, frozenset(beyond - set(edge.separator)))
                )
        return arcs

    @staticmethod
    def _goes_on(arc: _Arc, next_: _Arc) -> bool:
        return next_.near == arc.node and next_.node != arc.near

    # Where to cut

    def _group(self, queries: list[Clique]) -> dict[tuple[Clique, int], list[tuple[int, Clique]]]:
        """(near part, arc) -> the queries cut there, each with its position and far part."""
        groups: dict[tuple[Clique, int], list[tuple[int, Clique]]] = {}
        if not queries:
            return groups
        for index, arc in enumerate(self._best_cuts(queries).tolist()):
            far = self._arcs[arc].far
            near = tuple(a for a in queries[index] if a not in far)
            beyond = tuple(a for a in queries[index] if a in far)
            groups.setdefault((near, arc), []).append((index, beyond))
        return groups

    def _best_cuts(self, queries: Sequence[Clique]) -> np.ndarray:
        member = _indicator(queries, len(self._levels))
        logs = self._log_levels
        far = member @ self._far.T
        outside = member @ (1 - self._far - self._separator).clip(0).T
        # Cells of query ∪ S, of near part ∪ S and of far part ∪ S.
        joint = (member * logs).sum(axis=1)[:, None] + (1 - member) @ (self._separator * logs).T
        far_log = (member * logs) @ self._far.T
        near_cells = np.exp(joint - far_log)
        far_cells = np.exp(far_log + self._separator @ logs)
        easy = (member @ (1 - self._near - self._far).clip(0).T == 0) | (outside == 1)
        cost = np.exp(joint) / 16 + near_cells * np.where(easy, 1.0, _DEEP)
        cost += np.where(far > 1, _DEEP * far_cells, 0.0)
        cost[(far == 0) | (outside == 0)] = np.inf
        return cost.argmin(axis=1)

    # Tables

    def _home(self, query: Iterable[int]) -> int | None:
        wanted = frozenset(query)
        return next((k for k in self._by_size if wanted <= self._sets[k]), None)

    def _inside(self, query: Clique) -> np.ndarray:
        """A projection, by way of the sets that sum out the largest attributes first."""
        found = self._kept.get(query)
        if found is not None:
            return found
        home = self._home(query)
        assert home is not None
        node = self._nodes[home]
        if node == query:
            return self._beliefs.tables[home]
        missing = [a for a in node if a not in query]
        last = min(missing, key=lambda a: (self._levels[a], a))
        parent = tuple(sorted((*query, last)))
        table = sum_axis(self._inside(parent), parent.index(last))
        self._keep(query, table)
        return table

    def _keep(self, query: Clique, table: np.ndarray) -> None:
        if table.size > _KEPT_CELLS // 4:
            return
        if self._kept_cells + table.size > _KEPT_CELLS:
            self._kept.clear()
            self._kept_cells = 0
        self._kept[query] = table
        self._kept_cells += table.size

    def _joint(self, query: Clique) -> np.ndarray:
        """Expected counts of any set of attributes."""
        found = self._kept.get(query)
        if found is not None:
            return found
        if self._home(query) is not None:
            return self._inside(query)
        arc = int(self._best_cuts([query])[0])
        far = self._arcs[arc].far
        near = tuple(a for a in query if a not in far)
        beyond = tuple(a for a in query if a in far)
        [(_, table)] = self._cut(near, arc, [(0, beyond)])
        self._keep(query, table)
        return table

    def _near_part(self, near: Clique, arc: int, order: Sequence[int]) -> np.ndarray:
        """Expected counts of near ∪ S with axes in the given order."""
        separator = self._arcs[arc].separator
        own = [a for a in near if a not in separator]
        union = tuple(sorted({*near, *separator}))
        if len(own) == 1 and self._home(union) is None:
            table = self._conditional(arc ^ 1, own[0]) * self._inside(separator).reshape(-1, 1)
            table = table.reshape([self._levels[a] for a in (*separator, *own)])
            union = (*separator, *own)
        else:
            table = self._joint(union)
        return table.transpose([union.index(a) for a in order])

    def _conditional(self, arc: int, attribute: int) -> np.ndarray:
        """p(attribute | S) for one attribute beyond the arc, as (cells of S, levels)."""
        found = self._conditionals.get((arc, attribute))
        if found is not None:
            return found
        here = self._arcs[arc]
        separator = here.separator
        if attribute in self._nodes[here.node]:
            union = tuple(sorted((*separator, attribute)))
            joint = self._inside(union)
            joint = joint.transpose([union.index(a) for a in (*separator, attribute)])
            table = joint.reshape(-1, self._levels[attribute])
        else:
            onward = next(f for f in self._onward[arc] if attribute in self._arcs[f].far)
            table = self._near_by_far(separator, onward, [(attribute,)])
        table = _divide_rows(table, self._inside(separator).reshape(-1))
        self._conditionals[arc, attribute] = table
        return table

    def _near_by_far(self, near: Clique, arc: int, far: list[Clique]) -> np.ndarray:
        """p(near, far parts side by side): (cells of near in its order, sum of far cells).

        Rows are ordered with the attributes shared with S first unless there are none; callers
        that need `near` sorted pass through `_rows_sorted`.
        """
        separator = self._arcs[arc].separator
        shared = [a for a in near if a in separator]
        own = [a for a in near if a not in separator]
        rest = [a for a in separator if a not in near]
        cells = cells_of(self._levels, {*near, *separator})
        columns = sum(cells_of(self._levels, part) for part in far)
        self._check(max(cells, cells_of(self._levels, near) * columns))
        batch, rows, inner = (cells_of(self._levels, group) for group in (shared, own, rest))
        table = self._near_part(near, arc, [*shared, *own, *rest])
        left = np.ascontiguousarray(table).reshape(batch, rows, inner)
        right = self._far_part(arc, far, [*shared, *rest]).reshape(batch, inner, columns)
        if inner == 1:
            product = left * right
        elif batch == 1:
            product = (left[0] @ right[0])[None]
        else:
            product = left @ right
        return _rows_sorted(product, self._levels, [*shared, *own], near)

    def _far_part(self, arc: int, far: list[Clique], order: list[int]) -> np.ndarray:
        """p(far parts | S), side by side, with the rows' attributes in the given order."""
        separator = self._arcs[arc].separator
        parts = []
        for part in far:
            if len(part) == 1:
                parts.append(self._conditional(arc, part[0]))
                continue
            union = tuple(sorted({*part, *separator}))
            self._check(cells_of(self._levels, union))
            joint = self._joint(union).transpose([union.index(a) for a in (*separator, *part)])
            joint = joint.reshape(cells_of(self._levels, separator), -1)
            parts.append(_divide_rows(joint, self._inside(separator).reshape(-1)))
        table = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if tuple(order) == separator:
            return table
        shape = [self._levels[a] for a in separator]
        perm = [separator.index(a) for a in order]
        return np.ascontiguousarray(
            table.reshape(*shape, table.shape[1]).transpose(*perm, len(shape))
        )

    def _cut(
        self, near: Clique, arc: int, members: list[tuple[int, Clique]]
    ) -> list[tuple[int, np.ndarray]]:
        """Each member's table, attributes sorted."""
        far = [part for _, part in members]
        table = self._near_by_far(near, arc, far)
        answers, start = [], 0
        for index, part in members:
            width = cells_of(self._levels, part)
            order = (*near, *part)
            piece = table[:, start : start + width]
            piece = piece.reshape([self._levels[a] for a in order])
            query = tuple(sorted(order))
            piece = piece.transpose([order.index(a) for a in query])
            answers.append((index, np.ascontiguousarray(piece)))
            start += width
        return answers

    def _check(self, cells: int) -> None:
        if cells > self._limit:
            raise ResourceError(
                f"A marginal needs an intermediate table of {megabytes_of(cells):.3g} MB, over the "
                f"limit of {megabytes_of(self._limit):.3g} MB. Ask for fewer columns at once."
            )


def _indicator(sets: Sequence[Iterable[int]], d: int) -> np.ndarray:
    table = np.zeros((len(sets), d))
    for row, members in zip(table, sets, strict=True):
        row[list(members)] = 1.0
    return table


def _divide_rows(table: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Rows divided by their weights; a row that cannot occur is 0."""
    inverse = np.zeros_like(weight)
    np.divide(1.0, weight, out=inverse, where=weight > 1e-290)
    return table * inverse[:, None]


def _rows_sorted(
    product: np.ndarray, levels: Sequence[int], order: list[int], near: Clique
) -> np.ndarray:
    columns = product.shape[2]
    if tuple(order) == near:
        return product.reshape(-1, columns)
    shape = [levels[a] for a in order]
    perm = [order.index(a) for a in near]
    return product.reshape(*shape, columns).transpose(*perm, len(shape)).reshape(-1, columns)
