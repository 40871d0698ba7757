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

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.beliefs import Beliefs
from admeasure.families.graphical.cuts import Cuts
from admeasure.families.graphical.tables import sum_axis
from admeasure.families.graphical.tree import Clique, cells_of, megabytes_of

LIMIT_CELLS = 1 << 27
"""The most cells one intermediate table may have unless the caller says otherwise (1 GB)."""
_KEPT_CELLS = 1 << 23
_BLOCK_CELLS = 1 << 15
"""Cells of a block that stays in cache."""


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
        self._cuts = Cuts(beliefs.tree, limit_cells)
        self._arcs = self._cuts.arcs
        self._kept: dict[Clique, np.ndarray] = {}
        self._kept_cells = 0
        self._conditionals: dict[tuple[int, int], np.ndarray] = {}

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

    def _group(self, queries: list[Clique]) -> dict[tuple[Clique, int], list[tuple[int, Clique]]]:
        """(near part, arc) -> the queries cut there, each with its position and far part."""
        groups: dict[tuple[Clique, int], list[tuple[int, Clique]]] = {}
        for index, arc in enumerate(self._cuts.best(queries)):
            near, far = self._cuts.parts(queries[index], arc)
            groups.setdefault((near, arc), []).append((index, far))
        return groups

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
        [arc] = self._cuts.best([query])
        near, far = self._cuts.parts(query, arc)
        [(_, table)] = self._cut(near, arc, [(0, far)])
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
            onward = next(f for f in self._cuts.onward[arc] if attribute in self._arcs[f].far)
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
        columns = sum(cells_of(self._levels, part) for part in far)
        self._check(cells_of(self._levels, near) * columns)
        if len(own) == 2 and not shared and self._home({*near, *separator}) is None:
            star = self._cuts.hanging(arc, *own)
            if star is not None:
                return self._star(arc, star, near, self._far_part(arc, far, rest))
        self._check(cells_of(self._levels, {*near, *separator}))
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

    def _star(
        self, arc: int, star: tuple[int, int, int], near: Clique, right: np.ndarray
    ) -> np.ndarray:
        """p(a, b, far) = sum over S of p(a | S) p(b, S) p(far | S), a block of S at a time."""
        hung, a, b = star
        separator = self._arcs[arc].separator
        first = self._rows_over(separator, hung, a)
        second = self._near_part((b,), arc, (*separator, b))
        second = np.ascontiguousarray(second).reshape(len(first), -1)
        na, nb = first.shape[1], second.shape[1]
        product = np.zeros((na * nb, right.shape[1]))
        step = max(16, _BLOCK_CELLS // (na * nb))
        for s in range(0, len(first), step):
            pair = first[s : s + step, :, None] * second[s : s + step, None, :]
            product += pair.reshape(-1, na * nb).T @ right[s : s + step]
        return _rows_sorted(product[None], self._levels, [a, b], near)

    def _rows_over(self, separator: Clique, arc: int, attribute: int) -> np.ndarray:
        """p(attribute | S of the arc) with a row for every cell of a larger separator."""
        inner = self._arcs[arc].separator
        table = self._conditional(arc, attribute)
        if inner == separator:
            return table
        shape = [self._levels[c] if c in inner else 1 for c in separator]
        full = [*(self._levels[c] for c in separator), table.shape[1]]
        return np.broadcast_to(table.reshape(*shape, -1), full).reshape(-1, table.shape[1])

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
