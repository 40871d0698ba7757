"""Arguments and options that several verbs share, and those of mechanisms."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admeasure.errors import UsageError, WorkloadError

if TYPE_CHECKING:
    from admeasure.mechanisms import Mechanism
    from admeasure.mechanisms.auto import Auto
    from admeasure.request import ChargeTo


def argument(metavar: str, said: str) -> Any:
    """What is named by its place."""
    return typer.Argument(metavar=metavar, help=said)


def option(metavar: str, said: str, *names: str) -> Any:
    """An option with a value, called like its parameter where no name is given."""
    return typer.Option(*names, metavar=metavar, help=said)


def flag(names: str, said: str) -> Any:
    """An option without a value."""
    return typer.Option(names, help=said)


Data = Annotated[str, argument("DATA", "CSV or Parquet path, folder or glob, or a URL.")]
ReleasePath = Annotated[Path, argument("RELEASE", "The folder that fit wrote.")]
SchemaPath = Annotated[Path, option("S", "The schema (TOML).")]
WorkloadText = Annotated[
    str,
    option(
        "W",
        "The questions to answer well: a TOML file, all-3way, target:COLUMN:3way, "
        "random:64:3way:seed=0, skewed:256:3way:seed=0 or threshold:2of3:64:seed=0.",
    ),
]
Epsilon = Annotated[float, option("E", "The privacy budget.")]
Delta = Annotated[float, option("D", "Its failure probability, far below 1/rows.")]
Json = Annotated[bool, flag("--json", "Print the result as JSON.")]
Show = Annotated[
    bool,
    flag(
        "--show",
        "Print values of the private table that look wrong, on a terminal only: NOT PRIVATE.",
    ),
]
Confidence = Annotated[float, option("P", "How sure each interval is.")]
Conclusions = Annotated[Path | None, option("FILE", "Conclusions that must hold (TOML).")]
MaxMemory = Annotated[float | None, option("MB", "Stop when the process holds this much.")]
MaxSeconds = Annotated[float | None, option("S", "Stop after this time.")]
CacheCodes = Annotated[
    Path | None,
    option(
        "DIR",
        "Keep encoded rows in a file without a name in DIR while the run lasts, where they do "
        "not fit memory.",
    ),
]
BookPlace = Annotated[str, argument("BOOK", "The budget book: a file, or postgres://…")]
Dataset = Annotated[str, option("NAME", "The data set.")]
Force = Annotated[bool, flag("--force", "Overwrite FILE.")]
EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The settings of a verb that takes the options of a mechanism too."""

MechanismName = Annotated[str | None, option("M", "auto (the default), aim-plus, mst, gem, …")]
Public = Annotated[str | None, option("DATA", "A public table to learn from.")]
LedgerBook = Annotated[
    str | None, option("BOOK", "The budget book to charge: a file, or postgres://…")
]
LedgerDataset = Annotated[str | None, option("NAME", "The data set in the book.")]
Seed = Annotated[int | None, option("N", "Repeatable noise, for tests: NOT PRIVATE.")]
Certify = Annotated[
    float | None,
    option("SHARE", "Of the budget, for a certificate of accuracy: 0.05 with auto, else 0."),
]
Resume = Annotated[bool, flag("--resume", "Continue the interrupted run at DIR.")]


def conditions(where: str | None, option: str = "--where") -> dict[str, Any]:
    """What `--where` says, as a query file would."""
    from admeasure.untrusted import parse_toml  # late: `--help` reads no file

    return parse_toml(f"where = {{{where or ''}}}", option, WorkloadError)["where"]


def charge_to(ledger: str | None, dataset: str | None) -> ChargeTo | None:
    """What `--ledger` and `--dataset` say."""
    from admeasure.request import ChargeTo

    if (ledger is None) != (dataset is None):
        raise UsageError("--ledger BOOK and --dataset NAME belong together. Give both or neither.")
    return ChargeTo(ledger, dataset) if ledger is not None and dataset is not None else None


def mechanism_of(name: str | None, context: typer.Context) -> Mechanism | Auto:
    """The mechanism with its options; a misspelled one may be meant for the verb itself."""
    from admeasure.verbs.given import mechanism_of as built

    options = pairs(context.args)
    try:
        return built(name, options)
    except UsageError as error:
        known = [text for parameter in context.command.params for text in parameter.opts]
        near = [m for o in options for m in difflib.get_close_matches("--" + o, known, 1, 0.75)]
        if near and "has no option" in str(error):
            raise UsageError(f"{error} Did you mean {near[0]}?") from None
        raise


def pairs(extra: Sequence[str]) -> dict[str, str]:
    """`--rounds 20 --measure=cells` as a mapping.

    >>> pairs(["--rounds", "20", "--measure=cells"])
    {'rounds': '20', 'measure': 'cells'}
    """
    found: dict[str, str] = {}
    rest = list(extra)
    while rest:
        option = rest.pop(0)
        if not option.startswith("--") or option == "--":
            raise UsageError(f"There is no place for the argument {option!r}. See --help.")
        name, equals, value = option.removeprefix("--").partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UsageError(f"The option --{name} needs a value: --{name} VALUE.")
            value = rest.pop(0)
        if name in found:
            raise UsageError(f"The option --{name} is given twice.")
        found[name] = value
    return found
