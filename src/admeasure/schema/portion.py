"""What a selection takes of a column with a hierarchy: codes, which may be a part of their level.

A value is a code or a group, and stands for the codes in it. A selection that consists of whole
levels is as any other (`admeasure.schema.select`). Of one that does not, nothing is known but which
levels it touches and which it covers, and what part of a level's rows its codes had by what the run
bought: so a question about it has an answer, and an interval between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from admeasure.schema.hierarchy import parts_of_levels
from admeasure.schema.inside import Inside

if TYPE_CHECKING:
    from admeasure.schema.column import Column


@dataclass(frozen=True, eq=False)
class Portion:
    """`held`: which values of `Column.held` are selected; `besides`: which of the levels that have
    none, `other` and `missing`."""

    column: Column
    held: np.ndarray
    besides: np.ndarray

    @property
    def touched(self) -> np.ndarray:
        """The levels of which something is selected."""
        return np.unique(np.append(self._of_held[self.held], self.besides))

    @property
    def covered(self) -> np.ndarray:
        """The levels that are selected whole."""
        return np.setdiff1d(self.touched, self._of_held[~self.held])

    @property
    def is_whole(self) -> bool:
        return len(self.covered) == len(self.touched)

    def shares(self, inside: Inside | None) -> np.ndarray:
        """Of every level the part of its rows that is selected, as sampled rows have it."""
        parts = parts_of_levels(self._of_held, None if inside is None else inside.shares)
        found = np.bincount(self._of_held, parts * self.held, self.column.levels)
        found[self.covered] = 1.0
        return found

    @property
    def _of_held(self) -> np.ndarray:
        assert self.column.of_held is not None
        return self.column.of_held
