"""`study`: mechanisms compared over grids, on all cores or a cluster. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admeasure.cli.arguments import Json

if TYPE_CHECKING:
    from admeasure.studies.table import Cell


def study(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The study's plan (TOML).")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The results (JSON lines); continued."),
    ],
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="Processes at a time; one a core, if not told."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Run on a Ray cluster: auto, local or its address. The files must lie at the "
            "same paths on every machine.",
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option("--measure", metavar="M", help="What to show: workload_error, max_error, …"),
    ] = "workload_error",
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="All rows as a .csv or .parquet file too."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw them too: .png, .svg or .pdf."),
    ] = None,
    *,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run the jobs that failed once more.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what --export and --picture name.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare mechanisms over tables, workloads, options, epsilons and seeds. NOT PRIVATE.

    A study that was interrupted goes on where it stopped; a plan with more seeds adds the new runs.
    """
    from admeasure.files import refuse_suffix, refuse_to_overwrite
    from admeasure.studies import STAMP
    from admeasure.studies import table as tables
    from admeasure.studies.picture import check_picture, draw
    from admeasure.studies.plan import load_plan
    from admeasure.studies.run import run_study
    from admeasure.terminal.bars import progress
    from admeasure.terminal.console import banner, note, say_json, warn
    from admeasure.terminal.exits import Interrupted

    for path, check in ((export, refuse_suffix), (picture, check_picture)):
        if path is not None:
            check(path)
            refuse_to_overwrite(path, force=force)
    tables.summary([], measure)
    warn(STAMP)
    read = load_plan(plan)
    counted = {"run": 0, "failed": 0}
    with progress() as make:
        bar = make(f"{len(read.jobs):,} jobs to {out}")

        def started(missing: int, of: int) -> None:
            counted["missing"] = missing
            note(f"{of - missing:,} of {of:,} jobs have results already; running {missing:,}.")

        def hear(row: dict[str, Any]) -> None:
            counted["run"] += 1
            counted["failed"] += "failure" in row
            if "failure" in row:
                where = f"{row['table']}, {row['workload']}, {row['label']}"
                setting = f"{where}, epsilon {row['epsilon']:g}, seed {row['seed']}"
                warn(f"{setting}: {row['failure']}: {row['error']}")
            bar(counted["run"] / counted["missing"])

        try:
            rows = run_study(
                read, out, workers=jobs, ray=ray, retry=retry, started=started, hear=hear
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"{counted['run']:,} results were added to {out}. Give the same command to go on."
            ) from None
    cells = tables.summary(rows, measure)
    if export is not None:
        tables.export(rows, export)
    if picture is not None:
        draw(cells, measure, picture)
    versions = len({(row["version"], row["code"]) for row in rows if "failure" not in row})
    if versions > 1:
        warn(f"These are results of {versions} versions of the code. Another --out starts anew.")
    if json:
        failed = sum("failure" in row for row in rows)
        facts = {"stamp": STAMP, "jobs": len(rows), "run": counted["run"], "failed": failed}
        say_json({**facts, "measure": measure, "cells": [cell.to_json() for cell in cells]})
        return
    banner(STAMP)
    _print(cells, measure)
    banner(STAMP)


def _print(cells: list[Cell], measure: str) -> None:
    from admeasure.studies.table import grid, panels
    from admeasure.terminal.console import say, table

    for (name, workload), mine in panels(cells).items():
        runs = max(len(cell.values) + len(cell.failures) for cell in mine)
        over = f"mean ± standard deviation over {runs} seeds" if runs > 1 else "one seed"
        say(f"{name}, {workload}: {measure.replace('_', ' ')}, {over}")
        say()
        headers, lines = grid(mine)
        for line in table(headers, lines):
            say(line)
        for cell in mine:
            for reason in dict.fromkeys(cell.failures):
                say(f"{cell.label}, epsilon {cell.epsilon:g}: {reason}")
        say()
