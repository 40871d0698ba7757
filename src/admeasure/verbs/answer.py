"""`answer`: questions to a release, which cost nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from admeasure.files import refuse_to_overwrite, write_text
from admeasure.release import Answer, Release, StatisticAnswer
from admeasure.release.release import QuestionLike, Questions
from admeasure.terminal.console import finite
from admeasure.verbs.given import GivenRelease, release_of
from admeasure.workload import ColumnStatistic, load_questions


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
    release: GivenRelease, questions: Sequence[Any] | str | Path, *, confidence: float = 0.95
) -> list[Any]: ...
def answer(release: GivenRelease, questions: Questions, *, confidence: float = 0.95) -> Any:
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


def answer_file(
    release: GivenRelease, queries: Path, path: str | Path, *, confidence: float = 0.95
) -> Path:
    """The answers to a query file, as a file of JSON that `admeasure answer --json` would print.
    The path that was written."""
    target = Path(path)
    refuse_to_overwrite(target, force=False)
    release = release_of(release)
    asked = load_questions(queries, release.schema)
    said = record(release, answer(release, asked, confidence=confidence), confidence)
    write_text(target, json.dumps(finite(said), indent=2, ensure_ascii=False) + "\n")
    return target


def record(
    release: Release, found: Sequence[Answer | StatisticAnswer], confidence: float
) -> dict[str, Any]:
    """Answers as plain data."""
    return {
        "stamp": release.certificate.stamp,
        "rows": release.rows,
        "confidence": confidence,
        "answers": [_record(a, release.rows) for a in found if isinstance(a, Answer)],
        "statistics": [_statistic_record(a) for a in found if isinstance(a, StatisticAnswer)],
    }


def _record(given: Answer, rows: int) -> dict[str, Any]:
    share = {
        f"share{suffix}": value / rows if rows else None
        for suffix, value in (("", given.value), ("_low", given.low), ("_high", given.high))
    }
    return {
        "name": given.name,
        "value": given.value,
        "low": given.low,
        "high": given.high,
        **share,
        "kind": given.kind,
    }


def _statistic_record(given: StatisticAnswer) -> dict[str, Any]:
    return {name: getattr(given, name) for name in ("name", "value", "low", "high", "kind")}
