"""Errors that a user can cause, each with the exit code of the command line.

A message says what is wrong, which value or rule it concerns, and what to do next. No message
holds a value or a count from the private table: these errors may be shown and logged anywhere.
"""

from __future__ import annotations

LONGEST_LINE = 800
"""Of a message: what it quotes may be as long as a hostile file makes it."""


class AdmeasureError(Exception):
    """Base of every error a user can cause. Anything else that escapes is a fault of ours."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__("\n".join(map(_shortened, message.split("\n"))))


class UsageError(AdmeasureError):
    """A wrong argument: an unknown mechanism, a negative epsilon, a path that is not there."""

    exit_code = 2


class SchemaError(AdmeasureError):
    """The schema is incomplete or contradicts itself."""

    exit_code = 3


class DataError(AdmeasureError):
    """The table does not satisfy its schema. Names column and rule, never a value."""

    exit_code = 3


class WorkloadError(AdmeasureError):
    """A workload or a query file that does not fit the schema."""

    exit_code = 3


class ReleaseError(AdmeasureError):
    """A release folder that is damaged, foreign, or of a newer format."""

    exit_code = 3


class BudgetError(AdmeasureError):
    """More budget was asked for than is left, or the budget book cannot be used. The message says
    what is charged."""

    exit_code = 4


class ResourceError(AdmeasureError):
    """The work would pass a stated limit of memory, time or domain size."""

    exit_code = 5


class LimitReached(ResourceError):
    """A run under way reached the end of its memory or time: with more, the same run would go on.
    Any other `ResourceError` of a run comes again when it is resumed."""


def _shortened(line: str) -> str:
    """The line without its middle, where it is too long: its end says what to do."""
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
