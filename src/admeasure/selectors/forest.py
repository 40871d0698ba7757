"""Candidates that join what was not joined yet, as the edges of a forest do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from admeasure.domain import Columns


class Forest:
    """On offer are the candidates no two columns of which earlier choices have joined.

    Of columns that hang together by a chain of choices another choice would say again, in part,
    what these are going to say. A public rule: it reads the candidates and the choices.

    >>> forest = Forest([("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")])
    >>> forest.take(0)
    >>> forest.take(1)
    >>> forest.left().tolist()
    [False, False, False, True]
    """

    def __init__(self, candidates: Sequence[Columns]) -> None:
        number = {c: i for i, c in enumerate(sorted({c for r in candidates for c in r}))}
        width = max(map(len, candidates))
        # Short candidates are filled up with columns that nothing joins.
        self._members = np.empty((len(candidates), width), dtype=np.intp)
        self._members[:] = len(number) + np.arange(width)
        for row, columns in zip(self._members, candidates, strict=True):
            row[: len(columns)] = [number[c] for c in columns]
        self._group = np.arange(len(number) + width)
        self._left = np.ones(len(candidates), dtype=bool)

    def left(self) -> np.ndarray:
        return self._left.copy()

    def take(self, place: int) -> None:
        first, *others = self._members[place].tolist()
        for other in others:
            if other < len(self._group) - self._members.shape[1]:
                self._group[self._group == self._group[other]] = self._group[first]
        groups = self._group[self._members]
        for i, j in combinations(range(groups.shape[1]), 2):
            self._left &= groups[:, i] != groups[:, j]
        self._left[place] = False
