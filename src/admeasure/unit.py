"""Whom the guarantee protects: the privacy unit and the neighbouring relation.

Every sensitivity in the package is computed from a `Unit`, in one place for each kind of query
(`admeasure.queries`) and each kind of score (`admeasure.privacy.scores`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Neighbours(Enum):
    """Which pairs of tables must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    """One table has all rows of one more person. The number of rows is private."""
    REPLACE = "replace"
    """The rows of one person are replaced by another person's. With one row for each person the
    number of rows is public."""


@dataclass(frozen=True)
class Unit:
    """One person (or household, or device) and the most rows that it may have in the table.

    `rows_changed` bounds how many rows differ between neighbours, additions and removals counted
    singly: m under add/remove, 2 m under replace.
    """

    neighbours: Neighbours = Neighbours.ADD_REMOVE
    max_rows: int = 1
    name: str = "person"

    @property
    def rows_changed(self) -> int:
        return self.max_rows * (2 if self.neighbours is Neighbours.REPLACE else 1)

    @property
    def marginal_l2_squared(self) -> int:
        """The squared L2 sensitivity of a marginal with several cells: m² under add/remove, 2 m²
        under replace (`queries.sensitivity`)."""
        return self.rows_changed * self.max_rows

    @property
    def rows_are_public(self) -> bool:
        return self.neighbours is Neighbours.REPLACE and self.max_rows == 1
