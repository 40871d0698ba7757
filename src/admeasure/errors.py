"""Errors that a user can cause, each with the exit code of the command line.

A message says what is wrong, which value or rule it concerns, and what to do next. No message
holds a value or a count from the private table: these errors may be shown and logged anywhere.
"""

from __future__ import annotations

from enum import IntEnum

LONGEST_LINE = 800
"""Of a message: what it quotes may be as long as a hostile file makes it."""


class ExitCode(IntEnum):
    """What the command line leaves with: the one table of it.

    >>> ExitCode.BUDGET, ExitCode.BUDGET.meaning
    (<ExitCode.BUDGET: 4>, 'the budget book refuses, or cannot be used')
    """

    meaning: str
    next: str
    """What whoever started the command should do."""

    def __new__(cls, value: int, meaning: str, then: str) -> ExitCode:
        made = int.__new__(cls, value)
        made._value_ = value
        made.meaning, made.next = meaning, then
        return made

    DONE = 0, "done", "go on"
    UNEXPECTED = 1, "an unexpected error, a fault of admeasure", "report it; do not repeat"
    USAGE = 2, "a wrong argument, option, path or run file", "correct the command"
    INVALID = (
        3,
        "an invalid schema, table, workload, query file or release",
        "correct the file that the message names",
    )
    BUDGET = 4, "the budget book refuses, or cannot be used", "do not repeat; see `ledger show`"
    RESOURCE = (
        5,
        "a limit of memory, time, disk or domain size",
        "give it more room; go on with `--resume` where the message says so",
    )
    INTERRUPTED = 130, "interrupted, by Ctrl-C or SIGTERM", "go on with `--resume`"


class AdmeasureError(Exception):
    """Base of every error a user can cause. Anything else that escapes is a fault of ours."""

    exit_code = ExitCode.UNEXPECTED

    def __init__(self, message: str = "") -> None:
        super().__init__("\n".join(map(_shortened, message.split("\n"))))


class UsageError(AdmeasureError):
    """A wrong argument: an unknown mechanism, a negative epsilon, a path that is not there."""

    exit_code = ExitCode.USAGE


class SchemaError(AdmeasureError):
    """The schema is incomplete or contradicts itself."""

    exit_code = ExitCode.INVALID


class DataError(AdmeasureError):
    """The table does not satisfy its schema. Names column and rule, never a value."""

    exit_code = ExitCode.INVALID


class WorkloadError(AdmeasureError):
    """A workload or a query file that does not fit the schema."""

    exit_code = ExitCode.INVALID


class ReleaseError(AdmeasureError):
    """A release folder that is damaged, foreign, or of a newer format."""

    exit_code = ExitCode.INVALID


class BudgetError(AdmeasureError):
    """More budget was asked for than is left, or the budget book cannot be used. The message says
    what is charged."""

    exit_code = ExitCode.BUDGET


class ResourceError(AdmeasureError):
    """The work would pass a stated limit of memory, time or domain size."""

    exit_code = ExitCode.RESOURCE


class LimitReached(ResourceError):
    """A run under way reached the end of its memory or time: with more, the same run would go on.
    Any other `ResourceError` of a run comes again when it is resumed."""


def _shortened(line: str) -> str:
    """The line without its middle, where it is too long: its end says what to do."""
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
