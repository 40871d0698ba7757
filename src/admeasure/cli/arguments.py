"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admeasure.errors import UsageError, WorkloadError

if TYPE_CHECKING:
    from admeasure.request import ChargeTo

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV or Parquet path, folder or glob, or a URL.")
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder that fit wrote.")]
SchemaPath = Annotated[Path, typer.Option("--schema", metavar="S", help="The schema (TOML).")]
WorkloadText = Annotated[
    str,
    typer.Option(
        "--workload",
        metavar="W",
        help="The questions to answer well: a TOML file, all-3way, target:COLUMN:3way, "
        "random:64:3way:seed=0, skewed:256:3way:seed=0 or threshold:2of3:64:seed=0.",
    ),
]
Epsilon = Annotated[float, typer.Option("--epsilon", metavar="E", help="The privacy budget.")]
Delta = Annotated[
    float, typer.Option("--delta", metavar="D", help="Its failure probability, far below 1/rows.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Show = Annotated[
    bool,
    typer.Option(
        "--show",
        help="Print values of the private table that look wrong, on a terminal only: NOT PRIVATE.",
    ),
]
Confidence = Annotated[
    float, typer.Option("--confidence", metavar="P", help="How sure each interval is.")
]
Conclusions = Annotated[
    Path | None,
    typer.Option("--conclusions", metavar="FILE", help="Conclusions that must hold (TOML)."),
]
MaxMemory = Annotated[
    float | None,
    typer.Option("--max-memory", metavar="MB", help="Stop when the process holds this much."),
]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", metavar="S", help="Stop after this time.")
]
CacheCodes = Annotated[
    Path | None,
    typer.Option(
        "--cache-codes",
        metavar="DIR",
        help="Keep encoded rows in a file without a name in DIR while the run lasts, where they do "
        "not fit memory.",
    ),
]
BookPlace = Annotated[
    str, typer.Argument(metavar="BOOK", help="The budget book: a file, or postgres://…")
]
Dataset = Annotated[str, typer.Option("--dataset", metavar="NAME", help="The data set.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite FILE.")]
EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The settings of a verb that takes the options of a mechanism too."""

MechanismName = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="M", help="auto (the default), aim-plus, mst, gem, …"),
]
Public = Annotated[
    str | None, typer.Option("--public", metavar="DATA", help="A public table to learn from.")
]
LedgerBook = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="BOOK", help="The budget book to charge: a file, or postgres://…"
    ),
]
LedgerDataset = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="The data set in the book.")
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Repeatable noise, for tests: NOT PRIVATE."),
]
Certify = Annotated[
    float | None,
    typer.Option(
        "--certify",
        metavar="SHARE",
        help="Of the budget, for a certificate of accuracy: 0.05 with auto, else 0.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the interrupted run at DIR.")]


def conditions(where: str | None, option: str = "--where") -> dict[str, Any]:
    """What `--where` says, as a query file would."""
    from admeasure.untrusted import parse_toml  # late: `--help` reads no file

    return parse_toml(f"where = {{{where or ''}}}", option, WorkloadError)["where"]


def known_options(context: typer.Context) -> list[str]:
    """The options that the verb itself has, for a hint where one is misspelled."""
    return [text for parameter in context.command.params for text in parameter.opts]


def charge_to(ledger: str | None, dataset: str | None) -> ChargeTo | None:
    """What `--ledger` and `--dataset` say."""
    from admeasure.request import ChargeTo

    if (ledger is None) != (dataset is None):
        raise UsageError("--ledger BOOK and --dataset NAME belong together. Give both or neither.")
    return ChargeTo(ledger, dataset) if ledger is not None and dataset is not None else None
