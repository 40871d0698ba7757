"""Scores of whole tables as blocks: small tables enter a race together, since a block of its own
each costs more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from admeasure.privacy.counts import StepCounts
from admeasure.privacy.race import ArrayScores
from admeasure.privacy.scores.score import Block, Score
from admeasure.queries import Query

TOGETHER = 1 << 16
"""Scores of a block, or one table where it is larger; they stay in a core's cache."""


def blocks(score: Score, queries: Sequence[Query], counts: StepCounts) -> Iterator[Block]:
    """The scores of all that the queries offer, each once, in the order of the queries."""
    group: list[Query] = []
    scores: list[np.ndarray] = []
    size = 0
    for query in queries:
        group.append(query)
        scores.append(np.ravel(score.of(query, counts.of(query.columns))))
        size += len(scores[-1])
        if size >= TOGETHER:
            yield _block(group, scores)
            group, scores, size = [], [], 0
    if group:
        yield _block(group, scores)


def _block(group: list[Query], scores: list[np.ndarray]) -> Block:
    starts = np.cumsum([0, *map(len, scores)])

    def place(pick: int) -> tuple[Query, int]:
        which = int(np.searchsorted(starts, pick, side="right")) - 1
        return group[which], int(pick - starts[which])

    return Block(ArrayScores(np.concatenate(scores)), place)
