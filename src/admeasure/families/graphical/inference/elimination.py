"""The order in which a product of potentials is summed out, planned once for a structure.

Bucket elimination along a junction tree: for one attribute after another, the tensors that hold it
are parted into two groups, each is multiplied, and the two are joined by one batched matrix product

    R[b, i, j] = sum over k of A[b, i, k] B[b, j, k]

where k are the attributes that nothing else holds. Where tensors overlap in such a way that one of
these products would be nearly as large as all of them together, the attribute is summed out of all
at once (`bucket`). A tensor whose attributes another one has is multiplied into that one, whose
cells stay where they are. An attribute goes only while it is in a single node of what is left of
the tree, so that no tensor is larger than a node.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.steps import Kind, Operand, Step
from admeasure.families.graphical.structure.cliques import maximal
from admeasure.families.graphical.structure.junction_tree import (
    Clique,
    JunctionTree,
    cells_of,
)

_MAX_SPLIT = 9
_FUSED_SHARE = 8
"""A product with a smaller part of its cells than this is better made beforehand."""

Split = tuple[float, list[int], list[int]]
"""What it costs, and two groups of tensors."""


class Elimination:
    """Steps that turn tensors on `cliques` (sorted, distinct, inside nodes) into scalars.

    Tensor t < len(cliques) is the t-th clique's; every step makes one more.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self._levels = tree.levels
        self.steps: list[Step] = []
        self._axes: list[Clique] = list(cliques)
        self._bits = [_bits_of(clique) for clique in cliques]
        self._known_cells: dict[int, int] = {0: 1}
        self._live = set(range(len(self._axes)))
        self._holders: dict[int, set[int]] = {a: set() for clique in cliques for a in clique}
        for t, clique in enumerate(cliques):
            for a in clique:
                self._holders[a].add(t)
        self._moved: set[int] = set()
        """Attributes whose tensors changed since their costs were looked at."""
        self._splits: dict[tuple[int, ...], Split] = {}
        self._eliminate_all(tree)
        self.scalars = sorted(self._live)
        """The tensors that are left at the end, one for each component."""

    def _eliminate_all(self, tree: JunctionTree) -> None:
        self._sum_out_lonely()
        nodes = _Nodes({*node} & self._holders.keys() for node in tree.nodes)
        self._moved |= nodes.single
        waiting: list[tuple[float, int]] = []
        while self._holders:
            # An attribute that is in one node only can go without making anything larger.
            for a in self._moved & nodes.single:
                heapq.heappush(waiting, (self._cost(sorted(self._holders[a])), a))
            self._moved.clear()
            cost, a = heapq.heappop(waiting)
            if a not in self._holders or cost != self._cost(sorted(self._holders[a])):
                continue  # what it was before its tensors changed; what it is now waits too
            before = self._holders.keys()
            self._eliminate(a)
            self._sum_out_lonely()
            self._moved |= nodes.without(before - self._holders.keys())
            self._moved &= self._holders.keys()

    def _sum_out_lonely(self) -> None:
        """Sum out at once every attribute that only one tensor still holds."""
        lonely: dict[int, list[int]] = {}
        for a, held_by in self._holders.items():
            if len(held_by) == 1:
                lonely.setdefault(next(iter(held_by)), []).append(a)
        for t, attributes in sorted(lonely.items()):
            kept = [a for a in self._axes[t] if a not in attributes]
            form = self._cells(kept), self._cells(attributes)
            self._make("sum", [(t, [*kept, *attributes], form)], kept)
        self._holders = {a: held_by for a, held_by in self._holders.items() if held_by}

    def _eliminate(self, attribute: int) -> None:
        """Bring all tensors that hold the attribute together, and sum it out."""
        self._absorb_within(attribute)
        tensors = sorted(self._holders[attribute])
        if len(tensors) < 2:
            return
        cost, first, second = self._split(tensors)
        if self._bucket_cost(tensors) < cost:
            self._sum_bucket(self._gathered(tensors), attribute)
        else:
            self._join(self._multiplied(first), self._multiplied(second))

    def _absorb_within(self, attribute: int) -> None:
        """Multiply tensors whose attributes another one has into that one: it grows no larger."""
        while True:
            pairs = itertools.combinations(self._by_size(self._holders[attribute]), 2)
            within = ((t, u) for t, u in pairs if {*self._axes[t]} <= {*self._axes[u]})
            found = next(within, None)
            if found is None:
                return
            self._join(*found)

    def _gathered(self, tensors: list[int]) -> list[int]:
        """The tensors with small products made beforehand, so that three factors or few more are
        left for the large one."""
        most = self._joint_cells(tensors) / _FUSED_SHARE
        while len(tensors) > 3:
            pair = min(itertools.combinations(tensors, 2), key=self._joint_cells)
            if self._joint_cells(pair) > most:
                break
            tensors = [*(t for t in tensors if t not in pair), self._join(*pair)]
        return tensors

    def _cost(self, tensors: list[int]) -> float:
        return min(self._split(tensors)[0], self._bucket_cost(tensors))

    def _bucket_cost(self, tensors: list[int]) -> float:
        joint = self._joint_cells(tensors)
        if joint < tuning.FUSED_CELLS or len(maximal(self._axes[t] for t in tensors)) < 3:
            return math.inf
        return tuning.FUSED_COST * joint

    def _split(self, tensors: list[int]) -> Split:
        """The cheapest way to part tensors into two groups that are multiplied, then joined."""
        key = tuple(tensors)
        if key not in self._splits:  # most wait unchanged for several steps
            self._splits[key] = self._cheapest(tensors)
        return self._splits[key]

    def _cheapest(self, tensors: list[int]) -> Split:
        if len(tensors) > _MAX_SPLIT:
            smallest, *others = self._by_size(tensors)
            return math.inf, [smallest], others
        # A group is a number whose bits are its tensors.
        costs, held = [0.0], [0]
        for group in range(1, 1 << len(tensors)):
            low = group & -group
            held.append(held[group ^ low] | self._bits[tensors[low.bit_length() - 1]])
            size = group.bit_count()
            costs.append(self._cells_of_bits(held[group]) * (size if size > 1 else 0.25))
        whole, joint = len(costs) - 1, self._cells_of_bits(held[-1]) / 8
        first = min(_smaller_parts(len(tensors)), key=lambda g: joint + costs[g] + costs[whole ^ g])
        return (
            joint + costs[first] + costs[whole ^ first],
            [t for k, t in enumerate(tensors) if first >> k & 1],
            [t for k, t in enumerate(tensors) if not first >> k & 1],
        )

    def _multiplied(self, group: list[int]) -> int:
        group = self._by_size(group)
        while len(group) > 1:
            group = [self._join(group[0], group[1]), *group[2:]]
        return group[0]

    def _join(self, left: int, right: int) -> int:
        """Two tensors multiplied, and what no other one holds summed out."""
        a, b = self._axes[left], self._axes[right]
        done = [x for x in a if self._holders[x] <= {left, right}]
        i, j = [x for x in a if x not in b], [x for x in b if x not in a]
        if not done and not i:
            part = [x for x in b if x in a]
            operands = [(left, part, self._spread(part, b)), (right, b, self._shape(b))]
            return self._make("absorb", operands, b)
        shared = [x for x in a if x in b and x not in done]
        k = [x for x in a if x in b and x in done]
        sides = [(left, i), (right, j)]
        operands = [
            (t, [*shared, *own, *k], (self._cells(shared), self._cells(own), self._cells(k)))
            for t, own in sides
        ]
        return self._make("product", operands, [*shared, *i, *j])

    def _sum_bucket(self, tensors: list[int], attribute: int) -> None:
        union = {a for t in tensors for a in self._axes[t]} - {attribute}
        order = sorted(union, key=lambda a: (self._levels[a], a))  # long rows of cells come last
        whole = [attribute, *order]
        held = [[a for a in whole if a in self._axes[t]] for t in tensors]
        operands = [(t, on, self._spread(on, whole)) for t, on in zip(tensors, held, strict=True)]
        self._make("bucket", operands, order)

    def _make(
        self,
        kind: Kind,
        operands: Iterable[tuple[int, Sequence[int], tuple[int, ...]]],
        axes: Sequence[int],
    ) -> int:
        """A step on tensors, each with its axes in an order and a form, in place of which its
        product stands from now on."""
        out, old = len(self._axes), []
        for t, order, form in operands:
            perm = tuple(self._axes[t].index(a) for a in order)
            inverse = tuple(np.argsort(perm).tolist())
            old.append(Operand(t, perm, self._shape(order), form, inverse))
        self.steps.append(Step(kind, tuple(old), out, self._shape(axes)))
        self._axes.append(tuple(axes))
        self._bits.append(_bits_of(axes))
        for operand in old:
            self._live.remove(operand.tensor)
            self._moved.update(self._axes[operand.tensor])
            for a in self._axes[operand.tensor]:
                self._holders[a].discard(operand.tensor)
        self._live.add(out)
        for a in axes:
            self._holders[a].add(out)
        return out

    def _by_size(self, tensors: Iterable[int]) -> list[int]:
        return sorted(tensors, key=lambda t: self._cells(self._axes[t]))

    def _joint_cells(self, tensors: Iterable[int]) -> int:
        held = 0
        for t in tensors:
            held |= self._bits[t]
        return self._cells_of_bits(held)

    def _cells_of_bits(self, held: int) -> int:
        """Cells of a set of attributes, a bit for each: a planned structure asks for few sets, very
        often."""
        found = self._known_cells.get(held)
        if found is None:
            low = held & -held
            found = self._levels[low.bit_length() - 1] * self._cells_of_bits(held ^ low)
            self._known_cells[held] = found
        return found

    def _cells(self, attributes: Iterable[int]) -> int:
        return cells_of(self._levels, attributes)

    def _shape(self, attributes: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._levels[a] for a in attributes)

    def _spread(self, attributes: Sequence[int], among: Sequence[int]) -> tuple[int, ...]:
        """A shape with length 1 for each of `among` that is lacking."""
        return tuple(self._levels[a] if a in attributes else 1 for a in among)


def _bits_of(attributes: Iterable[int]) -> int:
    return sum(1 << a for a in attributes)


@cache
def _smaller_parts(count: int) -> tuple[int, ...]:
    """Of so many things, parts of at most a half of them, small ones first, a bit for each thing:
    one of the two of each way to part them."""
    sizes = range(1, count // 2 + 1)
    parts = itertools.chain.from_iterable(
        itertools.combinations(range(count), size) for size in sizes
    )
    return tuple(map(_bits_of, parts))


class _Nodes:
    """The maximal ones among sets of attributes, while attributes go."""

    def __init__(self, nodes: Iterable[Iterable[int]]) -> None:
        self._nodes = [{*node} for node in maximal(nodes)]
        self._holding: dict[int, set[int]] = {}
        for k, node in enumerate(self._nodes):
            for a in node:
                self._holding.setdefault(a, set()).add(k)
        self.single = {a for a, held_by in self._holding.items() if len(held_by) == 1}
        """Attributes that are in one node only."""

    def without(self, attributes: Iterable[int]) -> set[int]:
        """Take attributes out; those that are single from now on."""
        smaller: set[int] = set()
        for a in attributes:
            self.single.discard(a)
            for k in self._holding.pop(a):
                self._nodes[k].discard(a)
                smaller.add(k)
        found: set[int] = set()
        for k in sorted(smaller):
            node = self._nodes[k]
            if node and len(set.intersection(*(self._holding[a] for a in node))) > 1:
                for a in node:  # another node holds it
                    self._holding[a].discard(k)
                    if len(self._holding[a]) == 1:
                        found.add(a)
                self._nodes[k] = set()
        self.single |= found
        return found
