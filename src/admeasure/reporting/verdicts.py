"""Conclusions in plain text, for `answer` and for the text report."""

from __future__ import annotations

from collections.abc import Sequence

from admeasure.conclusions import Verdict
from admeasure.plain import table


def lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A table of the verdicts, and what its words mean; nothing where there are none."""
    if not verdicts:
        return []
    from admeasure.reporting.html import sure

    rows = [
        [v.name, v.verdict, "agrees" if v.in_release else "disagrees", sure(v)] for v in verdicts
    ]
    confidence = f"{100 * verdicts[0].confidence:g}%"
    return [
        "",
        *table(["conclusion", "verdict", "release", "sure up to"], rows, left=3),
        "",
        f"A verdict is about the private table and stands with {confidence} confidence, for one "
        "conclusion at a",
        "time. sure up to: the largest confidence at which the table can be said to do as the "
        "release does.",
    ]
