"""`ledger`: the verbs of the budget book."""

from __future__ import annotations

from typing import Annotated

import typer

from admeasure.cli.arguments import Book, Dataset, Delta, Epsilon, Json

ledger = typer.Typer(help="The budget book: what was ever spent on a data set.")


@ledger.command("create")
def create(
    file: Book,
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Delta = 1e-9,
    delta_share: Annotated[
        float,
        typer.Option(
            "--delta-share",
            metavar="D",
            help='Of delta, for runs that find levels (enum = "private"): a tenth of delta each.',
        ),
    ] = 0.0,
) -> None:
    """Enter a data set with its total budget, which stands for good."""
    from admeasure.cli import book

    book.create(file, dataset, epsilon, delta, delta_share)


@ledger.command("show")
def show(
    file: Book,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="Only this one, with its runs.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """What was spent and what is left."""
    from admeasure.cli import book

    book.show(file, dataset, json=json)


@ledger.command("verify")
def verify(
    file: Book,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="COPY", help="Compare with a copy of the book."),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Whether the book is undamaged, and holds all that a copy of it holds."""
    from admeasure.cli import book

    book.verify(file, against, json=json)


@ledger.command("close")
def close(file: Book, dataset: Dataset) -> None:
    """Refuse every further run on a data set, for good."""
    from admeasure.cli import book

    book.close(file, dataset)
