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

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from admeasure.families.graphical.inference.tables import divide_rows
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, cells_of

Inside = Callable[[Clique], np.ndarray]
"""Expected counts of a set of attributes that some node holds."""
Found = Iterator[tuple[Clique, np.ndarray]]
Blocks = Iterator[tuple[np.ndarray, Clique, Clique]]
"""All pairs of an attribute of the one set, rows, with one of the other, columns."""

WORK = 1_000_000
"""Multiplications that the pass may take for each pair, to be preferred to cuts one by one."""


@dataclass(frozen=True)
class Branch:
    """The children of a node with one separator, and the attributes with their tops below them."""

    separator: Clique
    children: tuple[int, ...]
    attributes: tuple[int, ...]
    """in the order of the columns, those of one child after the other"""
    widths: tuple[int, ...]
    """how many of them are of each child"""
    cells: int
    """of the separator"""
    width: int
    """levels of the attributes: how many columns they have"""

    @property
    def size(self) -> int:
        """Cells of all columns."""
        return self.cells * self.width


class PairCounts:
    """The expected counts of pairs of attributes, all in one table with a row and a column for each
    level of each attribute. Of two attributes it holds those in the rows of the one that is first
    in `order`."""

    def __init__(self, levels: Sequence[int], order: Sequence[int]) -> None:
        self._start = [0] * len(levels)
        end = 0
        for a in order:
            self._start[a], end = end, end + levels[a]
        self._end = [start + n for start, n in zip(self._start, levels, strict=True)]
        self._counts = np.empty((end, end))

    def place(self, block: np.ndarray, one: Clique, two: Clique) -> None:
        """Pairs of attributes that are neighbours in `order` with such as are later neighbours."""
        rows = slice(self._start[one[0]], self._end[one[-1]])
        self._counts[rows, self._start[two[0]] : self._end[two[-1]]] = block

    def of(self, pairs: Iterable[Clique]) -> list[np.ndarray]:
        """Copies of the counts of pairs that no node holds."""
        start, end, counts, found = self._start, self._end, self._counts, []
        for x, y in pairs:
            if start[x] < start[y]:
                found.append(counts[start[x] : end[x], start[y] : end[y]].copy())
            else:
                found.append(counts[start[y] : end[y], start[x] : end[x]].T.copy())
        return found


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
                self._branch(separator, group, [below[c] for c in group])
                for separator, group in children[k].items()
            ]
            below[k] = (*self._own[k], *(a for b in self._branches[k] for a in b.attributes))
        self._in_order = below[0]
        """All attributes, those with their tops in one subtree beside each other."""
        self.work = sum(self._work(k) for k in self._order)
        self.held = self._held()

    def _branch(
        self, separator: Clique, children: Sequence[int], below: Sequence[Sequence[int]]
    ) -> Branch:
        attributes = tuple(a for some in below for a in some)
        cells, width = cells_of(self._levels, separator), sum(self._levels[a] for a in attributes)
        widths = tuple(map(len, below))
        return Branch(separator, tuple(children), attributes, widths, cells, width)

    def worth(self, pairs: int, limit_cells: float) -> bool:
        """Whether the pass is cheaper than so many cuts, and what it holds is small enough."""
        return self.work <= WORK * pairs and self.held <= limit_cells

    @property
    def cells(self) -> int:
        """Of the one table that holds all pairs (`PairCounts`)."""
        return sum(self._levels) ** 2

    def tables(self, inside: Inside) -> PairCounts:
        """All pairs that no node holds, in one table."""
        found = PairCounts(self._levels, self._in_order)
        for block, one, two in self._blocks(inside):
            found.place(block, one, two)
        return found

    def answers(self, inside: Inside, wanted: Collection[Clique]) -> Found:
        """Each wanted pair, sorted, with its expected counts, while few blocks are held. Pairs
        inside a node are passed over, unless their tops differ."""
        for block, one, two in self._blocks(inside):
            yield from self._read(block, one, two, wanted)

    def _blocks(self, inside: Inside) -> Blocks:
        columns: dict[int, np.ndarray] = {}
        for k in self._order:
            branches = self._branches[k]
            beyond = [np.concatenate([columns.pop(c) for c in b.children], 1) for b in branches]
            yield from self._with_node(k, beyond, inside)
            for branch, table in zip(branches, beyond, strict=True):
                if len(branch.children) > 1:
                    weight = inside(branch.separator).reshape(-1, 1)
                    yield from self._of_children(branch, table * weight, table)
            for (one, left), (two, right) in combinations(zip(branches, beyond, strict=True), 2):
                block = self._between(one, left, two, right, inside)
                yield block, one.attributes, two.attributes
            if k in self._separator:
                columns[k] = self._columns(k, beyond, inside)

    def _of_children(self, branch: Branch, joint: np.ndarray, given: np.ndarray) -> Blocks:
        """Of a branch with itself, the pairs of different children: half of the children with the
        other half, and then the same inside each half."""
        first = np.cumsum([0, *branch.widths]).tolist()
        column = np.cumsum([0, *(self._levels[a] for a in branch.attributes)]).tolist()
        halves = [(0, len(branch.children))]
        while halves:
            begin, end = halves.pop()
            if end - begin < 2:
                continue
            middle = (begin + end) // 2
            a, b, c = (first[child] for child in (begin, middle, end))
            block = joint[:, column[a] : column[b]].T @ given[:, column[b] : column[c]]
            yield block, branch.attributes[a:b], branch.attributes[b:c]
            halves += [(begin, middle), (middle, end)]

    def _with_node(self, k: int, beyond: Sequence[np.ndarray], inside: Inside) -> Blocks:
        """Pairs of an attribute with its top here and one below."""
        own = self._own[k]
        for branch, table in zip(self._branches[k], beyond, strict=True):
            rows = [self._carried((a,), branch.separator, table, inside) for a in own]
            if rows:
                yield np.concatenate(rows), own, branch.attributes

    def _columns(self, k: int, beyond: Sequence[np.ndarray], inside: Inside) -> np.ndarray:
        """p(x | S) for every x with its top here or below."""
        separator = self._separator[k]
        weight = inside(separator).reshape(-1)
        tables = []
        for a in self._own[k]:
            joint = self._joint(separator, (a,), inside).reshape(len(weight), -1)
            tables.append(divide_rows(joint, weight))
        for branch, table in zip(self._branches[k], beyond, strict=True):
            tables.append(self._carried(separator, branch.separator, table, inside, given=True))
        return np.concatenate(tables, 1)

    def _between(
        self, one: Branch, left: np.ndarray, two: Branch, right: np.ndarray, inside: Inside
    ) -> np.ndarray:
        """p(x, y) for x beyond one branch and y beyond the other: the columns of one of them are
        carried to the separator of the other."""
        if self._meeting(one, two) <= self._meeting(two, one):
            return left.T @ self._carried(one.separator, two.separator, right, inside)
        return self._carried(two.separator, one.separator, left, inside).T @ right

    def _carried(
        self,
        to: Clique,
        separator: Clique,
        table: np.ndarray,
        inside: Inside,
        *,
        given: bool = False,
    ) -> np.ndarray:
        """Σ over U of p(T, U) table[U] for another separator T, or of p(U | T) table[U] where it is
        `given`: for each of the cells that both have in common one product."""
        common, own = _split(to, separator)
        shared, rest = _split(separator, to)
        sizes = [cells_of(self._levels, side) for side in (common, own, rest)]
        joint = self._joint(to, separator, inside)
        if given:
            weight = inside(to).transpose([to.index(a) for a in (*common, *own)])
            joint = divide_rows(joint, weight.reshape(sizes[:2])).reshape(sizes)
        right = self._moved(table, separator, (*shared, *rest))
        product = joint @ right.reshape(sizes[0], sizes[2], table.shape[1])
        return self._moved(product.reshape(-1, table.shape[1]), (*common, *own), to)

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
        self, block: np.ndarray, one: Clique, two: Clique, wanted: Collection[Clique]
    ) -> Found:
        """The wanted pairs of a block."""
        ends = [np.cumsum([self._levels[a] for a in side]).tolist() for side in (one, two)]
        starts = [[0, *end[:-1]] for end in ends]
        columns = list(zip(two, starts[1], ends[1], strict=True))
        for x, top, bottom in zip(one, starts[0], ends[0], strict=True):
            rows = block[top:bottom]
            for y, left, right in columns:
                if x < y:
                    if (x, y) in wanted:
                        yield (x, y), rows[:, left:right].copy()
                elif (y, x) in wanted:
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
        work += sum(float(b.size) * b.width / 2 for b in branches if len(b.children) > 1)
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
