"""`study`: mechanisms compared over grids, on all cores or a cluster. NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from admeasure.cli.arguments import Json, argument, flag, option

if TYPE_CHECKING:
    from admeasure.studies.table import StudyCell


def study(
    plan: Annotated[Path, argument("PLAN", "The study's plan (TOML).")],
    out: Annotated[Path, option("FILE", "The results (JSON lines); continued.", "--out", "-o")],
    jobs: Annotated[
        int | None, option("N", "Processes at a time; one a core, if not told.")
    ] = None,
    ray: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Run on a Ray cluster: auto, local or its address. The files must lie at the "
            "same paths on every machine.",
        ),
    ] = None,
    measure: Annotated[
        str, option("M", "What to show: workload_error, max_error, …")
    ] = "workload_error",
    export: Annotated[
        Path | None, option("FILE", "All rows as a .csv or .parquet file too.")
    ] = None,
    picture: Annotated[Path | None, option("FILE", "Draw them too: .png, .svg or .pdf.")] = None,
    *,
    retry: Annotated[bool, flag("--retry", "Run the jobs that failed once more.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite what --export and --picture name.")] = False,
    json: Json = False,
) -> None:
    """Compare mechanisms over tables, workloads, options, epsilons and seeds. NOT PRIVATE.

    A study that was interrupted goes on where it stopped; a plan with more seeds adds the new runs.
    """
    from admeasure.studies import STAMP
    from admeasure.terminal.bars import Bar, progress
    from admeasure.terminal.console import banner, note, say_json, warn
    from admeasure.terminal.exits import Interrupted
    from admeasure.verbs.study import study as run_study

    done, total = 0, 1
    tell: Bar | None = None
    with progress() as make:

        def started(missing: int, of: int) -> None:
            nonlocal tell, total
            warn(STAMP)
            tell, total = make(f"{of:,} jobs to {out}"), missing
            note(f"{of - missing:,} of {of:,} jobs have results already; running {missing:,}.")

        def hear(row: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            if "failure" in row:
                where = f"{row['table']}, {row['workload']}, {row['label']}"
                setting = f"{where}, epsilon {row['epsilon']:g}, seed {row['seed']}"
                warn(f"{setting}: {row['failure']}: {row['error']}")
            if tell is not None:
                tell(done / total)

        try:
            found = run_study(
                plan,
                out,
                jobs=jobs,
                ray=ray,
                retry=retry,
                measure=measure,
                export=export,
                picture=picture,
                overwrite=force,
                started=started,
                hear=hear,
            )
        except KeyboardInterrupt:
            raise Interrupted(
                f"{done:,} results were added to {out}. Give the same command to go on."
            ) from None
    if found.versions > 1:
        warn(
            f"These are results of {found.versions} versions of the code. Another --out starts "
            "anew."
        )
    if json:
        say_json({**found.to_json(), "run": done})
        return
    banner(STAMP)
    _print(found.cells, measure)
    banner(STAMP)


def _print(cells: list[StudyCell], measure: str) -> None:
    from admeasure.studies.table import grid, panels
    from admeasure.terminal.console import say, say_table

    for (name, workload), mine in panels(cells).items():
        runs = max(len(cell.values) + len(cell.failures) for cell in mine)
        over = f"mean ± standard deviation over {runs} seeds" if runs > 1 else "one seed"
        say(f"{name}, {workload}: {measure.replace('_', ' ')}, {over}")
        say()
        headers, lines = grid(mine)
        say_table(headers, lines)
        for cell in mine:
            for reason in dict.fromkeys(cell.failures):
                say(f"{cell.label}, epsilon {cell.epsilon:g}: {reason}")
        say()
