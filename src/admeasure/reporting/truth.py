"""What the internal report adds: the release beside the private table. NOT PRIVATE.

Everything here reads true counts. It is for the steward who holds the table and decides whether to
publish; nothing of it may be published, and whatever shows it says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import UsageError
from admeasure.evaluation import Errors, compare
from admeasure.evaluation.errors import CountsOf
from admeasure.evaluation.future import FutureError, future_error
from admeasure.joints import batches
from admeasure.published import Published
from admeasure.reporting.charts import Dot, HeatCell
from admeasure.reporting.facts import (
    BATCH_CELLS,
    RANKED,
    Association,
    Ranked,
    associated,
    cramers_v,
    drawn,
)
from admeasure.reporting.likeness import (
    CorrelationTruth,
    NewCombination,
    NewInMarginal,
    correlations,
    labelled,
    largest,
    new_in,
)
from admeasure.workload.history import parse_future

CELLS_SHOWN = 20
LEVELS_SHOWN = 16
HISTOGRAMS = 40
FUTURE_DRAWS = 100
FUTURE_CELLS = 1 << 22
"""Marginals with more cells than this are too large to be drawn as future queries."""


@dataclass(frozen=True)
class TrueMarginal:
    """A marginal's true L1 error in shares, and the bound that the release gave, if any."""

    columns: Columns
    error: float
    bound: float | None = None

    @property
    def broken(self) -> bool:
        return self.bound is not None and self.error > self.bound


@dataclass(frozen=True)
class BySize:
    """Errors over the marginals of k columns: those of the workload and all inside them; and what
    is new in them, in the mean."""

    k: int
    marginals: int
    mean: float
    worst: float
    rmse: float
    """Of single cells."""
    new: float
    new_share: float


@dataclass(frozen=True)
class CellTruth:
    """A cell of a workload's marginal; shares of the rows."""

    where: tuple[tuple[str, str], ...]
    true: float
    believed: float

    @property
    def error(self) -> float:
        return abs(self.true - self.believed)


@dataclass(frozen=True)
class Histogram:
    """A column's levels with their true share and the release's."""

    name: str
    error: float
    levels: tuple[tuple[str, float, float], ...]
    left_out: int

    @property
    def most(self) -> float:
        return max((max(a, b) for _, a, b in self.levels), default=0.0)


@dataclass(frozen=True)
class Violation:
    """A structural zero: rows of the table that it rules out, and expected rows of the release."""

    columns: Columns
    true_rows: int
    believed_rows: float | None


@dataclass(frozen=True)
class TruthFacts:
    rows: int
    errors: Errors
    marginals: tuple[TrueMarginal, ...]
    """Of the workload, worst first."""
    by_size: tuple[BySize, ...]
    cells: tuple[CellTruth, ...]
    histograms: tuple[Histogram, ...]
    true_pairs: Association
    apart: Association
    """The distance between the true dependence and the release's."""
    violations: tuple[Violation, ...]
    future: tuple[tuple[int, FutureError], ...]
    """By k: over marginals of k columns, all equally likely to be asked."""
    correlations: tuple[CorrelationTruth, ...]
    new_largest: tuple[NewCombination, ...]

    @property
    def dots(self) -> list[Dot]:
        return [
            Dot(m.error, m.bound, ", ".join(m.columns), "poor" if m.broken else "bar")
            for m in self.marginals
            if m.bound is not None
        ]

    @property
    def broken(self) -> int:
        return sum(m.broken for m in self.marginals)


def look(
    release: Published, truth: CountsOf, ranked: Sequence[Ranked], pairs: Association
) -> TruthFacts:
    """The release beside the true counts; `ranked` and `pairs` are the publishable report's."""
    rows = int(truth([()])[0])
    errors = compare(truth, release.model.marginals, release.workload, release.schema.domain)
    marginals, by_size, cells, new = _marginals(release, truth, rows, ranked)
    true_pairs = _true_pairs(truth, pairs)
    return TruthFacts(
        rows=rows,
        errors=errors,
        marginals=marginals,
        by_size=by_size,
        cells=cells,
        histograms=_histograms(release, truth, rows),
        true_pairs=true_pairs,
        apart=_apart(pairs, true_pairs),
        violations=_violations(release, truth),
        future=tuple(_future(release, truth)),
        correlations=correlations(release, truth),
        new_largest=new,
    )


def _marginals(
    release: Published, truth: CountsOf, rows: int, ranked: Sequence[Ranked]
) -> tuple[
    tuple[TrueMarginal, ...],
    tuple[BySize, ...],
    tuple[CellTruth, ...],
    tuple[NewCombination, ...],
]:
    bounds = {r.columns: r.error for r in ranked}
    workload = set(release.workload.marginals())
    marginals: list[TrueMarginal] = []
    sizes: dict[int, list[tuple[float, float, int, NewInMarginal]]] = {}
    cells: list[CellTruth] = []
    chosen = [*bounds, *drawn([c for c in release.workload.closure() if c not in bounds], RANKED)]
    chosen.sort(key=lambda c: (len(c), c))
    for batch in batches(chosen, release.schema.domain.cells, BATCH_CELLS):
        sides = zip(batch, truth(batch), release.model.marginals(batch), strict=True)
        for columns, counts, believed in sides:
            true, other = counts / rows, _shares(believed)
            apart = np.abs(true - other)
            sums = float(apart.sum()), float(np.square(apart).sum()), apart.size
            new = new_in(release.schema, columns, counts, believed)
            sizes.setdefault(len(columns), []).append((*sums, new))
            if columns in workload:
                marginals.append(TrueMarginal(columns, sums[0], bounds.get(columns)))
                cells += _worst_cells(release, columns, true, other)
                cells = sorted(cells, key=lambda c: (-c.error, c.where))[:CELLS_SHOWN]
    by_size = tuple(_by_size(k, found) for k, found in sorted(sizes.items()))
    worst = tuple(sorted(marginals, key=lambda m: (-m.error, m.columns)))
    new = largest(new for found in sizes.values() for *_, new in found)
    return worst, by_size, tuple(cells), new


def _by_size(k: int, found: Sequence[tuple[float, float, int, NewInMarginal]]) -> BySize:
    errors, squares, cells, new = zip(*found, strict=True)
    n = len(found)
    rmse = float(np.sqrt(sum(squares) / sum(cells)))
    number, share = math.fsum(m.number for m in new) / n, math.fsum(m.share for m in new) / n
    return BySize(k, n, sum(errors) / n, max(errors), rmse, number, share)


def _worst_cells(
    release: Published, columns: Columns, true: np.ndarray, believed: np.ndarray
) -> list[CellTruth]:
    apart = np.abs(true - believed)
    most = min(CELLS_SHOWN, apart.size)
    found = []
    for flat in np.argpartition(apart, apart.size - most, axis=None)[-most:]:
        place = np.unravel_index(flat, apart.shape)
        where = labelled(release.schema, columns, place)
        found.append(CellTruth(where, float(true[place]), float(believed[place])))
    return found


def _shares(counts: np.ndarray) -> np.ndarray:
    total = float(np.sum(counts))
    return np.asarray(counts, dtype=float) / total if total > 0 else np.zeros(np.shape(counts))


def _believed(release: Published, columns: Columns) -> np.ndarray | None:
    """The release's counts, or None where it holds answers only and not this one."""
    try:
        return release.model.marginals([columns])[0]
    except UsageError:
        return None


def _histograms(release: Published, truth: CountsOf, rows: int) -> tuple[Histogram, ...]:
    found = []
    for column in release.schema.columns:
        believed = _believed(release, (column.name,))
        if believed is None:
            continue
        (counts,) = truth([(column.name,)])
        true, other = counts / rows, _shares(believed)
        largest = np.argsort(-np.maximum(true, other), kind="stable")[:LEVELS_SHOWN]
        levels = tuple(
            (column.labels[int(i)], float(true[i]), float(other[i])) for i in sorted(largest)
        )
        error = float(np.abs(true - other).sum())
        found.append(Histogram(column.name, error, levels, column.levels - len(levels)))
    return tuple(sorted(found, key=lambda h: (-h.error, h.name))[:HISTOGRAMS])


def _true_pairs(truth: CountsOf, pairs: Association) -> Association:
    return associated(pairs.names, lambda key: HeatCell(cramers_v(*truth([key]))), pairs.left_out)


def _apart(pairs: Association, true: Association) -> Association:
    cells = {}
    for place, cell in pairs.cells.items():
        other = true.cells[place].value
        apart = None if cell.value is None or other is None else cell.value - other
        cells[place] = HeatCell(None if apart is None else abs(apart))
    return Association(pairs.names, cells, pairs.left_out)


def _violations(release: Published, truth: CountsOf) -> tuple[Violation, ...]:
    found = []
    for zero in release.schema.zeros:
        (counts,), believed = truth([zero.columns]), _believed(release, zero.columns)
        expected = None if believed is None else float(np.sum(believed[zero.mask]))
        found.append(Violation(zero.columns, int(counts[zero.mask].sum()), expected))
    return tuple(found)


def _future(release: Published, truth: CountsOf) -> Iterator[tuple[int, FutureError]]:
    """Errors on questions that nobody has asked yet, in the workload or out of it."""
    domain = release.schema.domain
    largest = sorted((domain[c] for c in domain.columns), reverse=True)
    for k in (1, 2, 3):
        if k > len(largest) or math.prod(largest[:k]) > FUTURE_CELLS:
            return
        future = parse_future(f"uniform:{k}of{k}:draws={FUTURE_DRAWS}:seed=0", domain)
        try:
            yield k, future_error(truth, release.model.marginals, future)
        except UsageError:  # a release of answers only does not answer everything
            return
