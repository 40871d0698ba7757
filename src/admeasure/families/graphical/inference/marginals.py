"""Any marginals of a calibrated junction tree, many at once.

A marginal inside a node is a projection of the node's table. One that spans several nodes is cut at
a separator S of the tree: with q1 on the near side and q2 beyond,

    p(q1, q2) = sum over S of p(q1, S) p(q2 | S).

Attributes of the query in S are kept, the others of S are summed out. Both tables have a row for
each cell of S, whatever is kept, so that one serves many queries and few need their axes moved
(`row_products`). Very many pairs are answered in one pass over the tree (`all_pairs`), and triples
whose cuts are dear from the node where their branches meet (`branches`). Conditional tables
p(a | S) for each directed edge are kept, up to `tuning.CONDITIONAL_CELLS` while a call is answered
and `tuning.LASTING_CELLS` until the next one, and so are projections and near parts, up to
`tuning.KEPT_CELLS`; no intermediate table exceeds `limit_cells`.

Only positive numbers are added and multiplied: where a node says 0.0, so does every answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.all_pairs import AllPairs, PairCounts
from admeasure.families.graphical.inference.branches import Branches, ContractionPath
from admeasure.families.graphical.inference.calibration import Beliefs
from admeasure.families.graphical.inference.cuts import Arc, Cut, Cuts
from admeasure.families.graphical.inference.row_products import summed_products
from admeasure.families.graphical.inference.tables import divide_rows, sum_axis
from admeasure.families.graphical.structure.junction_tree import Clique, cells_of, megabytes_of

LIMIT_CELLS = 1 << 27
"""The most cells one intermediate table may have unless the caller says otherwise (1 GB)."""
NODE_TOO_LARGE = "A node of the model is larger than any table may be. Give it more memory."


class Marginals:
    """Answers marginal queries from one set of beliefs."""

    def __init__(self, beliefs: Beliefs, limit_cells: float = LIMIT_CELLS) -> None:
        self._beliefs = beliefs
        self._levels = beliefs.tree.levels
        self._nodes = beliefs.tree.nodes
        self._limit = limit_cells
        self._by_size = sorted(
            range(len(self._nodes)), key=lambda k: (beliefs.tables[k].size, self._nodes[k])
        )
        self._cells = sum(table.size for table in beliefs.tables)
        # Which nodes hold an attribute: one bit each, the smallest node's lowest.
        self._holders = [0] * len(self._levels)
        for place, k in enumerate(self._by_size):
            for a in self._nodes[k]:
                self._holders[a] |= 1 << place
        self._kept: dict[Clique, np.ndarray] = {}
        self._kept_cells = 0
        self._conditionals: dict[tuple[int, int], np.ndarray] = {}
        self._conditional_cells = 0
        self._pair_tables: PairCounts | None = None

    @cached_property
    def _all_pairs(self) -> AllPairs:
        return AllPairs(self._beliefs.tree)

    @cached_property
    def _cuts(self) -> Cuts:
        return Cuts(self._beliefs.tree, self._limit)

    @cached_property
    def _branches(self) -> Branches:
        return Branches(self._beliefs.tree, self._arcs, self._limit)

    @property
    def _arcs(self) -> list[Arc]:
        return self._cuts.arcs

    def answer(self, queries: Sequence[Clique]) -> list[np.ndarray]:
        """Expected counts, one array for each query, axes in the query's order (sorted)."""
        answers = self._answers(queries)
        if self._conditional_cells > tuning.LASTING_CELLS:
            self._drop_conditionals(0)
        return answers

    def _answer_in_halves(self, query: Clique) -> np.ndarray:
        """An answer that fits the limit and whose intermediate tables do not, for half of the
        levels of its largest attribute after the other."""
        self._check(cells_of(self._levels, query))
        largest = max(query, key=lambda a: self._levels[a])
        levels = range(self._levels[largest])
        if len(levels) == 1:
            raise ResourceError(NODE_TOO_LARGE)
        middle = len(levels) // 2
        halves = [_Part(self, largest, part) for part in (levels[:middle], levels[middle:])]
        answers = [half.answer([query])[0] for half in halves]
        return np.concatenate(answers, axis=query.index(largest))

    def _answers(self, queries: Sequence[Clique]) -> list[np.ndarray]:
        answers: list[np.ndarray | None] = [None] * len(queries)
        across: list[int] = []
        holders, kept = self._holders, self._kept
        for position, query in enumerate(queries):
            two = len(query) == 2
            if holders[query[0]] & holders[query[1]] if two else self._home(query) is not None:
                # Kept for other answers, so the caller gets its own.
                answers[position] = self._inside(query).copy()
            elif query in kept:
                answers[position] = kept[query].copy()
            else:
                across.append(position)
        across = self._answer_pairs(queries, across, answers)
        if not across:
            return [answer for answer in answers if answer is not None]
        arcs = self._cuts.best([queries[p] for p in across])
        cuts: dict[Cut, list[int]] = {}
        for position, arc in zip(across, arcs, strict=True):
            path = self._branched(queries[position])
            if path is None:
                cuts.setdefault(self._cuts.at(queries[position], arc), []).append(position)
            else:
                answers[position] = self._along(path)
        side, left = None, np.empty(0)
        # Tables of an attribute are made from each other, and may go when those of the next come.
        for cut in sorted(cuts, key=lambda cut: (cut.alone, cut.side, cut.beyond)):
            found = [queries[position] for position in cuts[cut]]
            try:
                if cut.side != side:
                    left, side = self._counts(cut), cut.side
                tables = [_sorted_axes(*table) for table in self._across(left, cut, found)]
            except ResourceError:
                tables = [self._answer_in_halves(query) for query in found]
            for position, table in zip(cuts[cut], tables, strict=True):
                answers[position] = table
        return [answer for answer in answers if answer is not None]

    def _branched(self, query: Clique) -> ContractionPath | None:
        """How to answer from the node where the query's branches meet, where cuts are dearer."""
        cost = self._cuts.judged(query)
        if len(query) != 3 or cost < tuning.DEAR_CUT:
            return None
        return self._branches.path(query, tuning.IN_CACHE * cost)

    def _along(self, path: ContractionPath) -> np.ndarray:
        try:
            beyond = [self._conditional(e, a) for e, a in path.beyond]
        except ResourceError:
            return self._answer_in_halves(path.query)
        return self._branches.answer(path, [self._inside(path.factors[0]), *beyond])

    def _answer_pairs(
        self, queries: Sequence[Clique], across: list[int], answers: list[np.ndarray | None]
    ) -> list[int]:
        """Answer the pairs in one pass where there are many; what is left to answer. Where it is
        not too large the table of all pairs is kept: others are asked for later."""
        if self._pair_tables is None:
            wanted: dict[Clique, list[int]] = {}
            for position in across:
                if len(queries[position]) == 2:
                    wanted.setdefault(queries[position], []).append(position)
            if len(wanted) < tuning.MANY_PAIRS:
                return across
            pairs = self._all_pairs
            if not pairs.worth(len(wanted), min(self._limit, tuning.PASS_CELLS)):
                return across
            if pairs.cells > tuning.KEPT_CELLS:
                for query, table in pairs.answers(self._inside, wanted):
                    first, *more = wanted[query]
                    answers[first] = table
                    for position in more:
                        answers[position] = table.copy()
                return [position for position in across if answers[position] is None]
            self._pair_tables = pairs.tables(self._inside)
        held = [position for position in across if len(queries[position]) == 2]
        tables = self._pair_tables.of(queries[position] for position in held)
        for position, table in zip(held, tables, strict=True):
            answers[position] = table
        return [position for position in across if len(queries[position]) != 2]

    def _home(self, query: Iterable[int]) -> int | None:
        held = -1
        for a in query:
            held &= self._holders[a]
        if not held:
            return None
        return self._by_size[(held & -held).bit_length() - 1]

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
        if table.size > tuning.KEPT_CELLS // 4:
            return
        if self._kept_cells + table.size > tuning.KEPT_CELLS:
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
        cut = self._cuts.at(query, arc)
        [(table, order)] = self._across(self._counts(cut), cut, [query])
        table = _sorted_axes(table, order)
        self._keep(query, table)
        return table

    def _counts(self, cut: Cut) -> np.ndarray:
        """Expected counts of the part before the cut with S, as (cells of S, cells of the part)."""
        separator = self._arcs[cut.arc].separator
        union = tuple(sorted({*cut.part, *separator}))
        self._check(cells_of(self._levels, union))
        if len(cut.part) == 1 and self._home(union) is None:
            given = self._conditional(cut.arc ^ 1, cut.part[0])
            return given * self._inside(separator).reshape(-1, 1)
        table = self._joint(union).transpose([union.index(a) for a in (*separator, *cut.part)])
        return table.reshape(cells_of(self._levels, separator), -1)

    def _given(self, cut: Cut) -> np.ndarray:
        """p(beyond | S), as (cells of S, cells of what is beyond)."""
        if len(cut.beyond) == 1:
            return self._conditional(cut.arc, cut.beyond[0])
        weight = self._inside(self._arcs[cut.arc].separator)
        return divide_rows(self._counts(cut.reversed()).reshape(*weight.shape, -1), weight)

    def _conditional(self, arc: int, attribute: int) -> np.ndarray:
        """p(attribute | S) for one attribute beyond the arc, as (cells of S, levels)."""
        found = self._conditionals.pop((arc, attribute), None)
        if found is not None:
            self._conditionals[arc, attribute] = found  # now the last to be dropped
            return found
        separator = self._arcs[arc].separator
        order = tuple(sorted((*separator, attribute)))
        onward = self._cuts.towards(attribute, arc)
        if onward is None:
            joint = self._inside(order)
        else:
            own = tuple(a for a in separator if a not in self._arcs[onward].separator)
            cut = Cut(onward, own, (attribute,))
            [(joint, order)] = self._across(self._counts(cut), cut, [order])
        joint = joint.transpose([order.index(a) for a in (*separator, attribute)])
        self._drop_conditionals(tuning.CONDITIONAL_CELLS - joint.size)
        table = divide_rows(joint, self._inside(separator))
        self._conditionals[arc, attribute] = table
        self._conditional_cells += table.size
        return table

    def _drop_conditionals(self, most: int) -> None:
        """Until at most so many cells are left: what was used longest ago, which is made again
        where it is needed."""
        while self._conditionals and self._conditional_cells > most:
            oldest = next(iter(self._conditionals))
            self._conditional_cells -= self._conditionals.pop(oldest).size

    def _across(
        self, left: np.ndarray, cut: Cut, queries: Sequence[Clique]
    ) -> list[tuple[np.ndarray, Clique]]:
        """Answers of queries with the same cut, from the counts before it, and the attributes of
        their axes."""
        for query in queries:
            self._check(cells_of(self._levels, query))
        separator = self._arcs[cut.arc].separator
        keeps = [[i for i, a in enumerate(separator) if a in query] for query in queries]
        shape = [self._levels[a] for a in separator]
        tables = summed_products(left, self._given(cut), shape, keeps)
        orders = [(*(separator[i] for i in kept), *cut.part, *cut.beyond) for kept in keeps]
        return [
            (table.reshape([self._levels[a] for a in order]), order)
            for table, order in zip(tables, orders, strict=True)
        ]

    def _check(self, cells: int) -> None:
        if cells > self._limit:
            raise ResourceError(
                f"A marginal needs an intermediate table of {megabytes_of(cells):.3g} MB, over the "
                f"limit of {megabytes_of(self._limit):.3g} MB. Ask for fewer columns at once."
            )


def _sorted_axes(table: np.ndarray, order: Clique) -> np.ndarray:
    """A table whose axes are in the given order, sorted."""
    return np.ascontiguousarray(table.transpose([order.index(a) for a in sorted(order)]))


class _Part(Marginals):
    """The same for some levels of an attribute alone: counts of sets with it are those of these
    levels, counts of other sets are whole."""

    def __init__(self, whole: Marginals, attribute: int, levels: range) -> None:
        beliefs = whole._beliefs
        tree = beliefs.tree
        sizes = [len(levels) if a == attribute else n for a, n in enumerate(tree.levels)]
        tables = (
            table.take(levels, axis=node.index(attribute)) if attribute in node else table
            for node, table in zip(tree.nodes, beliefs.tables, strict=True)
        )
        tree = replace(tree, levels=tuple(sizes))
        super().__init__(replace(beliefs, tree=tree, tables=tuple(tables)), whole._limit)
        self._whole, self._attribute = whole, attribute

    def _inside(self, query: Clique) -> np.ndarray:
        if self._attribute in query:
            return super()._inside(query)
        return self._whole._inside(query)
