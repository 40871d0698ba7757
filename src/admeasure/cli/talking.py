"""How a command talks beside its result: `--quiet` and `--log`, which every verb has.

They are read from the arguments before the parser is, so that its own errors are said in the same
way; the parser knows them for `--help`, and to refuse a form that there is not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

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


def talking(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb with both options, which are taken care of already."""

    @functools.wraps(verb)
    def told(*args: Any, quiet: bool = False, log: LogForm = LogForm.TEXT, **given: Any) -> Any:
        return verb(*args, **given)

    own = inspect.signature(verb, eval_str=True)
    added = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)
        for name, value, kind in (("quiet", False, QUIET), ("log", LogForm.TEXT, LOG))
    )
    hints = get_type_hints(verb, include_extras=True)
    told.__annotations__ = {**hints, "quiet": QUIET, "log": LOG}
    told.__signature__ = own.replace(  # pyright: ignore[reportAttributeAccessIssue]
        parameters=[*own.parameters.values(), *added]
    )
    return told
