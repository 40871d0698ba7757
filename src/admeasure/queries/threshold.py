"""r-of-k thresholds (Avent and Korolova 2023, section 4.2): rows that agree with a target in at
least r of k columns.

`Threshold` answers for every target at once, by inclusion and exclusion on sub-marginals
(Definition 4.4): with M_S the marginal on a set S of i of the k columns,

    T(t) = Σ_{i=r}^{k} (-1)^(i-r) C(i-1, r-1) Σ_{|S|=i} M_S(t_S).

The coefficients are right because a row that agrees with t in exactly j ≥ r columns is counted by
C(j, i) of the sets of size i, and Σ_i (-1)^(i-r) C(i-1, r-1) C(j, i) = 1.

Unlike a cell of a marginal, a target does not exclude another: when r < k one row satisfies many
targets, so the whole threshold tensor costs more than the marginal that it is derived from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from operator import index

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.queries.query import (
    Conditions,
    PerCell,
    arrange,
    as_counts,
    check_at_least,
    conditions,
    level_set,
)
from admeasure.queries.sensitivity import Sensitivity, of_counts
from admeasure.unit import Unit


@dataclass(frozen=True, init=False)
class Threshold(PerCell):
    """For every target t of the k columns: how many rows agree with t in at least r of them.

    With r = k this is the marginal itself.
    """

    columns: Columns
    at_least: int

    def __init__(self, columns: Iterable[str], at_least: int) -> None:
        object.__setattr__(self, "columns", arrange(columns)[0])
        object.__setattr__(self, "at_least", index(at_least))
        check_at_least(self.at_least, len(self.columns))

    def __str__(self) -> str:
        return f"threshold, {self.at_least} of ({', '.join(self.columns)})"

    def answer(self, counts: np.ndarray) -> np.ndarray:
        r, k = self.at_least, len(self.columns)
        counts = as_counts(counts, k)
        total = np.zeros_like(counts)
        for axes, sub_marginal in _sub_marginals(counts, r).items():
            i = len(axes)
            total += (-1) ** (i - r) * comb(i - 1, r - 1) * sub_marginal
        return total

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        """The map itself: agreeing in at least r columns is symmetric in row and target."""
        return self.answer(np.broadcast_to(values, self.shape(domain)))

    def cell(self, codes: Sequence[int]) -> ThresholdCell:
        """The query of one target."""
        return ThresholdCell(self.columns, self.at_least, codes)

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        """Add/remove: (c m, c m², m) with c = Σ_{j≥r} Σ_{|S|=j} Π_{i∉S} (n_i - 1), the targets
        that one row satisfies. Replace: (w m, w m², m) with w = d when m = 1 and max(c, d)
        otherwise, where d = 2 (c - o) and o is the fewest targets that two rows share: see
        `targets_shared`."""
        levels = domain.shape(self.columns)
        c = targets_satisfied(levels, self.at_least)
        o = targets_shared(levels, self.at_least)
        return of_counts(unit, touched=c, exchanged=2 * (c - o))


@dataclass(frozen=True, init=False)
class ThresholdCell(Conditions):
    """How many rows agree with one target in at least r of its k columns."""

    columns: Columns
    at_least: int
    codes: tuple[int, ...]

    def __init__(self, columns: Iterable[str], at_least: int, codes: Sequence[int]) -> None:
        names, (arranged,) = arrange(columns, codes)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "at_least", index(at_least))
        object.__setattr__(self, "codes", tuple(index(code) for code in arranged))
        check_at_least(self.at_least, len(self.columns))

    def __str__(self) -> str:
        met = conditions(self.columns, self.requirement[0])
        return f"count where at least {self.at_least} of {met}"

    @property
    def requirement(self) -> tuple[Sequence[Sequence[int]], int]:
        return [(code,) for code in self.codes], self.at_least

    def answer(self, counts: np.ndarray) -> np.ndarray:
        return _rows_meeting(as_counts(counts, len(self.columns)), *self.requirement)


@dataclass(frozen=True, init=False)
class AtLeast(Conditions):
    """How many rows meet at least r of k conditions, each a set of codes of one column."""

    columns: Columns
    codes: tuple[tuple[int, ...], ...]
    at_least: int

    def __init__(
        self, columns: Iterable[str], codes: Sequence[Iterable[int]], at_least: int
    ) -> None:
        names, (arranged,) = arrange(columns, codes)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "codes", tuple(level_set(levels) for levels in arranged))
        object.__setattr__(self, "at_least", index(at_least))
        check_at_least(self.at_least, len(self.columns))

    def __str__(self) -> str:
        return f"count where at least {self.at_least} of {conditions(self.columns, self.codes)}"

    @property
    def requirement(self) -> tuple[Sequence[Sequence[int]], int]:
        return self.codes, self.at_least

    def answer(self, counts: np.ndarray) -> np.ndarray:
        return _rows_meeting(as_counts(counts, len(self.columns)), *self.requirement)


def targets_satisfied(levels: Sequence[int], r: int) -> int:
    """c: how many targets agree with a given row in at least r columns. The same for every row:
    the target takes the row's code in a set S of columns and one of n_i - 1 others elsewhere.

    >>> targets_satisfied((2, 3, 4), 2)  # 1 + (1 + 2 + 3)
    7
    """
    exactly = [1]  # exactly[j]: targets of the columns so far that agree in exactly j
    for n in levels:
        agree, differ = [0, *exactly], [*exactly, 0]
        exactly = [a + (n - 1) * b for a, b in zip(agree, differ, strict=True)]
    return sum(exactly[r:])


@lru_cache(maxsize=4096)
def targets_shared(levels: tuple[int, ...], r: int) -> int:
    """o: the fewest targets that are satisfied by both of two rows x and y.

    Two rows that differ in every column with more than one level share the fewest. Write f(a, b)
    = g(a) g(b), with g(a) = [a ≥ r], for 'agrees in a columns with x and in b with y'. Let the
    other columns give (a, b). A column in which x and y are equal contributes f(a+1, b+1) +
    (n-1) f(a, b) targets, one in which they differ f(a+1, b) + f(a, b+1) + (n-2) f(a, b). The
    first exceeds the second by (g(a+1) - g(a)) (g(b+1) - g(b)) ≥ 0, because g never falls.
    """
    agreeing = {(0, 0): 1}
    for n in levels:
        steps = [(1, 1, 1)] if n == 1 else [(1, 0, 1), (0, 1, 1), (0, 0, n - 2)]
        grown: dict[tuple[int, int], int] = {}
        for (a, b), targets in agreeing.items():
            for with_x, with_y, ways in steps:
                key = a + with_x, b + with_y
                grown[key] = grown.get(key, 0) + ways * targets
        agreeing = grown
    return sum(targets for (a, b), targets in agreeing.items() if a >= r and b >= r)


def _sub_marginals(counts: np.ndarray, r: int) -> dict[tuple[int, ...], np.ndarray]:
    """The sub-marginals on r … k of the axes, each kept with k axes (1 long where summed), made
    from the larger ones so that the whole tensor is summed only k times."""
    k = counts.ndim
    made = {tuple(range(k)): counts}
    for i in range(k - 1, r - 1, -1):
        for axes in combinations(range(k), i):
            summed = next(axis for axis in range(k) if axis not in axes)
            larger = tuple(sorted((*axes, summed)))
            made[axes] = made[larger].sum(axis=summed, keepdims=True)
    return made


def _rows_meeting(counts: np.ndarray, sets: Sequence[Sequence[int]], r: int) -> np.ndarray:
    """The rows that meet at least r of the conditions, one on each axis in turn.

    `exactly[j]` holds the rows that met j of the conditions so far, over the axes still to come.
    """
    exactly = [counts]
    for levels in sets:
        met = [array[list(levels)].sum(axis=0) for array in exactly]
        not_met = [array.sum(axis=0) - hit for array, hit in zip(exactly, met, strict=True)]
        inner = [one_more + same for one_more, same in zip(met[:-1], not_met[1:], strict=True)]
        exactly = [not_met[0], *inner, met[-1]]
    return np.asarray(sum(exactly[r:]))
