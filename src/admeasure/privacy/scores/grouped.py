"""Scores of whole tables as blocks: small tables enter a race together, since a block of its own
each costs more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from admeasure.privacy.counts import StepCounts
from admeasure.privacy.race import ArrayScores
from admeasure.privacy.scores.score import Block, ManyScore, Score
from admeasure.queries import Query

TOGETHER = 1 << 16
"""Scores of a block, or one table where it is larger; they stay in a core's cache."""
MANY_CELLS = 1 << 17
"""Cells of tables that are scored at once, or one table where it is larger; they stay in the cache
too."""


def blocks(score: Score, queries: Sequence[Query], counts: StepCounts) -> Iterator[Block]:
    """The scores of all that the queries offer, each once, in the order of the queries."""
    group: list[Query] = []
    scores: list[np.ndarray] = []
    size = 0
    for part, found in _scored(score, queries, counts):
        group += part
        scores += found
        size += sum(map(len, found))
        if size >= TOGETHER:
            yield _block(group, scores)
            group, scores, size = [], [], 0
    if group:
        yield _block(group, scores)


def _scored(
    score: Score, queries: Sequence[Query], counts: StepCounts
) -> Iterator[tuple[list[Query], list[np.ndarray]]]:
    """Queries, one or many, and the scores of what each of them offers."""
    if not isinstance(score, ManyScore):
        for query in queries:
            yield [query], [np.ravel(score.of(query, counts.of(query.columns)))]
        return
    group: list[Query] = []
    tables: list[np.ndarray] = []
    cells = 0
    for query in queries:
        group.append(query)
        tables.append(counts.of(query.columns))
        cells += tables[-1].size
        if cells >= MANY_CELLS or len(group) == TOGETHER:
            yield group, list(score.of_many(group, tables).reshape(-1, 1))
            group, tables, cells = [], [], 0
    if group:
        yield group, list(score.of_many(group, tables).reshape(-1, 1))


def _block(group: list[Query], scores: list[np.ndarray]) -> Block:
    starts = np.cumsum([0, *map(len, scores)])

    def place(pick: int) -> tuple[Query, int]:
        which = int(np.searchsorted(starts, pick, side="right")) - 1
        return group[which], int(pick - starts[which])

    return Block(ArrayScores(np.concatenate(scores)), place)
