"""`export`: a release in the forms of other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admeasure.cli.arguments import ReleasePath
from admeasure.terminal.console import banner, confirm


class ExportAs(StrEnum):
    """Forms of other tools."""

    FRICTIONLESS = "frictionless"
    SDV = "sdv"
    CSV = "csv"


def export(
    release: ReleasePath,
    form: Annotated[
        ExportAs,
        typer.Option(
            "--as", help="A data package (a folder), SDV's metadata, or the measurements as CSV."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PATH", help="Where to write it.")],
    rows: Annotated[
        int | None, typer.Option("-n", "--rows", metavar="ROWS", help="Of the data package.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="For its rows; harmless here.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
) -> None:
    """A release in the form of another tool. Costs no budget."""
    from admeasure.verbs.export import export as exported
    from admeasure.verbs.given import release_of

    loaded = release_of(release)
    exported(loaded, out, form.value, rows=rows, seed=seed, overwrite=force)
    banner(loaded.certificate.stamp)
    confirm(f"Wrote {out}.")
