"""Sets of attributes: which of them hold others, and which no other holds."""

from __future__ import annotations

from collections.abc import Iterable

from admeasure.families.graphical.structure.triangulation import Clique


def maximal(cliques: Iterable[Iterable[int]]) -> tuple[Clique, ...]:
    """The cliques that no other one contains, each sorted, in lexicographic order."""
    kept = Holders()
    for clique in sorted({frozenset(c) for c in cliques}, key=lambda c: (-len(c), sorted(c))):
        if kept.first(clique) is None:
            kept.add(clique)
    return tuple(sorted(tuple(sorted(c)) for c in kept.sets))


class Holders:
    """Sets of attributes, and which of them hold another: without looking at all of them."""

    def __init__(self, sets: Iterable[Iterable[int]] = ()) -> None:
        self.sets: list[Iterable[int]] = []
        self._all = 0
        self._by_attribute: dict[int, int] = {}  # a bit for each set, the first one's lowest
        for attributes in sets:
            self.add(attributes)

    def add(self, attributes: Iterable[int]) -> None:
        bit = 1 << len(self.sets)
        self.sets.append(attributes)
        self._all |= bit
        for a in attributes:
            self._by_attribute[a] = self._by_attribute.get(a, 0) | bit

    def first(self, attributes: Iterable[int]) -> int | None:
        """The place of the first set that holds all of them."""
        found = self._all
        for a in attributes:
            found &= self._by_attribute.get(a, 0)
        return (found & -found).bit_length() - 1 if found else None
