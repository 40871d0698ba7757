"""`answer`: questions to a release, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from admeasure.release import Answer, StatisticAnswer
from admeasure.release.release import QuestionLike
from admeasure.verbs.given import GivenRelease, release_of
from admeasure.workload import ColumnStatistic


@overload
def answer(
    release: GivenRelease, questions: QuestionLike, *, confidence: float = 0.95
) -> Answer: ...
@overload
def answer(
    release: GivenRelease, questions: ColumnStatistic, *, confidence: float = 0.95
) -> StatisticAnswer: ...
@overload
def answer(
    release: GivenRelease, questions: Sequence[QuestionLike], *, confidence: float = 0.95
) -> list[Answer]: ...
@overload
def answer(
    release: GivenRelease,
    questions: Sequence[Any] | str | Path,
    *,
    confidence: float = 0.95,
) -> list[Any]: ...
def answer(
    release: GivenRelease,
    questions: QuestionLike
    | ColumnStatistic
    | Sequence[QuestionLike | ColumnStatistic]
    | str
    | Path,
    *,
    confidence: float = 0.95,
) -> Any:
    """The answer to a question, or those to several or to a query file, each with an interval that
    holds the true count with this confidence. Asking costs nothing. Means, sums and quantiles are
    asked for in a query file, or by `Release.mean`, `Release.sum` and `Release.quantile`.

    `release` may be a folder. A question is a dict of conditions that must all hold: a value, a
    list of values, or a range with both ends included (see `Release.answer`).

    >>> import admeasure
    >>> schema = admeasure.Schema.coded("people", {"sex": 2, "smokes": 2})
    >>> table = {"sex": [0, 1] * 500, "smokes": [0, 0, 0, 1] * 250}
    >>> release = admeasure.fit(table, schema, workload="all-2way", mechanism=admeasure.aim(),
    ...                         epsilon=100, delta=1e-9)
    >>> found = admeasure.answer(release, {"sex": 1, "smokes": 1})
    >>> found.low <= 250 <= found.high, found.kind
    (True, 'supported')
    """
    return release_of(release).answer(questions, confidence=confidence)
