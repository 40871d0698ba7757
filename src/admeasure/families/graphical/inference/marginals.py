"""Any marginals of a calibrated junction tree, many at once.

A marginal inside a node is a projection of the node's table. One that spans several nodes is cut at
a separator S of the tree: with q1 on the near side and q2 beyond,

    p(q1, q2) = sum over S of p(q1, S) p(q2 | S).

All queries with the same near part and the same cut share one matrix product; very many pairs are
answered in one pass over the tree (`all_pairs`), and triples whose cuts are dear from the node
where their branches meet (`branches`). Conditional tables p(a | S) for each directed edge are kept,
up to `tuning.CONDITIONAL_CELLS` while a call is answered and `tuning.LASTING_CELLS` until the next
one, and so are projections and near parts, up to `_KEPT_CELLS`; no intermediate table exceeds
`limit_cells`.

Only positive numbers are added and multiplied: where a node says 0.0, so does every answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from admeasure.errors import ResourceError
from admeasure.families.graphical.inference import tuning
from admeasure.families.graphical.inference.all_pairs import AllPairs
from admeasure.families.graphical.inference.branches import Branches, ContractionPath
from admeasure.families.graphical.inference.calibration import Beliefs
from admeasure.families.graphical.inference.cuts import Arc, Cuts
from admeasure.families.graphical.inference.tables import divide_rows, sum_axis
from admeasure.families.graphical.structure.junction_tree import Clique, cells_of, megabytes_of

LIMIT_CELLS = 1 << 27
"""The most cells one intermediate table may have unless the caller says otherwise (1 GB)."""
NODE_TOO_LARGE = "A node of the model is larger than any table may be. Give it more memory."
_KEPT_CELLS = 1 << 23
_MANY_PAIRS = 64
"""From so many pairs on, a pass over the whole tree may be cheaper than cuts one by one."""


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
        for position, query in enumerate(queries):
            if self._home(query) is not None:
                # Kept for other answers, so the caller gets its own.
                answers[position] = self._inside(query).copy()
            elif query in self._kept:
                answers[position] = self._kept[query].copy()
            else:
                across.append(position)
        across = self._answer_pairs(queries, across, answers)
        if not across:
            return [answer for answer in answers if answer is not None]
        arcs = self._cuts.best([queries[p] for p in across])
        groups: dict[tuple[Clique, int], list[tuple[int, Clique]]] = {}
        for position, arc in zip(across, arcs, strict=True):
            path = self._branched(queries[position])
            if path is not None:
                answers[position] = self._along(path)
                continue
            near, far = self._cuts.parts(queries[position], arc)
            groups.setdefault((near, arc), []).append((position, far))
        for (near, arc), members in self._portions(groups):
            # One matrix product for all queries with this near part and this cut.
            try:
                found = self._cut(near, arc, members)
            except ResourceError:
                found = [(k, self._answer_in_halves(queries[k])) for k, _ in members]
            for position, table in found:
                answers[position] = table
        return [answer for answer in answers if answer is not None]

    def _portions(
        self, groups: Mapping[tuple[Clique, int], list[tuple[int, Clique]]]
    ) -> Iterator[tuple[tuple[Clique, int], list[tuple[int, Clique]]]]:
        """The groups; of a large tree their members one by one, in the order of what lies beyond
        the cut: an attribute's conditional tables are made from each other, and may go when those
        of the next attribute come."""
        if self._cells <= tuning.APART_CELLS:
            yield from groups.items()
            return
        apart = ((far, arc, near, k) for (near, arc), ms in groups.items() for k, far in ms)
        for far, arc, near, k in sorted(apart):
            yield (near, arc), [(k, far)]

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
        """Answer the pairs in one pass where there are many; what is left to answer."""
        wanted: dict[Clique, list[int]] = {}
        for position in across:
            if len(queries[position]) == 2:
                wanted.setdefault(queries[position], []).append(position)
        if len(wanted) < _MANY_PAIRS:
            return across
        pairs = AllPairs(self._beliefs.tree)
        if not pairs.worth(len(wanted), min(self._limit, tuning.CONDITIONAL_CELLS)):
            return across
        for query, table in pairs.answers(self._inside, wanted):
            self._keep(query, table)  # one that is chosen is asked for again
            for position in wanted[query]:
                answers[position] = table.copy()
        return [position for position in across if answers[position] is None]

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
            shared, own, rest = self._sides(separator, onward)
            if rest:
                # As in a cut, but the attribute stays last.
                self._check(cells_of(self._levels, order))
                left = self._near_matrix(separator, onward)
                right = self._far_part(onward, (attribute,), [*shared, *rest])
                joint = left @ right.reshape(len(left), -1, self._levels[attribute])
                del left, right
                order = (*shared, *own, attribute)
                joint = joint.reshape(self._shape(order))
            else:
                [(_, joint)] = self._cut(separator, onward, [(0, (attribute,))])
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

    def _cut(
        self, near: Clique, arc: int, members: list[tuple[int, Clique]]
    ) -> list[tuple[int, np.ndarray]]:
        """p(near, far) for every member's far part, attributes sorted."""
        shared, own, rest = self._sides(near, arc)
        for _, part in members:
            self._check(cells_of(self._levels, {*near, *part}))
        if not rest:
            # Nothing is summed out: one product of tables that broadcast.
            plain = self._near_part(near, arc, near)
            return [(k, self._spread_product(near, plain, arc, part)) for k, part in members]
        left = self._near_matrix(near, arc)
        batch, rows, inner = left.shape
        answers = []
        for k, part in members:
            right = self._far_part(arc, part, [*shared, *rest]).reshape(batch, inner, -1)
            if shared or len(part) > 1:
                answers.append((k, self._sorted_axes(left @ right, (*shared, *own, *part))))
                continue
            # The far attribute's place in the order decides how to write the product, so that
            # the answer comes out sorted without a copy.
            lower = cells_of(self._levels, [a for a in near if a < min(part)])
            if lower == rows:
                product = left[0] @ right[0]
            elif lower == 1:
                product = right[0].T @ left[0].T
            else:
                upper = left[0].reshape(lower, -1, inner)
                product = right[0].T @ upper.transpose(0, 2, 1)
            answers.append((k, product.reshape(self._shape(sorted((*near, *part))))))
        return answers

    def _sides(self, near: Clique, arc: int) -> tuple[list[int], list[int], list[int]]:
        """Attributes of the near part in the separator, those beside it, and the separator's
        others, which are summed out."""
        separator = self._arcs[arc].separator
        return (
            [a for a in near if a in separator],
            [a for a in near if a not in separator],
            [a for a in separator if a not in near],
        )

    def _near_matrix(self, near: Clique, arc: int) -> np.ndarray:
        """Expected counts of near ∪ S, one axis for each of the sides."""
        sides = self._sides(near, arc)
        self._check(cells_of(self._levels, {*near, *self._arcs[arc].separator}))
        table = self._near_part(near, arc, [a for side in sides for a in side])
        shape = [cells_of(self._levels, side) for side in sides]
        return np.ascontiguousarray(table).reshape(shape)

    def _shape(self, attributes: Iterable[int]) -> list[int]:
        return [self._levels[a] for a in attributes]

    def _sorted_axes(self, table: np.ndarray, order: Sequence[int]) -> np.ndarray:
        """A table whose axes are in the given order, sorted."""
        query = sorted(order)
        table = table.reshape(self._shape(order))
        return np.ascontiguousarray(table.transpose([order.index(a) for a in query]))

    def _spread_product(self, near: Clique, left: np.ndarray, arc: int, part: Clique) -> np.ndarray:
        """p(near) p(far | S) where the near part holds all of S."""
        separator = self._arcs[arc].separator
        order = (*separator, *part)
        right = self._far_part(arc, part, list(separator)).reshape(self._shape(order))
        right = right.transpose([order.index(a) for a in sorted(order)])
        query = sorted((*near, *part))
        left = left.reshape([self._levels[a] if a in near else 1 for a in query])
        right = right.reshape([self._levels[a] if a in order else 1 for a in query])
        return np.multiply(left, right, order="C")

    def _far_part(self, arc: int, part: Clique, order: list[int]) -> np.ndarray:
        """p(far part | S) as (cells of S, cells of the part), S in the given order."""
        separator = self._arcs[arc].separator
        if len(part) == 1:
            table = self._conditional(arc, part[0])
        else:
            union = tuple(sorted({*part, *separator}))
            self._check(cells_of(self._levels, union))
            joint = self._joint(union).transpose([union.index(a) for a in (*separator, *part)])
            joint = joint.reshape(*self._shape(separator), -1)
            table = divide_rows(joint, self._inside(separator))
        if tuple(order) == separator:
            return table
        perm = [separator.index(a) for a in order]
        full = table.reshape(*self._shape(separator), -1).transpose(*perm, len(perm))
        return np.ascontiguousarray(full).reshape(table.shape)

    def _check(self, cells: int) -> None:
        if cells > self._limit:
            raise ResourceError(
                f"A marginal needs an intermediate table of {megabytes_of(cells):.3g} MB, over the "
                f"limit of {megabytes_of(self._limit):.3g} MB. Ask for fewer columns at once."
            )


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
