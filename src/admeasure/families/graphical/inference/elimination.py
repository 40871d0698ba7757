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

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from admeasure.families.graphical.inference.tables import summed_onto
from admeasure.families.graphical.structure.junction_tree import (
    Clique,
    JunctionTree,
    cells_of,
    maximal,
)

_MAX_SPLIT = 9
_FUSED_CELLS = 1 << 15
"""A joint product of fewer cells is made quickly either way."""
_FUSED_COST = 0.5
"""What a cell of it costs at once, where a product of two tensors costs 2 (measured)."""
_FUSED_SHARE = 8
"""A product with a smaller part of its cells than this is better made beforehand."""


@dataclass(slots=True)
class Step:
    """R = A ×_k B, or the sum of A over k where `right` is negative."""

    left: int
    right: int
    out: int
    left_perm: tuple[int, ...]
    right_perm: tuple[int, ...]
    left_matrix: tuple[int, int, int]
    right_matrix: tuple[int, int, int]
    out_shape: tuple[int, ...]
    left_shape: tuple[int, ...] = ()  # after the permutation
    right_shape: tuple[int, ...] = ()
    left_back: tuple[int, ...] = ()
    right_back: tuple[int, ...] = ()
    summed: int = 1
    ones: np.ndarray = field(default_factory=lambda: np.ones(1))


@dataclass(slots=True)
class Absorb:
    """R = A B, axes as B's, which has all attributes of A.

    `perm` puts the axes of A in B's order, which gives it `shape`; `spread` is that with a 1 for
    each attribute that it lacks.
    """

    left: int
    right: int
    out: int
    perm: tuple[int, ...]
    shape: tuple[int, ...]
    spread: tuple[int, ...]
    out_shape: tuple[int, ...]

    def view(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        return tensors[self.left].transpose(self.perm).reshape(self.spread)

    def tensor(self, table: np.ndarray) -> np.ndarray:
        """What a table says of A, summed over what A lacks, axes in A's own order."""
        found = summed_onto(table, self.spread)
        return found.reshape(self.shape).transpose(np.argsort(self.perm))


@dataclass(slots=True)
class Bucket:
    """R = the sum over one attribute of the product of all factors.

    `perms` put that attribute first and the others in R's order, which gives the factors `shapes`;
    `spread` are those with a 1 for each attribute that a factor lacks.
    """

    factors: tuple[int, ...]
    out: int
    perms: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    spread: tuple[tuple[int, ...], ...]
    out_shape: tuple[int, ...]

    def views(self, tensors: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [
            np.ascontiguousarray(tensors[t].transpose(perm)).reshape(shape)
            for t, perm, shape in zip(self.factors, self.perms, self.spread, strict=True)
        ]

    def tensors(self, found: Sequence[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """The factors, and tables shaped as the views with axes in the factors' own order."""
        for t, perm, shape, table in zip(self.factors, self.perms, self.shapes, found, strict=True):
            yield t, table.reshape(shape).transpose(np.argsort(perm))


class Plan:
    """Steps that turn tensors on `cliques` (sorted, distinct, inside nodes) into scalars.

    Tensor t < len(cliques) is the t-th clique's; every step makes one more.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self.levels = tree.levels
        self.cliques = tuple(cliques)
        self.steps: list[Step | Absorb | Bucket] = []
        self._axes: list[Clique] = list(self.cliques)
        self._splits: dict[tuple[int, ...], tuple[float, list[int], list[int]]] = {}
        self.scalars = self._plan(tree)
        """The tensors that are left at the end, one for each component."""

    def _plan(self, tree: JunctionTree) -> list[int]:
        live = set(range(len(self.cliques)))
        holders: dict[int, set[int]] = {a: set() for clique in self.cliques for a in clique}
        for t in live:
            for a in self._axes[t]:
                holders[a].add(t)
        nodes = [set(node) & set(holders) for node in tree.nodes]

        def settle(nodes: list[set[int]]) -> None:
            """Sum out at once every attribute that only one tensor still holds."""
            lonely: dict[int, list[int]] = {}
            for a, held_by in holders.items():
                if len(held_by) == 1:
                    lonely.setdefault(next(iter(held_by)), []).append(a)
            for t, attributes in sorted(lonely.items()):
                self._replace(live, holders, (t,), self._sum(t, attributes))
            for a in [a for a, held_by in holders.items() if not held_by]:
                del holders[a]
                for node in nodes:
                    node.discard(a)

        settle(nodes)
        while holders:
            nodes = [set(node) for node in maximal(nodes)]
            counts: dict[int, list[int]] = {}
            for k, node in enumerate(nodes):
                for a in node:
                    counts.setdefault(a, []).append(k)
            # An attribute that is in one node only can go without making anything larger.
            options = sorted(a for a, where in counts.items() if len(where) == 1)
            best = min(options, key=lambda a: (self._cost(sorted(holders[a])), a))
            self._eliminate(live, holders, best)
            settle(nodes)
        return sorted(live)

    def _eliminate(self, live, holders, attribute: int) -> None:
        """Bring all tensors that hold the attribute together, and sum it out."""
        self._absorb(live, holders, attribute)
        bucket = sorted(holders[attribute])
        if len(bucket) < 2:
            return
        cost, first, second = self._split(bucket)
        if self._fused_cost(bucket) < cost:
            bucket = self._gathered(live, holders, bucket)
            self._replace(live, holders, tuple(bucket), self._fused(bucket, attribute))
            return
        left = self._product(live, holders, first)
        right = self._product(live, holders, second)
        self._join(live, holders, left, right)

    def _absorb(self, live, holders, attribute: int) -> None:
        """Multiply tensors whose attributes another one has into that one: it grows no larger."""
        while True:
            bucket = sorted(holders[attribute], key=lambda t: cells_of(self.levels, self._axes[t]))
            pairs = itertools.combinations(bucket, 2)
            found = next((p for p in pairs if set(self._axes[p[0]]) <= set(self._axes[p[1]])), None)
            if found is None:
                return
            self._join(live, holders, *found)

    def _gathered(self, live, holders, bucket: list[int]) -> list[int]:
        """The bucket with small products made beforehand, so that three factors or few more are
        left for the large one."""

        def union(pair: Iterable[int]) -> int:
            return cells_of(self.levels, {a for t in pair for a in self._axes[t]})

        most = union(bucket) / _FUSED_SHARE
        while len(bucket) > 3:
            pair = min(itertools.combinations(bucket, 2), key=union)
            if union(pair) > most:
                break
            bucket = [*(t for t in bucket if t not in pair), self._join(live, holders, *pair)]
        return bucket

    def _cost(self, bucket: list[int]) -> float:
        return min(self._split(bucket)[0], self._fused_cost(bucket))

    def _fused_cost(self, bucket: list[int]) -> float:
        joint = cells_of(self.levels, {a for t in bucket for a in self._axes[t]})
        if joint < _FUSED_CELLS or len(maximal(self._axes[t] for t in bucket)) < 3:
            return math.inf
        return _FUSED_COST * joint

    def _split(self, bucket: list[int]) -> tuple[float, list[int], list[int]]:
        """The cheapest way to part a bucket into two groups that are multiplied, then joined."""
        key = tuple(bucket)
        if key not in self._splits:  # most buckets wait unchanged for several steps
            self._splits[key] = self._cheapest(bucket)
        return self._splits[key]

    def _cheapest(self, bucket: list[int]) -> tuple[float, list[int], list[int]]:
        if len(bucket) > _MAX_SPLIT:
            bucket = sorted(bucket, key=lambda t: cells_of(self.levels, self._axes[t]))
            half = [bucket[0]], bucket[1:]
            return math.inf, *half
        best: tuple[float, list[int], list[int]] | None = None
        everything = {a for t in bucket for a in self._axes[t]}
        joint = cells_of(self.levels, everything)
        for size in range(1, len(bucket) // 2 + 1):
            for first in itertools.combinations(bucket, size):
                second = [t for t in bucket if t not in first]
                cost = joint / 8 + self._product_cost(first) + self._product_cost(second)
                if best is None or cost < best[0]:
                    best = cost, list(first), second
        assert best is not None
        return best

    def _product_cost(self, group: Sequence[int]) -> float:
        union = {a for t in group for a in self._axes[t]}
        return cells_of(self.levels, union) * (len(group) if len(group) > 1 else 0.25)

    def _product(self, live, holders, group: list[int]) -> int:
        group = sorted(group, key=lambda t: cells_of(self.levels, self._axes[t]))
        while len(group) > 1:
            group = [self._join(live, holders, group[0], group[1]), *group[2:]]
        return group[0]

    def _join(self, live, holders, left: int, right: int) -> int:
        done = {a for a in self._axes[left] if holders[a] <= {left, right}}
        if not done and set(self._axes[left]) <= set(self._axes[right]):
            out = self._absorbed(left, right)
        else:
            out = self._binary(left, right, done)
        self._replace(live, holders, (left, right), out)
        return out

    def _replace(self, live, holders, old: tuple[int, ...], new: int) -> None:
        live.difference_update(old)
        live.add(new)
        for t in old:
            for a in self._axes[t]:
                holders[a].discard(t)
        for a in self._axes[new]:
            holders[a].add(new)

    def _made(self, axes: Iterable[int]) -> int:
        """The number of the tensor that the next step makes."""
        self._axes.append(tuple(axes))
        return len(self._axes) - 1

    def _shape(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.levels[a] for a in axes)

    def _sum(self, t: int, attributes: list[int]) -> int:
        axes = self._axes[t]
        kept = [a for a in axes if a not in attributes]
        order = [*kept, *attributes]
        perm = tuple(axes.index(a) for a in order)
        rows, k = cells_of(self.levels, kept), cells_of(self.levels, attributes)
        out = self._made(kept)
        self.steps.append(
            Step(
                t,
                -1,
                out,
                perm,
                (),
                (1, rows, k),
                (1, 1, 1),
                self._shape(kept),
                left_shape=self._shape(order),
                left_back=tuple(np.argsort(perm).tolist()),
                summed=k,
                ones=np.ones(k),
            )
        )
        return out

    def _fused(self, bucket: list[int], attribute: int) -> int:
        union = {a for t in bucket for a in self._axes[t]} - {attribute}
        order = sorted(union, key=lambda a: (self.levels[a], a))  # long rows of cells come last
        out = self._made(order)
        held = [[a for a in (attribute, *order) if a in self._axes[t]] for t in bucket]
        self.steps.append(
            Bucket(
                tuple(bucket),
                out,
                perms=tuple(
                    tuple(self._axes[t].index(a) for a in axes)
                    for t, axes in zip(bucket, held, strict=True)
                ),
                shapes=tuple(self._shape(axes) for axes in held),
                spread=tuple(
                    tuple(self.levels[a] if a in axes else 1 for a in (attribute, *order))
                    for axes in held
                ),
                out_shape=self._shape(order),
            )
        )
        return out

    def _absorbed(self, left: int, right: int) -> int:
        a_axes, b_axes = self._axes[left], self._axes[right]
        held = [a for a in b_axes if a in a_axes]
        out = self._made(b_axes)
        self.steps.append(
            Absorb(
                left,
                right,
                out,
                perm=tuple(a_axes.index(a) for a in held),
                shape=self._shape(held),
                spread=tuple(self.levels[a] if a in held else 1 for a in b_axes),
                out_shape=self._shape(b_axes),
            )
        )
        return out

    def _binary(self, left: int, right: int, done: set[int]) -> int:
        a_axes, b_axes = self._axes[left], self._axes[right]
        shared = [a for a in a_axes if a in b_axes and a not in done]
        k = [a for a in a_axes if a in b_axes and a in done]
        i = [a for a in a_axes if a not in b_axes]
        j = [a for a in b_axes if a not in a_axes]
        out_axes = (*shared, *i, *j)
        a_order, b_order = [*shared, *i, *k], [*shared, *j, *k]
        a_perm = tuple(a_axes.index(a) for a in a_order)
        b_perm = tuple(b_axes.index(a) for a in b_order)
        nb, ni, nj, nk = (cells_of(self.levels, group) for group in (shared, i, j, k))
        out = self._made(out_axes)
        self.steps.append(
            Step(
                left,
                right,
                out,
                a_perm,
                b_perm,
                (nb, ni, nk),
                (nb, nj, nk),
                self._shape(out_axes),
                left_shape=self._shape(a_order),
                right_shape=self._shape(b_order),
                left_back=tuple(np.argsort(a_perm).tolist()),
                right_back=tuple(np.argsort(b_perm).tolist()),
                summed=nk,
            )
        )
        return out
