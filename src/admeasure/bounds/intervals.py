"""Intervals for counts that do not contradict each other: docs/explanations/bounds.md, section 6.

A question A is a set of cells of its columns s. Every set t inside s has an outer set of A, the
cells of t in which some row of A may lie, and an inner one, the cells all of whose rows are of A.
Whatever is known of the table's marginal on t bounds A from above by the outer set and from below
by the inner one; an interval is what all of it leaves. What is known of t is the same for every
question, and every upper bound grows with its set; so where A implies B, the upper end of A is no
higher than that of B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from admeasure.bounds.errors import Chances, error_bounds
from admeasure.domain import Columns, subsets

if TYPE_CHECKING:
    from admeasure.bounds.evidence import Evidence

Tails = Callable[[np.ndarray], np.ndarray]
"""How far a sum of cells may be off, for each of these numbers of cells."""

WITHIN, WITHOUT = 0.4, 0.1
"""Four statements are made of one table and one question, each to one side: that the sums over its
outer and inner set, and those over all but them, are not beyond what was measured."""

RANKED = 0.1
"""For the certificate, and for what selections say, each where there is one."""


@dataclass(frozen=True, eq=False)
class Noisy:
    """A table with noise on some columns, and how far sums of its cells may be off: over the outer
    or inner set of a question, and over all but that."""

    columns: Columns
    table: np.ndarray
    within: Tails
    without: Tails


@dataclass(frozen=True, eq=False)
class KnownMarginals:
    """What is known of the marginals inside one set of columns, with chances that no question has a
    part in; `believed` is the model's table on that set."""

    evidence: Evidence
    columns: Columns
    believed: np.ndarray
    beta: float

    def interval(self, counted: np.ndarray) -> tuple[float, float, float]:
        """Low, the model's answer and high, for the sum over the cells that are counted."""
        inside = self._possible & counted
        if not inside.any():
            return 0.0, 0.0, 0.0
        outer = {t: self._projected(inside, t) for t in self._sets}
        inner = {t: ~self._projected(self._possible & ~counted, t) for t in self._sets}
        # Models whose answers do not add up may have a smaller one on fewer columns, and sums that
        # pass the number of rows.
        anchor = min(
            (float(self._tables[t][outer[t]].sum()) for t in self._sets),
            default=float(self.believed.sum()),
        )
        if not self.evidence.model.adds_up:
            anchor = min(anchor, self._rows[1])
        high = max(0.0, anchor, min(self._above(outer)))
        # Answers without bias may be negative; no count is.
        value = min(float(np.maximum(self.believed, 0.0)[counted].sum()), high)
        low = min(value, max(self._below(inner)))
        return low, min(high, max(low, float(self.believed[counted].sum()))), high

    def _above(self, outer: dict[Columns, np.ndarray]) -> Iterator[float]:
        _, most = self._rows
        yield most
        for noisy in self._measured:
            table, cells = noisy.table, outer[noisy.columns]
            yield highest(table[cells], noisy.within)
            yield most - lowest(table[~cells], table[cells], noisy.without)
        for t, table in self._tables.items():
            gain = (self._errors[t] + most - float(table.sum())) / 2
            yield float(table[outer[t]].sum()) + max(0.0, gain)

    def _below(self, inner: dict[Columns, np.ndarray]) -> Iterator[float]:
        least, _ = self._rows
        yield 0.0 if self.columns else least
        for noisy in self._measured:
            inside, beside = noisy.table[inner[noisy.columns]], noisy.table[~inner[noisy.columns]]
            yield float(inside.sum() - noisy.within(np.array([inside.size]))[0])
            yield least - float(beside.sum() + noisy.without(np.array([beside.size]))[0])
        for t, table in self._tables.items():
            loss = (self._errors[t] + float(table.sum()) - least) / 2
            yield float(table[inner[t]].sum()) - max(0.0, loss)

    def _projected(self, cells: np.ndarray, t: Columns) -> np.ndarray:
        drop = tuple(i for i, c in enumerate(self.columns) if c not in t)
        return np.asarray(cells.any(axis=drop))

    @cached_property
    def _possible(self) -> np.ndarray:
        return self.evidence.possible(self.columns)

    @cached_property
    def _sets(self) -> list[Columns]:
        speaks = self.evidence.speaks_of
        return [t for t in subsets(self.columns) if t == self.columns or speaks(t)]

    @cached_property
    def _tables(self) -> dict[Columns, np.ndarray]:
        """What the model has on each set; nothing of a table is negative."""
        if not self.evidence.model.adds_up:
            found = self.evidence.model.marginals(self._sets)
            return {t: np.maximum(p, 0.0) for t, p in zip(self._sets, found, strict=True)}
        whole = np.maximum(self.believed, 0.0)
        return {
            t: whole.sum(axis=tuple(i for i, c in enumerate(self.columns) if c not in t))
            for t in self._sets
        }

    @cached_property
    def _errors(self) -> dict[Columns, float]:
        if self.evidence.model.adds_up:
            found = error_bounds(self.evidence, self.columns, self.believed, self._chances)
            return {t: found[t] for t in self._sets}
        return {
            t: error_bounds(self.evidence, t, self._tables[t], self._chances)[t] for t in self._sets
        }

    @cached_property
    def _rows(self) -> tuple[float, float]:
        return self.evidence.rows_between(0.05 * self.beta)

    @property
    def _certificate(self) -> float:
        return RANKED * self.beta if self.evidence.errors is not None else 0.0

    @property
    def _selections(self) -> float:
        return RANKED * self.beta if self.evidence.selections else 0.0

    @property
    def _sums(self) -> float:
        """For sums of what was measured; a quarter as much is for norms."""
        return 0.8 * (0.9 * self.beta - self._certificate - self._selections)

    @property
    def _chances(self) -> Chances:
        errors = self.evidence.errors
        each = self._certificate / len(errors.marginals) if errors is not None else 0.0
        return Chances(
            rows=0.05 * self.beta,
            selections=self._selections,
            direct=lambda t: self._sums / 4 * self.evidence.part(t),
            certified=lambda t: each * self.evidence.certified_errors(t)[0],
        )

    @cached_property
    def _measured(self) -> list[Noisy]:
        """Averages on each set and, in a run that decided as it went, single measurements, which
        have seven eighths there."""
        single, known = self.evidence.adaptive, self.evidence
        found: list[Noisy] = []
        for t in self._sets:
            average = known.estimate(t)
            if average is not None:
                level = self._sums * (0.125 if single else 1.0) * known.part(t)
                ends = (known.tails(t, part * level) for part in (WITHIN, WITHOUT))
                found.append(Noisy(t, average[0], *ends))
            for table, tails in known.singles(t) if single else ():
                level = 0.875 * self._sums
                found.append(Noisy(t, table, *(tails(p * level) for p in (WITHIN, WITHOUT))))
        return found


def highest(cells: np.ndarray, tails: Tails) -> float:
    """The largest sum of some of the cells and what it may be off by: no sum over fewer of them
    can be said to be larger."""
    ordered = np.sort(cells, axis=None)[::-1]
    sums = np.cumsum(ordered) + tails(np.arange(1, ordered.size + 1))
    return float(sums.max(initial=-math.inf))


def lowest(cells: np.ndarray, others: np.ndarray, tails: Tails) -> float:
    """The smallest sum of the cells and some of the others, less what it may be off by."""
    ordered = np.concatenate([[0.0], np.sort(others, axis=None)])
    counts = cells.size + np.arange(ordered.size)
    return float((cells.sum() + np.cumsum(ordered) - tails(counts)).min())
