"""The K worst answered single queries of a workload, chosen at once, from a stream of blocks.

Avent and Korolova (2023), Algorithm 4 (one-shot adaptive selection): Gumbel noise on the error of
every query that was not chosen before, the K largest win. Equal in law to K exponential mechanisms
without replacement. Nothing the size of the workload is ever held: the model answers a block of
cells, the curator turns it into scores, the race keeps who may still win.

Sensitivity. A score is |q(D) - e| on the integer grid of `privacy.score`, q(D) the exact integer
answer of one counting query and e the model's answer rounded to the grid, fixed by what was
released before. One person moves q(D) by at most `unit.max_rows`, under add/remove and under
replace (`queries.sensitivity.of_one_count`), so by the triangle inequality the score by at most
`max_rows` times GRID, in exact integers. That holds for cells of marginals and for targets of
thresholds alike: each is scored alone, and the curator charges for K choices. Which queries are
left out depends on earlier results only; a query is identified by what it asks (columns, codes,
at_least), never by a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from admeasure.families import HALF_NORMAL, Model
from admeasure.loop import Budget
from admeasure.privacy.curator import Curator, sigma_for
from admeasure.privacy.race import ArrayScores, Scores
from admeasure.privacy.score import GRID, GRID_BITS, LARGEST, Block, to_grid
from admeasure.privacy.truth import Answers, Lent
from admeasure.privacy.unit import Unit
from admeasure.queries import Cell, Marginal, Query, Threshold, ThresholdCell
from admeasure.workload import Workload


class Batch(Protocol):
    """Scores of several queries together."""

    @property
    def scores(self) -> Scores: ...

    @property
    def place(self) -> Callable[[int], tuple[Query, int]]:
        """Says which query offers a position, and as which of its cells; holds no scores."""
        ...

    def positions(self, query: Query, indices: np.ndarray) -> np.ndarray:
        """Where those of the query's cells stand that are in this batch."""
        ...

    @property
    def queries(self) -> Sequence[Query]:
        """Those with cells in this batch."""
        ...


class BlockModel(Model, Protocol):
    """A model that answers in blocks."""

    def blocks(self, query: Marginal | Threshold) -> Iterator[np.ndarray]:
        """Expected counts of all cells or targets, flat, in C order."""
        ...

    def device_scores(
        self, queries: Sequence[Marginal | Threshold], exact: Lent
    ) -> Iterator[Batch] | None:
        """The scores of `CellErrors`, computed where the model lies; None for in memory."""
        ...


@dataclass(frozen=True, eq=False)
class CellErrors:
    """|q(D) - q(model)| for every cell or target of every candidate but the excluded ones."""

    model: BlockModel
    excluded: frozenset[Cell | ThresholdCell] = frozenset()

    def sensitivity(self, unit: Unit) -> int:
        return unit.max_rows * GRID

    def blocks(self, queries: Sequence[Query], exact: Lent) -> Iterator[Block]:
        asked = [q for q in queries if isinstance(q, Marginal | Threshold)]
        batches = self.model.device_scores(asked, exact)
        if batches is None:
            for query in asked:
                yield from self._on_host(query, exact)
            return
        for batch in batches:
            barred = [batch.positions(q, self._barred(q)) for q in batch.queries]
            yield Block(batch.scores, batch.place, np.concatenate(barred))

    def _on_host(self, query: Marginal | Threshold, exact: Lent) -> Iterator[Block]:
        barred, answers, start = self._barred(query), exact.of(query), 0
        for believed in self.model.blocks(query):
            end = start + believed.size
            scores = _differences(answers, believed, start)
            inside = (barred >= start) & (barred < end)
            place = partial(_after, query, start)
            yield Block(ArrayScores(np.abs(scores, out=scores)), place, barred[inside] - start)
            start = end

    def _barred(self, query: Query) -> np.ndarray:
        assert isinstance(query, Marginal | Threshold)
        return self._without.get(_of(query), np.empty(0, np.int64))

    def chosen(self, query: Query, index: int) -> Query:
        assert isinstance(query, Marginal | Threshold)
        shape = query.shape(self.model.domain)
        return query.cell([int(code) for code in np.unravel_index(index, shape)])

    @cached_property
    def _without(self) -> dict[tuple[Sequence[str], int], np.ndarray]:
        """Positions of the excluded, by the query that offers them."""
        found: dict[tuple[Sequence[str], int], list[int]] = {}
        for cell in self.excluded:
            shape = self.model.domain.shape(cell.columns)
            found.setdefault(_of(cell), []).append(int(np.ravel_multi_index(cell.codes, shape)))
        return {key: np.sort(np.asarray(places, np.int64)) for key, places in found.items()}


@dataclass(frozen=True, eq=False)
class MarginalErrors:
    """||M_r(D) - M_r(model)||_1 - b_r: one score for each whole marginal, made in blocks.

    `penalty` is b_r for a marginal of one cell, in rows. Between neighbours M_r(D) moves by at most
    `rows_changed` in L1, so the score by at most that many times GRID.
    """

    model: BlockModel
    penalty: float

    def sensitivity(self, unit: Unit) -> int:
        return unit.rows_changed * GRID

    def blocks(self, queries: Sequence[Query], exact: Lent) -> Iterator[Block]:
        for query in queries:
            assert isinstance(query, Marginal)
            answers, start, distance = exact.of(query), 0, 0
            for believed in self.model.blocks(query):
                part = _differences(answers, believed, start)
                distance += int(np.abs(part, out=part).sum())
                start += believed.size
            penalty = round(min(self.penalty * start, LARGEST) * GRID)
            yield Block(ArrayScores(np.array([distance - penalty])), partial(_after, query, 0))

    def chosen(self, query: Query, index: int) -> Query:
        return query


@dataclass
class TopCells:
    """K single queries a round, never the same twice. Remembers what it chose."""

    queries: int
    _chosen: set[Cell | ThresholdCell] = field(default_factory=set)

    def select(
        self, curator: Curator, workload: Workload, model: BlockModel, budget: Budget
    ) -> Sequence[Query]:
        score = CellErrors(model, frozenset(self._chosen))
        found = curator.top_k(score, distinct(workload), self.queries, budget.select)
        self._chosen.update(q for q in found if isinstance(q, Cell | ThresholdCell))
        return found


@dataclass(frozen=True)
class TopMarginals:
    """K whole marginals a round. Thresholds take part through the marginal of their columns."""

    marginals: int

    def select(
        self, curator: Curator, workload: Workload, model: BlockModel, budget: Budget
    ) -> Sequence[Query]:
        sigma = sigma_for(
            budget.measure / self.marginals, curator.unit.rows_changed * curator.unit.max_rows
        )
        candidates = [Marginal(c) for c in workload.marginals()]
        score = MarginalErrors(model, HALF_NORMAL * sigma)
        return curator.top_k(score, candidates, self.marginals, budget.select)


def distinct(workload: Workload) -> list[Marginal | Threshold]:
    """The queries of a workload, each once: a k-of-k threshold is the marginal of its columns."""
    found = {
        _of(q): Marginal(q.columns) if _of(q)[1] == len(q.columns) else q for q in workload.queries
    }
    return list(found.values())


def _differences(answers: Answers, believed: np.ndarray, start: int) -> np.ndarray:
    """Exact less believed, on the grid, from position `start` on."""
    part = answers.block(start, start + believed.size)
    part <<= GRID_BITS
    part -= to_grid(believed)
    return part


def _after(query: Query, start: int, position: int) -> tuple[Query, int]:
    return query, start + position


def _of(query: Marginal | Threshold | Cell | ThresholdCell) -> tuple[Sequence[str], int]:
    """Columns and at_least: what all cells of a query have in common."""
    r = query.at_least if isinstance(query, Threshold | ThresholdCell) else len(query.columns)
    return query.columns, r
