"""A release in three sentences, for who decides about its use: what it is safe for, what it is not
safe for, and the smallest count to trust. Computed from the facts of a report, so publishable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admeasure.reporting.facts import Facts, Ranked

NAMED = 3
"""Marginals that are named as examples."""


@dataclass(frozen=True)
class Summary:
    """Ends of the sentences "It is safe for …" and "It is not safe for …", and a count."""

    safe: str
    unsafe: str
    smallest: int | None
    """Rows, in a table of the workload; None where no count can be told from zero."""
    alone: int | None
    """Rows, of a single column, where that is fewer."""

    @property
    def trust(self) -> str:
        if self.smallest is None:
            return "No count of this release can be told from zero."
        if self.alone is None:
            return (
                f"Trust counts from about {self.smallest:,} rows on: a smaller one may as well be "
                "none."
            )
        return (
            f"Trust counts in tables of several columns from about {self.smallest:,} rows on, and "
            f"of a single column from about {self.alone:,}: a smaller one may as well be none."
        )


def summarise(facts: Facts, unit: str) -> Summary:
    grades = facts.grades
    tables, known = len(facts.ranked), len(grades["good"]) + len(grades["fair"])
    whose = "of" if tables == facts.marginals else "drawn from"
    told = [c for c in facts.columns if c.grade != "poor"]
    columns = len(told) + len(facts.more_columns)
    answered = columns + len(facts.columns) - len(told)
    if known or columns:
        safe = (
            f"counts and shares in {known:,} of {tables:,} tables {whose} the workload and of "
            f"{columns:,} of {answered:,} single columns, each within its interval"
            f"{_such_as(_best(grades['good'] or grades['fair']))}."
        )
    else:
        safe = "trying out code; nothing in it is known well enough to be quoted."
    poor = grades["poor"]
    tables_of = "table" if len(poor) == 1 else "tables"
    worst = f"; {len(poor):,} poorly known {tables_of}{_such_as(poor[::-1])}" if poor else ""
    unsafe = f"statements about any one {unit}; tables that the workload does not name{worst}."
    found = (facts.smallest, facts.smallest_together)
    counts = [max(1, round(c)) for c in found if c is not None and c < facts.rows]
    most, least = max(counts, default=None), min(counts, default=None)
    return Summary(safe, unsafe, most, least if least != most else None)


def _best(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Those of most columns first: they say most."""
    return sorted(ranked, key=lambda r: (-len(r.columns), r.error, r.columns))


def _such_as(ranked: Sequence[Ranked]) -> str:
    if not ranked:
        return ""
    names = ", ".join(" × ".join(r.columns) for r in ranked[:NAMED])
    return f" (such as {names})" if len(ranked) > NAMED else f" ({names})"
