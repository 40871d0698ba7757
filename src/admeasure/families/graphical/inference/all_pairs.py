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

WORK = 200_000
"""Multiplications that the pass may take for each pair, to be preferred to cuts one by one."""


@dataclass(frozen=True)
class Branch:
    """The children of a node with one separator, and the attributes with their tops below them."""

    separator: Clique
    children: tuple[int, ...]
    attributes: tuple[int, ...]
    """in the order of the columns"""
    child_of: dict[int, int]
    cells: int
    """of the separator"""
    width: int
    """levels of the attributes: how many columns they have"""

    @property
    def size(self) -> int:
        """Cells of all columns."""
        return self.cells * self.width


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
                self._branch(separator, {a: c for c in group for a in below[c]})
                for separator, group in children[k].items()
            ]
            below[k] = (*self._own[k], *(a for b in self._branches[k] for a in b.attributes))
        self.work = sum(self._work(k) for k in self._order)
        self.held = self._held()

    def _branch(self, separator: Clique, child_of: dict[int, int]) -> Branch:
        cells, width = cells_of(self._levels, separator), sum(self._levels[a] for a in child_of)
        children = tuple(dict.fromkeys(child_of.values()))
        return Branch(separator, children, tuple(child_of), child_of, cells, width)

    def worth(self, pairs: int, limit_cells: float) -> bool:
        """Whether the pass is cheaper than so many cuts, and what it holds is small enough."""
        return self.work <= WORK * pairs and self.held <= limit_cells

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
                block = self._between(one, left, two, right, inside)
                yield from self._read(block, one, two, wanted)
            if k in self._separator:
                columns[k] = self._columns(k, beyond, inside)

    def _with_node(
        self, k: int, beyond: Sequence[np.ndarray], inside: Inside, wanted: Collection[Clique]
    ) -> Found:
        """Pairs of an attribute with its top here and one below."""
        own = self._own[k]
        here = self._branch((), dict.fromkeys(own, -1))
        for branch, table in zip(self._branches[k], beyond, strict=True):
            rows = [self._carried((a,), branch.separator, table, inside) for a in own]
            if rows:
                yield from self._read(np.concatenate(rows), here, branch, wanted)

    def _columns(self, k: int, beyond: Sequence[np.ndarray], inside: Inside) -> np.ndarray:
        """p(x | S) for every x with its top here or below."""
        separator = self._separator[k]
        cells = cells_of(self._levels, separator)
        tables = [self._joint(separator, (a,), inside).reshape(cells, -1) for a in self._own[k]]
        for branch, table in zip(self._branches[k], beyond, strict=True):
            tables.append(self._carried(separator, branch.separator, table, inside))
        return divide_rows(np.concatenate(tables, 1), inside(separator).reshape(-1))

    def _between(
        self, one: Branch, left: np.ndarray, two: Branch, right: np.ndarray, inside: Inside
    ) -> np.ndarray:
        """p(x, y) for x beyond one branch and y beyond the other: the columns of one of them are
        carried to the separator of the other."""
        if self._meeting(one, two) <= self._meeting(two, one):
            return left.T @ self._carried(one.separator, two.separator, right, inside)
        return self._carried(two.separator, one.separator, left, inside).T @ right

    def _carried(
        self, to: Clique, separator: Clique, table: np.ndarray, inside: Inside
    ) -> np.ndarray:
        """Σ over U of p(T, U) table[U] for another separator T: for each of the cells that both
        have in common one product."""
        shared, rest = _split(separator, to)
        joint = self._joint(to, separator, inside)
        right = self._moved(table, separator, (*shared, *rest))
        product = joint @ right.reshape(len(joint), joint.shape[2], table.shape[1])
        shared, own = _split(to, separator)
        return self._moved(product.reshape(-1, table.shape[1]), (*shared, *own), to)

    def _joint(self, one: Clique, two: Clique, inside: Inside) -> np.ndarray:
        """p(one ∪ two) with an axis for the cells of what both hold, and of the rest of each."""
        shared, own = _split(one, two)
        sides = shared, own, _split(two, one)[1]
        union = tuple(sorted({*one, *two}))
        table = inside(union).transpose([union.index(a) for side in sides for a in side])
        return table.reshape([cells_of(self._levels, side) for side in sides])

    def _moved(self, table: np.ndarray, order: Clique, to: Clique) -> np.ndarray:
        """Columns by the cells of a separator, with its attributes in another order."""
        if order == to:
            return table
        shape = [self._levels[a] for a in order]
        perm = [order.index(a) for a in to]
        return table.reshape(*shape, -1).transpose(*perm, len(perm)).reshape(table.shape)

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

    def _carrying(self, to: Clique, branch: Branch) -> float:
        """Multiplications to carry the columns of a branch to other attributes of its node."""
        return float(cells_of(self._levels, {*to, *branch.separator})) * branch.width

    def _meeting(self, one: Branch, two: Branch) -> float:
        """The same to carry those of the second to the first, and for their products there."""
        return self._carrying(one.separator, two) + float(one.size) * two.width

    def _work(self, k: int) -> float:
        """Multiplications at a node."""
        branches = self._branches[k]
        goals = [self._separator.get(k, ()), *((a,) for a in self._own[k])]
        work = sum(self._carrying(goal, b) for goal in goals for b in branches)
        work += sum(float(b.size) * b.width for b in branches if len(b.children) > 1)
        pairs = combinations(branches, 2)
        return work + sum(min(self._meeting(a, b), self._meeting(b, a)) for a, b in pairs)

    def _held(self) -> float:
        """Cells that are held at a time, at the most."""
        most, waiting = 0, {}
        for k in self._order:
            branches, own = self._branches[k], sum(self._levels[a] for a in self._own[k])
            for branch in branches:
                for child in branch.children:
                    waiting.pop(child)
            above = cells_of(self._levels, self._separator.get(k, ()))
            waiting[k] = above * (own + sum(b.width for b in branches))
            blocks = [b.width * max(own, b.width) for b in branches]
            blocks += [
                a.width * b.width + 2 * max(a.cells * b.width, b.cells * a.width)
                for a, b in combinations(branches, 2)
            ]
            here = 3 * sum(b.size for b in branches) + max(blocks, default=0)
            most = max(most, sum(waiting.values()) + waiting[k] + here)
        return float(most)


def _split(one: Clique, two: Clique) -> tuple[Clique, Clique]:
    """What of the one is in the other, and what is not."""
    return tuple(a for a in one if a in two), tuple(a for a in one if a not in two)
