"""How a command talks beside its result: `--quiet` and `--log`, which every verb has.

They are read from the arguments before the parser is, so that its own errors are said in the same
way; the parser knows them for `--help`, and to refuse a form that there is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any

import typer

from admeasure.terminal.console import Voice, voice


class LogForm(StrEnum):
    """How lines beside the result are written."""

    TEXT = "text"
    JSON = "json"


QUIET = Annotated[
    bool,
    typer.Option("--quiet", help="Say nothing beside results but warnings and errors."),
]
LOG = Annotated[
    LogForm,
    typer.Option("--log", help="Lines on stderr for people, or as JSON for machines."),
]


def voice_of(argv: Sequence[str]) -> Voice:
    """What the arguments ask for, or what the command talks in that started this one.

    >>> voice_of(["fit", "--quiet", "--log", "json"])
    Voice(quiet=True, in_json=True)
    """
    asked = {*argv, *(f"{a}={b}" for a, b in pairwise(argv))}
    return Voice(
        quiet=voice().quiet or "--quiet" in asked,
        in_json=voice().in_json or f"--log={LogForm.JSON}" in asked,
    )


def _told(*, quiet: QUIET = False, log: LOG = LogForm.TEXT) -> None: ...


def talking() -> list[Any]:
    """Both options as the parser of a verb has them, whose function need not know of them."""
    verb = typer.Typer(add_completion=False, rich_markup_mode=None)
    verb.command()(_told)
    options = typer.main.get_command(verb).params
    for option in options:
        option.expose_value = False
    return options
