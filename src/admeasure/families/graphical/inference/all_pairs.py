"""The marginals of very many pairs of attributes of a junction tree, in one pass over its nodes.

The tree is walked from the leaves. Every attribute has a top: the node nearest the root that holds
it. For a node with separator S to its parent,

    C = p(x | S), one column for each level of each x whose top is in the node or below it,

is put together from the columns of its children: those with the same separator T share one product
p(T | S) C. Two attributes meet at the node where the ways from their tops join, and there all
pairs of a kind are one product:

    p(a, x) = sum over T of p(a, T) p(x | T)                       a of the node, x beyond T
    p(x, y) = sum over T, U of p(x | T) p(T, U) p(y | U)           x beyond T, y beyond U

Answers are those of the query-by-query cuts of `marginals` to rounding, for a small part of the
work where cliques are small and attributes many. Only positive numbers are added and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from admeasure.families.graphical.inference.tables import divide_rows
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, cells_of

Inside = Callable[[Clique], np.ndarray]
"""Expected counts of a set of attributes that some node holds."""
Found = Iterator[tuple[Clique, np.ndarray]]

WORK = 60_000
"""Multiplications that the pass may take for each pair, to be preferred to cuts one by one."""


@dataclass(frozen=True)
class Branch:
    """The children of a node with one separator, and the attributes with their tops below them."""

    separator: Clique
    children: tuple[int, ...]
    attributes: tuple[int, ...]
    """in the order of the columns"""
    child_of: dict[int, int]


class AllPairs:
    """What the pass over one tree does, and what it costs."""

    def __init__(self, tree: JunctionTree) -> None:
        self._levels = tree.levels
        children: dict[int, dict[Clique, list[int]]] = {k: {} for k in range(len(tree.nodes))}
        self._separator: dict[int, Clique] = {}
        for edge in tree.edges:
            children[edge.parent].setdefault(edge.separator, []).append(edge.child)
            self._separator[edge.child] = edge.separator
        # Parents stand before their children in the tree's edges.
        self._order = [0, *(edge.child for edge in tree.edges)][::-1]
        self._own: dict[int, Clique] = {}
        self._branches: dict[int, list[Branch]] = {}
        below: dict[int, tuple[int, ...]] = {}
        for k in self._order:
            above = self._separator.get(k, ())
            self._own[k] = tuple(a for a in tree.nodes[k] if a not in above)
            self._branches[k] = [
                Branch(
                    separator,
                    tuple(group),
                    tuple(a for c in group for a in below[c]),
                    {a: c for c in group for a in below[c]},
                )
                for separator, group in children[k].items()
            ]
            below[k] = (*self._own[k], *(a for b in self._branches[k] for a in b.attributes))
        self.work, self.largest = self._cost()

    def worth(self, pairs: int, limit_cells: float) -> bool:
        """Whether the pass is cheaper than so many cuts, and its tables are small enough."""
        return self.work <= WORK * pairs and self.largest <= limit_cells

    def answers(self, inside: Inside, wanted: Collection[Clique]) -> Found:
        """Each wanted pair, sorted, with its expected counts. Pairs inside a node are passed over,
        unless their tops differ."""
        columns: dict[int, np.ndarray] = {}
        for k in self._order:
            branches = self._branches[k]
            beyond = [np.concatenate([columns.pop(c) for c in b.children], 1) for b in branches]
            yield from self._with_node(k, beyond, inside, wanted)
            for branch, table in zip(branches, beyond, strict=True):
                if len(branch.children) > 1:
                    weight = inside(branch.separator).reshape(-1, 1)
                    block = (table * weight).T @ table
                    yield from self._read(block, branch, branch, wanted)
            for (one, left), (two, right) in combinations(zip(branches, beyond, strict=True), 2):
                joint = self._joint(one.separator, two.separator, inside)
                block = left.T @ (joint @ right)
                yield from self._read(block, one, two, wanted)
            if k in self._separator:
                columns[k] = self._columns(k, beyond, inside)

    def _with_node(
        self, k: int, beyond: Sequence[np.ndarray], inside: Inside, wanted: Collection[Clique]
    ) -> Found:
        """Pairs of an attribute with its top here and one below."""
        own = self._own[k]
        here = Branch((), (), own, dict.fromkeys(own, -1))
        for branch, table in zip(self._branches[k], beyond, strict=True):
            rows = [self._joint((a,), branch.separator, inside) for a in own]
            if rows:
                yield from self._read(np.concatenate(rows) @ table, here, branch, wanted)

    def _columns(self, k: int, beyond: Sequence[np.ndarray], inside: Inside) -> np.ndarray:
        """p(x | S) for every x with its top here or below."""
        separator = self._separator[k]
        tables = [self._joint(separator, (a,), inside) for a in self._own[k]]
        for branch, table in zip(self._branches[k], beyond, strict=True):
            tables.append(self._joint(separator, branch.separator, inside) @ table)
        return divide_rows(np.concatenate(tables, 1), inside(separator).reshape(-1))

    def _joint(self, one: Clique, two: Clique, inside: Inside) -> np.ndarray:
        """p(one, two) as (cells, cells); attributes that both hold agree, or the cell is 0."""
        union = tuple(sorted({*one, *two}))
        table = inside(union)
        shape = cells_of(self._levels, one), cells_of(self._levels, two)
        if len(union) == len(one) + len(two):
            perm = [union.index(a) for a in (*one, *two)]
            return table.transpose(perm).reshape(shape)
        spread = np.zeros(shape)
        spread[self._places(one, union), self._places(two, union)] = table
        return spread

    def _places(self, part: Clique, union: Clique) -> np.ndarray:
        """For every cell of the union the number of its cell of the part."""
        found, stride = np.zeros([1] * len(union), dtype=np.intp), 1
        for a in reversed(part):
            shape = [1] * len(union)
            shape[union.index(a)] = self._levels[a]
            found = found + stride * np.arange(self._levels[a]).reshape(shape)
            stride *= self._levels[a]
        return found

    def _read(
        self, block: np.ndarray, one: Branch, two: Branch, wanted: Collection[Clique]
    ) -> Found:
        """The wanted pairs of a block; of a branch with itself, those of different children."""
        ends = [np.cumsum([self._levels[a] for a in b.attributes]).tolist() for b in (one, two)]
        starts = [[0, *end[:-1]] for end in ends]
        columns = list(zip(two.attributes, starts[1], ends[1], strict=True))
        for x, top, bottom in zip(one.attributes, starts[0], ends[0], strict=True):
            rows, child = block[top:bottom], one.child_of[x]
            for y, left, right in columns:
                if x < y:
                    if (x, y) in wanted and child != two.child_of[y]:
                        yield (x, y), rows[:, left:right].copy()
                elif one is not two and (y, x) in wanted:
                    yield (y, x), rows[:, left:right].T.copy()

    def _cost(self) -> tuple[float, float]:
        """Multiplications, and the cells of the largest table."""
        work, largest = 0.0, 0.0
        for k, branches in self._branches.items():
            sizes = [
                (cells_of(self._levels, b.separator), sum(self._levels[a] for a in b.attributes))
                for b in branches
            ]
            own = sum(self._levels[a] for a in self._own[k])
            above = cells_of(self._levels, self._separator.get(k, ()))
            for t, (cells, width) in enumerate(sizes):
                work += cells * width * (own + above)
                largest = max(largest, cells * width, width * own, cells * above)
                if len(branches[t].children) > 1:
                    work += cells * width * width
                    largest = max(largest, width * width)
                for others, wide in sizes[t + 1 :]:
                    work += cells * wide * (others + width)
                    largest = max(largest, cells * others, width * wide)
        return work, largest
