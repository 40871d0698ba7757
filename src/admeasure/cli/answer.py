"""`answer`: questions to a release, which cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from admeasure.cli.arguments import (
    Conclusions,
    Confidence,
    Json,
    ReleasePath,
    argument,
    conditions,
    option,
)
from admeasure.errors import UsageError
from admeasure.terminal.console import banner, say, say_json, say_table

if TYPE_CHECKING:
    from admeasure.conclusions import Verdict
    from admeasure.release import Answer, Release, StatisticAnswer
    from admeasure.workload import ColumnStatistic


NO_LIMIT = "no limit"
NO_NUMBER = 1e9
"""An end so many times the value comes from bins of a column without bounds: no number in print
would help with it."""

EXPLAINED = (
    "supported: its columns were measured together. certified: the release bought the error of a "
    "marginal that holds them (--certify). unsupported: bounded by what was chosen "
    "instead. trivial: nothing is known beyond the number of rows."
)


def answer(
    release: ReleasePath,
    queries: Annotated[Path | None, argument("QUERIES", "A query file (TOML).")] = None,
    confidence: Confidence = 0.95,
    conclusions: Conclusions = None,
    mean: Annotated[list[str] | None, option("COLUMN", "The mean of a column.")] = None,
    total: Annotated[list[str] | None, option("COLUMN", "The sum of a column.", "--sum")] = None,
    median: Annotated[list[str] | None, option("COLUMN", "The median.")] = None,
    quantile: Annotated[
        tuple[float, str] | None, option("SHARE COLUMN", "What this share of the rows do not pass.")
    ] = None,
    where: Annotated[
        str | None, option("CONDITIONS", "For these: sex = 'F', age = {from = 30}.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Each question's answer with its interval. Costs no budget."""
    from admeasure.release import Answer, Release, StatisticAnswer
    from admeasure.verbs.answer import answer as answered
    from admeasure.verbs.answer import record
    from admeasure.workload import load_questions

    statistics = _statistics(mean or [], total or [], median or [], quantile, where)
    if queries is None and conclusions is None and not statistics:
        raise UsageError(
            "There is nothing to answer. Give QUERIES, --conclusions FILE, or a statistic such as "
            "--mean COLUMN."
        )
    loaded = Release.load(release)
    questions = [] if queries is None else load_questions(queries, loaded.schema)
    asked = [*questions, *statistics]
    found = answered(loaded, asked, confidence=confidence) if asked else []
    answers = [a for a in found if isinstance(a, Answer)]
    others = [a for a in found if isinstance(a, StatisticAnswer)]
    verdicts: list[Verdict] = []
    if conclusions is not None:
        from admeasure.conclusions import check_all, load_conclusions

        stated = load_conclusions(conclusions, loaded.schema)
        verdicts = check_all(loaded, stated, confidence=confidence)
    if json:
        say_json(
            {
                "release": str(release),
                **record(loaded, found, confidence),
                "conclusions": [v.to_json() for v in verdicts],
            }
        )
        return
    banner(loaded.certificate.stamp)
    if answers:
        _print(answers, loaded, confidence)
    if others:
        _print_statistics(others, confidence)
    if verdicts:
        from admeasure.reporting.text import verdict_lines

        for line in verdict_lines(verdicts):
            say(line)


def _print(answers: Sequence[Answer], release: Release, confidence: float) -> None:
    lines = []
    for a in answers:
        share = f"{100 * a.value / release.rows:.2f}%" if release.rows else ""
        lines.append([a.name, *(f"{x:,.0f}" for x in (a.value, a.low, a.high)), share, a.kind])
    say_table(["question", "rows", "from", "to", "share", "interval"], lines)
    say()
    say(
        f"Each interval holds the true count with {100 * confidence:g}% confidence, for one "
        "question at a time."
    )
    say(EXPLAINED)


def _print_statistics(answers: Sequence[StatisticAnswer], confidence: float) -> None:
    shown = [[_shown(a.value), _end(a.low, a.value), _end(a.high, a.value)] for a in answers]
    lines = [[a.name, *values, a.kind] for a, values in zip(answers, shown, strict=True)]
    say_table(["statistic", "value", "from", "to", "interval"], lines)
    say()
    say(
        f"Each interval holds the true value with {100 * confidence:g}% confidence, for one "
        "statistic at a time, wherever values lie within their bins."
    )
    if any(NO_LIMIT in values for values in shown):
        say(
            f"{NO_LIMIT}: a few values of a column without bounds could be anything. Bounds in the "
            "schema (`minimum`, `maximum`) give a mean or a sum an interval; a median has one."
        )


def _end(end: object, value: object) -> str:
    if isinstance(end, int | float) and isinstance(value, int | float):
        return NO_LIMIT if abs(end) > NO_NUMBER * max(1, abs(value)) else _shown(end)
    return _shown(end)


def _shown(value: object) -> str:
    match value:
        case None:
            return "no rows"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"
    return str(value)


def _statistics(
    mean: Sequence[str],
    total: Sequence[str],
    median: Sequence[str],
    quantile: tuple[float, str] | None,
    where: str | None,
) -> list[ColumnStatistic]:
    """The statistics that options of the command line ask for."""
    from admeasure.workload import ColumnStatistic

    written = conditions(where)
    asked = [ColumnStatistic("mean", name, None, written) for name in mean]
    asked += [ColumnStatistic("sum", name, None, written) for name in total]
    asked += [ColumnStatistic("quantile", name, 0.5, written) for name in median]
    if quantile is not None:
        at, name = quantile
        asked.append(ColumnStatistic("quantile", name, at, written))
    if where is not None and not asked:
        raise UsageError("--where is for a statistic such as --mean COLUMN. Name one.")
    return asked
