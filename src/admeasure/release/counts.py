"""Answers to questions that count rows, also about codes inside the levels of a hierarchy.

A question about whole levels is the evidence's own affair. Where one takes a part of a level, the
rows that it counts are at least those of the levels that it covers and at most those of all that it
touches: its interval goes from the lower end of the one to the upper end of the other, each with
half of the error probability, and so holds wherever rows lie inside levels. Its value takes rows to
lie there as sampled rows do. All of it follows from what was released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from admeasure.bounds import Answer
from admeasure.bounds.evidence import error_probability
from admeasure.queries import Where
from admeasure.workload import Question

if TYPE_CHECKING:
    from admeasure.release.release import Release


def answer_counts(
    release: Release, questions: Sequence[Question], confidence: float
) -> Iterator[Answer]:
    """The answers, in the order of the questions."""
    whole = [q for q in questions if not q.portions]
    found = iter(release.evidence.answers(whole, confidence) if whole else [])
    for q in questions:
        yield _inside_levels(release, q, confidence) if q.portions else next(found)


def _inside_levels(release: Release, question: Question, confidence: float) -> Answer:
    half = 1 - error_probability(confidence) / 2
    (touched,) = release.evidence.answers([Question(question.name, question.query)], half)
    low, value = 0.0, _value(release, question)
    covered = _covered(question)
    if covered is not None:
        (least,) = release.evidence.answers([Question(question.name, covered)], half)
        low = least.low
    ends = min(low, value), max(touched.high, value)
    return replace(touched, value=value, low=ends[0], high=ends[1], confidence=confidence)


def _covered(question: Question) -> Where | None:
    """The rows that meet the conditions whatever code of their level they have; None where no level
    is covered."""
    query = question.query
    assert isinstance(query, Where)
    codes = dict(zip(query.columns, query.codes, strict=True))
    for portion in question.portions:
        codes[portion.column.name] = tuple(map(int, portion.covered))
    return Where(tuple(codes), list(codes.values())) if all(codes.values()) else None


def _value(release: Release, question: Question) -> float:
    query = question.query
    assert isinstance(query, Where)
    (table,) = release.model.marginals([query.columns])
    shares = {p.column.name: p.shares(release.inside.get(p.column.name)) for p in question.portions}
    for axis in reversed(range(len(query.columns))):
        name, levels = query.columns[axis], list(query.codes[axis])
        counted = np.zeros(table.shape[axis])
        counted[levels] = shares[name][levels] if name in shares else 1.0
        table = table @ counted  # the last axis
    return max(0.0, float(table))
