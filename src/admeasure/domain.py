"""The finite set of records: named columns, each with a number of levels.

Everything past the schema speaks of columns by name and of values by code (0 … levels - 1).
A set of columns is always written in alphabetical order, so that the same marginal is the same
tuple wherever it is named, and its array has its axes in that order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain, combinations
from typing import TypeVar

Columns = tuple[str, ...]
T = TypeVar("T", str, int)


def canonical(columns: Iterable[str]) -> Columns:
    """The one way to write a set of columns.

    >>> canonical(["sex", "age"])
    ('age', 'sex')
    """
    return tuple(sorted(set(columns)))


def subsets(columns: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Every set inside one but the empty one, small ones first.

    >>> list(subsets(("age", "sex")))
    [('age',), ('sex',), ('age', 'sex')]
    """
    return chain.from_iterable(combinations(columns, k) for k in range(1, len(columns) + 1))


def closure(sets: Iterable[tuple[T, ...]]) -> list[tuple[T, ...]]:
    """Every set inside one of these but the empty one, small ones first."""
    found = {subset for columns in sets for subset in subsets(columns)}
    return sorted(found, key=lambda subset: (len(subset), subset))


@dataclass(frozen=True)
class Domain:
    """Column names (in the schema's order) and their level counts.

    >>> domain = Domain(("sex", "age"), (2, 10))
    >>> domain.shape(("age", "sex")), domain.cells(("age", "sex")), domain["age"]
    ((10, 2), 20, 10)
    """

    columns: Columns
    levels: tuple[int, ...]
    stand_ins: Mapping[str, Columns] = field(default_factory=dict, compare=False, repr=False)
    """For columns of the table that are no columns here those that decide them, which may be such
    columns themselves."""

    @classmethod
    def of(
        cls, levels: Mapping[str, int], stand_ins: Mapping[str, Columns] | None = None
    ) -> Domain:
        return cls(tuple(levels), tuple(levels.values()), stand_ins or {})

    def standing_in(self, columns: Iterable[str]) -> Columns:
        """Columns of this domain that decide the named ones: what is known well about them is
        known well about these.

        >>> Domain.of({"code": 9, "sex": 2}, {"group": ("code",)}).standing_in(["group", "sex"])
        ('code', 'sex')
        """
        names = tuple(columns)
        while set(names) & self.stand_ins.keys():
            names = canonical(s for c in names for s in self.stand_ins.get(c, (c,)))
        return names

    @cached_property
    def _levels(self) -> dict[str, int]:
        return dict(zip(self.columns, self.levels, strict=True))

    def __getitem__(self, column: str) -> int:
        return self._levels[column]

    def __contains__(self, column: object) -> bool:
        return column in self._levels

    def __len__(self) -> int:
        return len(self.columns)

    def shape(self, columns: Iterable[str]) -> tuple[int, ...]:
        """The shape of a marginal's array."""
        return tuple(map(self._levels.__getitem__, columns))

    def cells(self, columns: Iterable[str] | None = None) -> int:
        """How many cells a marginal has; the whole domain's size where no columns are named."""
        return math.prod(
            map(self._levels.__getitem__, self.columns if columns is None else columns)
        )


def about(cells: int) -> str:
    """A number of cells to be read: it may be larger than any float.

    >>> about(1234567), about(4**1000)
    ('1.23e+6', '1.15e+602')
    """
    return f"{Decimal(cells):.3g}"


def as_float(cells: int) -> float:
    """A number of cells to calculate with; the largest float where it is larger than that."""
    return float(min(cells, int(sys.float_info.max)))
