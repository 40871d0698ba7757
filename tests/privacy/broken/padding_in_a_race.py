"""Scores in an array with room for more: what fills the room takes part in a race.

The filling is less than any score, and never above a cut that is a score. But where the budget is
small and a block comes late, the cut of a race lies far below all scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.scores.score import GRID, Block
from admeasure.queries import Cell, Marginal

CAUGHT_BY = {"offer"}
ROOM = 8


class Padded:
    """A block of scores at the beginning of a longer array."""

    def __init__(self, scores: np.ndarray) -> None:
        self.size = len(scores)
        self._array = np.pad(scores, (0, ROOM), constant_values=-1)

    def above(self, cut: int, most: int):
        found = np.flatnonzero(self._array > cut)
        return (found, self._array[found]) if len(found) <= most else None

    def at(self, positions: np.ndarray) -> np.ndarray:
        return self._array[positions]


class Counts:
    """Every cell of a marginal scored by its count."""

    def sensitivity(self, unit):
        return unit.max_rows * GRID

    def blocks(self, queries, exact):
        for query in queries:
            answers = exact.of(query)
            scores = Padded(answers.block(0, answers.size) * GRID)
            yield Block(scores, lambda index, query=query: (query, index))

    def chosen(self, query, index):
        return Cell(query.columns, [index])


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-padding-in-a-race"

    def run(self, task, curator):
        candidates = [Marginal((column,)) for column in curator.domain.columns]
        curator.choose(Counts(), candidates, curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
