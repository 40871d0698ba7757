"""`levels_of`: a public hierarchy over the values of a column, and the levels that it is cut into.

A diagnosis code is part of a block, which is part of a chapter: `levels_of` names the group of each
code, and the group of each group. A table holds codes. A column's levels are names of the
hierarchy, codes or groups (`enum`): a code is of the level of the nearest of itself and its groups
that is one. So a group whose large codes are levels of their own stands for the rest of it.

With `enum = "private"` a run finds the levels, from noisy counts of the whole hierarchy, and the
table is read by its codes until then. Rows have codes again: drawn inside their level by the shares
that were bought, or evenly. Everything here is public, or follows from what was paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from admeasure.schema.values import quoted

DEEPEST = 8
"""Groups above a code: each level of the hierarchy is counted, and they share one noise."""

MOST_TOPS = 256
"""Groups that are in no other: each is a level, or has all of its codes in others."""


MOST_CUT = 256
"""Levels that a run finds, besides those groups."""


def hierarchy_problems(parents: Mapping[str, str], most_codes: int) -> Iterator[str]:
    """What is wrong with a hierarchy, as ends of the sentence "Column 'x' …"."""
    if not parents:
        yield "has an empty levels_of. Name the group of each code"
        return
    depths: dict[str, int] = {}
    for name in parents:
        path, top = {name: None}, name
        while top in parents and top not in depths:
            above = parents[top]
            if above in path:
                yield (
                    f"has {quoted(above)} above itself in levels_of. Name the groups from finer to "
                    "coarser, and none like a code"
                )
                return
            path[above], top = None, above
        known = depths.get(top, 0)
        depths |= {part: known + below for below, part in enumerate(reversed(path))}
    if "" in depths:
        yield "has an empty text in levels_of. Write what it stands for"
    if max(depths.values()) > DEEPEST:
        yield f"has more than {DEEPEST} groups above one code in levels_of. Leave some out"
    tops = sum(depth == 0 for depth in depths.values())
    if tops > MOST_TOPS:
        yield (
            f"has {tops:,} groups in levels_of that are in no other, and the limit is {MOST_TOPS}. "
            "Put coarser groups above them"
        )
    codes = len(parents.keys() - set(parents.values()))
    if codes > most_codes:
        yield (
            f"has {codes:,} codes in levels_of and the limit is {most_codes:,}. Cut the table's "
            "codes short, and their groups with them"
        )


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree of names, from that of the group of each; sound as `hierarchy_problems` has it."""

    parents: Mapping[str, str]

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, above in self.parents.items():
            found.setdefault(above, []).append(name)
        return found

    @cached_property
    def depths(self) -> dict[str, int]:
        """How many groups are above each name; a name before those in it, each with all of its own
        side by side."""
        left = [name for name in reversed(self._children) if name not in self.parents]
        found: dict[str, int] = {}
        while left:
            name = left.pop()
            found[name] = found[self.parents[name]] + 1 if name in self.parents else 0
            left += reversed(self._children.get(name, ()))
        return found

    @cached_property
    def tops(self) -> tuple[str, ...]:
        """The groups that are in no other."""
        return tuple(name for name, depth in self.depths.items() if depth == 0)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The codes: names that nothing is in. Those of one group are side by side."""
        return tuple(name for name in self.depths if name not in self._children)

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Of each name the first of its leaves and the one after the last."""
        found = {name: (i, i + 1) for i, name in enumerate(self.leaves)}
        for name in reversed(self.depths):
            if name in self._children:
                below = self._children[name]
                found[name] = found[below[0]][0], found[below[-1]][1]
        return found

    @cached_property
    def levels(self) -> tuple[np.ndarray, ...]:
        """The levels of the tree, the coarsest first: of each its nodes, as the first leaf of each.
        A code with fewer groups than others is a node of all levels below its own.

        >>> tree = Hierarchy({"A1": "A", "A2": "A", "A": "all", "B": "all"})
        >>> tree.leaves, [level.tolist() for level in tree.levels]
        (('A1', 'A2', 'B'), [[0], [0, 2], [0, 1, 2]])
        """
        found = []
        for deep in range(max(self.depths.values()) + 1):
            nodes = {
                self.spans[name][0]
                for name, depth in self.depths.items()
                if depth == deep or (depth < deep and name not in self._children)
            }
            found.append(np.array(sorted(nodes)))
        return tuple(found)

    def of_leaves(self, listed: Sequence[str]) -> np.ndarray:
        """Of each leaf the number of the nearest of itself and its groups among those listed; -1
        where there is none."""
        numbers = {name: i for i, name in enumerate(listed)}
        nearest: dict[str, int] = {}
        for name in self.depths:
            above = nearest.get(self.parents.get(name, ""), -1)
            nearest[name] = numbers.get(name, above)
        return np.array([nearest[name] for name in self.leaves], dtype=np.int64)

    def cut(self, counts: np.ndarray, least: float) -> list[str]:
        """The names that become levels, given counts of the leaves. From the codes upwards: a name
        does if what is left of it, without the levels inside it, holds more than `least`; and one
        that is in no group, if anything is left of it."""
        summed = np.append(0.0, np.cumsum(counts))
        taken: dict[str, tuple[float, int]] = dict.fromkeys(self.depths, (0.0, 0))
        found = []
        for name in reversed(self.depths):
            first, end = self.spans[name]
            held, leaves = float(summed[end] - summed[first]), end - first
            in_levels, so_many = taken[name]
            above = self.parents.get(name)
            if so_many < leaves and (above is None or held - in_levels > least):
                found.append(name)
                in_levels, so_many = held, leaves
            if above is not None:
                others, more = taken[above]
                taken[above] = others + in_levels, more + so_many
        return found[::-1]

    def cut_problems(self, enum: Sequence[str]) -> Iterator[str]:
        """What is wrong with levels that were chosen, as `hierarchy_problems`."""
        unknown = [name for name in enum if name not in self.depths]
        if unknown:
            yield (
                f"has {quoted(unknown[0])} in enum, which is neither a code nor a group of its "
                "levels_of. Add it there, or take it out of enum"
            )
            return
        of_leaves = self.of_leaves(enum)
        if (of_leaves < 0).any():
            code = self.leaves[int(np.argmin(of_leaves))]
            yield (
                f"has the code {quoted(code)} in levels_of, and neither it nor one of its groups "
                'in enum. Add one of them, or let the run choose the levels by `enum = "private"`'
            )
        empty = sorted(set(range(len(enum))) - set(of_leaves.tolist()))
        if empty:
            yield (
                f"has {quoted(enum[empty[0]])} in enum, and every code of it is in another level. "
                "Take it out of enum"
            )


def most_levels(hierarchy: Hierarchy) -> int:
    """Levels that a run can come to find."""
    return min(len(hierarchy.leaves), MOST_CUT + len(hierarchy.tops))


def parts_of_levels(of_leaves: np.ndarray, shares: np.ndarray | None = None) -> np.ndarray:
    """The part that each leaf has of its level, by shares in any unit; evenly where a level has
    none.

    >>> parts_of_levels(np.array([0, 0, 1, 1]), np.array([3.0, 1.0, 0.0, 0.0])).tolist()
    [0.75, 0.25, 0.5, 0.5]
    """
    if shares is None:
        return 1.0 / np.bincount(of_leaves)[of_leaves]
    known = np.bincount(of_leaves, shares)[of_leaves] > 0
    shares = np.where(known, shares, 1.0)
    return shares / np.bincount(of_leaves, shares)[of_leaves]


def draw_leaves(
    of_leaves: np.ndarray, parts: np.ndarray, codes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A leaf of the level of each code, by the parts that leaves have of their levels."""
    order = np.argsort(of_leaves, kind="stable")
    level = of_leaves[order]
    first = np.searchsorted(level, np.arange(level[-1] + 2))
    summed = np.append(0.0, np.cumsum(parts[order]))
    start, end = first[codes], first[codes + 1]
    at = summed[start] + rng.random(len(codes)) * (summed[end] - summed[start])
    return order[np.clip(np.searchsorted(summed, at, side="right") - 1, start, end - 1)]
