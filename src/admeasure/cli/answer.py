"""`answer`: questions to a release, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from admeasure.conclusions import check_all, load_conclusions
from admeasure.errors import UsageError
from admeasure.release import Answer, Release
from admeasure.reporting.verdicts import lines as conclusion_lines
from admeasure.terminal.console import banner, say, say_json, table
from admeasure.verbs.answer import answer
from admeasure.workload import load_questions


def show(
    path: Path,
    queries: Path | None,
    confidence: float,
    conclusions: Path | None = None,
    *,
    json: bool,
) -> None:
    if queries is None and conclusions is None:
        raise UsageError("There is nothing to answer. Give QUERIES, --conclusions FILE, or both.")
    release = Release.load(path)
    questions = [] if queries is None else load_questions(queries, release.schema)
    stated = [] if conclusions is None else load_conclusions(conclusions, release.schema)
    answers = answer(release, questions, confidence=confidence) if questions else []
    verdicts = check_all(release, stated, confidence=confidence)
    stamp = release.certificate.stamp
    if json:
        say_json(
            {
                "release": str(path),
                "stamp": stamp,
                "rows": release.rows,
                "confidence": confidence,
                "answers": [_record(a, release.rows) for a in answers],
                "conclusions": [v.to_json() for v in verdicts],
            }
        )
        return
    if stamp:
        banner(stamp)
    if answers:
        _print(answers, release, confidence)
    for line in conclusion_lines(verdicts):
        say(line)


def _print(answers: Sequence[Answer], release: Release, confidence: float) -> None:
    lines = [
        [a.name, f"{a.value:,.0f}", f"{a.low:,.0f}", f"{a.high:,.0f}", _percent(a, release), a.kind]
        for a in answers
    ]
    for line in table(["question", "rows", "from", "to", "share", "interval"], lines):
        say(line)
    say()
    say(
        f"Each interval holds the true count with {100 * confidence:g}% confidence, for one "
        "question at a time."
    )
    say(EXPLAINED)


EXPLAINED = (
    "supported: its columns were measured together. unsupported: bounded by what was chosen "
    "instead. trivial: nothing is known beyond the number of rows."
)


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


def _percent(given: Answer, release: Release) -> str:
    return f"{100 * given.value / release.rows:.2f}%" if release.rows else ""
