"""Errors of single queries and of whole marginals, made block by block.

A model answers a block of cells, the block meets the exact counts here, and only the race sees the
scores: nothing the size of the workload is ever held.

Sensitivity. A score is |q(D) - e| on the integer grid, q(D) the exact integer answer of one
counting query and e the model's answer rounded to the grid, fixed by what was released before. One
person moves q(D) by at most `unit.max_rows`, under add/remove and under replace
(`queries.sensitivity.of_one_count`), so by the triangle inequality the score by at most `max_rows`
times GRID, in exact integers. That holds for cells of marginals and for targets of thresholds
alike: each is scored alone, and the curator charges for K choices. Which queries are left out
depends on earlier results only; a query is identified by what it asks (columns, codes, at_least),
never by a position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, cast

import numpy as np

from admeasure.families import Model
from admeasure.families.products.placement import Placed
from admeasure.privacy.race import ArrayScores
from admeasure.privacy.scores.score import GRID, GRID_BITS, LARGEST, Block, fits_32_bits, to_grid
from admeasure.privacy.truth import Answers, ExactAnswers
from admeasure.queries import Cell, Marginal, Query, Targets, ThresholdCell
from admeasure.unit import Unit


class BlockModel(Model, Protocol):
    """A model that answers in blocks."""

    def blocks(self, query: Targets) -> Iterator[np.ndarray]:
        """Expected counts of all cells or targets, flat, in C order."""
        ...

    @property
    def placed(self) -> Placed | None:
        """The model on an accelerator, where its errors are to be computed; None for in memory."""
        ...


@dataclass(frozen=True, eq=False)
class CellErrors:
    """|q(D) - q(model)| for every cell or target of every candidate but the excluded ones."""

    model: BlockModel
    excluded: frozenset[Cell | ThresholdCell] = frozenset()

    def sensitivity(self, unit: Unit) -> int:
        return unit.max_rows * GRID

    def blocks(self, queries: Sequence[Query], exact: ExactAnswers) -> Iterator[Block]:
        asked = cast("Sequence[Targets]", queries)
        placed = self.model.placed
        if placed is None or not fits_32_bits(placed.total):
            for query in asked:
                yield from self._on_host(query, exact)
            return
        from admeasure.privacy.scores.accelerator import scored  # imports jax

        for batch in scored(placed, asked, exact):
            barred = [batch.positions(q, self._barred(q)) for q in batch.queries]
            yield Block(batch.scores, batch.place, np.concatenate(barred))

    def _on_host(self, query: Targets, exact: ExactAnswers) -> Iterator[Block]:
        barred, answers, start = self._barred(query), exact.of(query), 0
        for believed in self.model.blocks(query):
            end = start + believed.size
            scores = _differences(answers, believed, start)
            inside = (barred >= start) & (barred < end)
            place = partial(_after, query, start)
            yield Block(ArrayScores(np.abs(scores, out=scores)), place, barred[inside] - start)
            start = end

    def _barred(self, query: Query) -> np.ndarray:
        return self._without.get(_form(cast("Targets", query)), np.empty(0, np.int64))

    def chosen(self, query: Query, index: int) -> Query:
        shape = query.shape(self.model.domain)
        return cast("Targets", query).cell([int(code) for code in np.unravel_index(index, shape)])

    @cached_property
    def _without(self) -> dict[tuple[Sequence[str], int], np.ndarray]:
        """Positions of the excluded, by the query that offers them."""
        found: dict[tuple[Sequence[str], int], list[int]] = {}
        for cell in self.excluded:
            shape = self.model.domain.shape(cell.columns)
            found.setdefault(_form(cell), []).append(int(np.ravel_multi_index(cell.codes, shape)))
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

    def blocks(self, queries: Sequence[Query], exact: ExactAnswers) -> Iterator[Block]:
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


def _differences(answers: Answers, believed: np.ndarray, start: int) -> np.ndarray:
    """Exact less believed, on the grid, from position `start` on."""
    part = answers.block(start, start + believed.size)
    part <<= GRID_BITS
    part -= to_grid(believed)
    return part


def _after(query: Query, start: int, position: int) -> tuple[Query, int]:
    return query, start + position


def _form(query: Targets | Cell | ThresholdCell) -> tuple[Sequence[str], int]:
    """Columns and at_least: what all cells of a query have in common."""
    return query.columns, query.at_least
