"""Marginals of attributes that hang on different branches of a junction tree.

The ways to the attributes of a query meet at a node k. With S_a the separator of the arc out of k
beyond which attribute a lies, and x_k the attributes of k,

    p(q) = sum over x_k outside q of p(x_k) * product over a outside k of p(a | S_a).

The product is never written out. Its factors are multiplied two at a time, in the cheapest order,
an attribute summed out as soon as no other factor holds it; and all of that for a few cells at a
time of the attributes that are summed last, so that what is between the factors and the answer
stays in cache. Only positive numbers are added and multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.cuts import Arc
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree, cells_of

_MULTIPLIED = 1 / 16
"""Cost of one multiplication inside a matrix product, against reading and writing a cell."""
_SLICES = -1
"""The axis of the slices that are worked on together, beside those of attributes."""


@dataclass(frozen=True)
class PairwiseProduct:
    """Two tables multiplied, by number; what is summed is in both of them and in no other."""

    left: int
    right: int
    kept: frozenset[int]
    summed: frozenset[int]


@dataclass(frozen=True)
class ContractionPath:
    """How to answer one query. Tables are numbered: the factors, then each product in turn."""

    query: Clique
    beyond: tuple[tuple[int, int], ...]
    """(arc, attribute)"""
    factors: tuple[Clique, ...]
    """axes: those of the node that matter; separator and attribute for each of `beyond`"""
    products: tuple[PairwiseProduct, ...]
    sliced: Clique
    together: int
    """how many slices are worked on at a time"""


class Branches:
    """The ways to meet at the nodes of one tree."""

    def __init__(self, tree: JunctionTree, arcs: Sequence[Arc], limit_cells: float) -> None:
        self._levels = tree.levels
        self._limit = limit_cells
        self._aim = int(min(tuning.SLICE_CELLS, limit_cells))
        self._arcs = arcs
        self._sets = [frozenset(node) for node in tree.nodes]
        self._out: list[list[int]] = [[] for _ in tree.nodes]
        for e, arc in enumerate(arcs):
            self._out[arc.near].append(e)

    def path(self, query: Clique, below: float) -> ContractionPath | None:
        """The cheapest path that keeps to the limit and costs less than `below`, in cells read and
        written, if any."""
        best = None
        for k, node in enumerate(self._sets):
            beyond = [(e, a) for e in self._out[k] for a in query if a in self._arcs[e].far]
            if len(beyond) < 2 or len({e for e, _ in beyond}) < len(beyond):
                continue
            far = [(*self._arcs[e].separator, a) for e, a in beyond]
            factors = (tuple(sorted(node & {*query}.union(*far))), *far)
            if max(cells_of(self._levels, whole) for whole in (query, *factors)) > self._limit:
                continue
            tables = {t: frozenset(factor) for t, factor in enumerate(factors)}
            for work, products in self._orders(tables, frozenset(query), len(factors)):
                if work < below:
                    sliced, largest, copied = self._slices(factors, products, work)
                    if largest <= self._limit and work + copied < below:
                        below = work + copied
                        together = max(1, self._aim // largest)
                        best = ContractionPath(
                            query, tuple(beyond), factors, products, sliced, together
                        )
        return best

    def _orders(
        self, tables: dict[int, frozenset[int]], query: frozenset[int], number: int
    ) -> Iterator[tuple[float, tuple[PairwiseProduct, ...]]]:
        """Every order of multiplying the tables two at a time, with its cost."""
        if len(tables) == 1:
            yield 0.0, ()
            return
        for one, two in combinations(tables, 2):
            others = {t: held for t, held in tables.items() if t not in (one, two)}
            joint = tables[one] | tables[two]
            kept = joint & query.union(*others.values())
            cost = float(cells_of(self._levels, kept))
            if len(kept) < len(joint):
                cost += cells_of(self._levels, joint) * _MULTIPLIED
            product = PairwiseProduct(one, two, kept, joint - kept)
            for rest, products in self._orders({**others, number: kept}, query, number + 1):
                yield cost + rest, (product, *products)

    def _slices(
        self, factors: Sequence[Clique], products: Sequence[PairwiseProduct], work: float
    ) -> tuple[Clique, int, int]:
        """The attributes that are sliced, the cells of the largest table of one slice (the answer
        aside), and those of all slices of the factors: one without a sliced attribute is copied
        for each of its levels, which must not cost more than the products."""
        tables = [*map(frozenset, factors), *(product.kept for product in products[:-1])]
        shared = {a: sum(a in factor for factor in factors) for a in products[-1].summed}
        left = sorted(shared, key=lambda a: (shared[a], self._levels[a], a))
        sliced: list[int] = []
        copied = sum(cells_of(self._levels, factor) for factor in factors)
        while True:
            largest = max(cells_of(self._levels, table.difference(sliced)) for table in tables)
            if largest <= self._aim or not left:
                return tuple(sliced), largest, copied
            more = [*sliced, left.pop()]
            cells = sum(cells_of(self._levels, {*factor, *more}) for factor in factors)
            if cells <= work or largest > self._limit:
                sliced, copied = more, cells

    def answer(self, path: ContractionPath, tables: Sequence[np.ndarray]) -> np.ndarray:
        """The marginal, from the tables of the path's factors."""
        steps, orders = _arrange(path)
        cells = cells_of(self._levels, path.sliced)
        ready = []
        for factor, table, order in zip(path.factors, tables, orders, strict=False):
            fixed = [a for a in path.sliced if a in factor]
            axes = [*fixed, *(a for a in order if a != _SLICES)]
            table = table.reshape(self._shape(factor)).transpose([factor.index(a) for a in axes])
            table = np.ascontiguousarray(table).reshape(-1, *table.shape[len(fixed) :])
            # Slices are a view where the factor has every sliced attribute, else rows to copy.
            row = None
            if len(fixed) < len(path.sliced):
                shape = [self._levels[a] if a in fixed else 1 for a in path.sliced]
                row = np.arange(len(table)).reshape(shape)
                row = np.broadcast_to(row, self._shape(path.sliced)).reshape(-1)
            places = list(range(1, len(order)))
            places.insert(order.index(_SLICES), 0)
            ready.append((table, row, places))
        answer = np.zeros(self._shape(path.query))
        for start in range(0, cells, path.together):
            now = slice(start, start + path.together)
            held = [
                table[now if row is None else row[now]].transpose(places)
                for table, row, places in ready
            ]
            for step in steps:
                held.append(step.multiply(held))
            answer += held[-1]
        return answer

    def _shape(self, attributes: Iterable[int]) -> list[int]:
        return [self._levels[a] for a in attributes]


@dataclass(frozen=True)
class AlignedProduct:
    """A product with the places of its axes: left and right are (kept by both, summed, own)."""

    left: int
    right: int
    both: int
    summed: int
    places: tuple[int, ...]
    spread: tuple[tuple[slice | None, ...], ...]

    def multiply(self, held: Sequence[np.ndarray]) -> np.ndarray:
        left, right = held[self.left], held[self.right]
        if not self.summed:
            return np.multiply(left[self.spread[0]], right[self.spread[1]], order="C")
        b, s = self.both, self.both + self.summed
        shape = (*left.shape[:b], *left.shape[s:], *right.shape[s:])
        size = prod(left.shape[:b]), prod(left.shape[b:s]), -1
        table = left.reshape(size).swapaxes(1, 2) @ right.reshape(size)
        return table.reshape(shape).transpose(self.places)


def _arrange(path: ContractionPath) -> tuple[list[AlignedProduct], list[tuple[int, ...]]]:
    """The products with every table's axes in an order in which few need to be moved."""
    held = [frozenset(f) for f in path.factors] + [p.kept for p in path.products]
    held = [table.difference(path.sliced) | {_SLICES} for table in held]
    orders: list[tuple[int, ...]] = [()] * len(held)
    orders[-1] = path.query
    steps = []
    for number in range(len(held) - 1, len(path.factors) - 1, -1):
        product, order = path.products[number - len(path.factors)], orders[number]
        one, two = product.left, product.right
        both = [a for a in order if a in held[one] and a in held[two]]
        summed = sorted((held[one] & held[two]).difference(order))
        own = {t: [a for a in order if a in held[t] and a not in both] for t in (one, two)}
        if own[one] and own[two] and order.index(own[one][0]) > order.index(own[two][0]):
            one, two = two, one
        spread = []
        for t in (one, two):
            plain = tuple(a for a in order if a in held[t])
            orders[t] = (*both, *summed, *own[t]) if summed else plain
            spread.append(tuple(slice(None) if a in plain else None for a in order))
        found = [*both, *own[one], *own[two]]
        places = tuple(found.index(a) for a in order)
        steps.append(AlignedProduct(one, two, len(both), len(summed), places, tuple(spread)))
    return steps[::-1], orders
