"""The verbs that meet other tools: their options. Each verb's work is in a module of its own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admeasure.cli.arguments import Json, ReleasePath, SchemaPath, WorkloadText


class ExportAs(StrEnum):
    """Forms of other tools."""

    FRICTIONLESS = "frictionless"
    SDV = "sdv"
    CSV = "csv"


def compare(
    real: Annotated[str, typer.Argument(metavar="REAL", help="The real table.")],
    synthetic: Annotated[
        list[str],
        typer.Argument(metavar="SYNTHETIC...", help="Tables made by any tool, or releases."),
    ],
    schema: SchemaPath,
    workload: WorkloadText,
    predict: Annotated[
        str | None,
        typer.Option("--predict", metavar="COLUMN", help="Also by what a learner learns of it."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="For the learner's rows.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A page (.html) too.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    json: Json = False,
) -> None:
    """Judge synthetic tables, made by any tool, against the real one. NOT PRIVATE."""
    from admeasure.cli.compare import show

    show(real, synthetic, schema, workload, predict, seed, out, force=force, json=json)


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
    from admeasure.cli.export import show

    show(release, out, form.value, rows, seed, force=force)
