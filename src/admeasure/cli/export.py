"""`export`: a release in the forms of other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admeasure.cli.arguments import ReleasePath, flag, option
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
    out: Annotated[Path, option("PATH", "Where to write it.", "--out", "-o")],
    rows: Annotated[int | None, option("ROWS", "Of the data package.", "-n", "--rows")] = None,
    seed: Annotated[int | None, option("N", "For its rows; harmless here.")] = None,
    *,
    force: Annotated[bool, flag("--force", "Overwrite a file.")] = False,
) -> None:
    """A release in the form of another tool. Costs no budget."""
    from admeasure.verbs.export import export as exported
    from admeasure.verbs.given import release_of

    loaded = release_of(release)
    exported(loaded, out, form.value, rows=rows, seed=seed, overwrite=force)
    banner(loaded.certificate.stamp)
    confirm(f"Wrote {out}.")
