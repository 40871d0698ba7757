"""`sample`: synthetic rows of a release, which cost nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

from admeasure.cli.arguments import Force, Json, ReleasePath, conditions, flag, option
from admeasure.errors import UsageError
from admeasure.terminal.bars import first_used, progress
from admeasure.terminal.console import banner, confirm, say_json, warn


def sample(
    release: ReleasePath,
    out: Annotated[Path, option("FILE", "A .csv or .parquet file.", "--out", "-o")],
    rows: Annotated[
        int | None, option("ROWS", "As many as the table has, if not told.", "-n", "--rows")
    ] = None,
    where: Annotated[
        str | None, option("CONDITIONS", "Rows that meet: \"sex = 'Female'\".")
    ] = None,
    like: Annotated[Path | None, option("FILE", "A CSV table of conditions, with `rows`.")] = None,
    columns: Annotated[str | None, option("A,B", "These columns only.")] = None,
    seed: Annotated[int | None, option("N", "Repeatable rows; harmless here.")] = None,
    *,
    search: Annotated[
        bool | None,
        flag(
            "--search/--no-search",
            "Bring the rows' counts nearer to the model's answers; where it is quick, if not told.",
        ),
    ] = None,
    max_seconds: Annotated[float | None, option("S", "End the search after this time.")] = None,
    spreadsheet_safe: Annotated[
        bool, flag("--spreadsheet-safe", "Mark CSV texts that would run as formulas.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write synthetic rows. Costs no budget."""
    from admeasure.release import Release
    from admeasure.verbs.sample import sample_file

    if rows is not None and rows < 0:
        raise UsageError(f"-n must not be negative; it is {rows}.")
    loaded = Release.load(release)
    count = loaded.rows if rows is None else rows
    met = conditions(where)
    what = "rows" if met or like is not None else f"{count:,} rows"
    with progress() as make:
        made = sample_file(
            loaded,
            out,
            rows,
            where=met,
            like=like,
            columns=None if columns is None else next(csv.reader([columns]), []),
            seed=seed,
            search=search,
            max_seconds=max_seconds,
            spreadsheet_safe=spreadsheet_safe,
            overwrite=force,
            tell=first_used(make, f"sampling {what}"),
        )
    if made.formulas:
        warn(
            f"A spreadsheet would run texts of {', '.join(made.formulas)} as formulas. For one, "
            "sample with --spreadsheet-safe."
        )
    stamp = loaded.certificate.stamp
    if json:
        said = {"rows": made.rows, "columns": list(made.columns), "file": str(out), "stamp": stamp}
        say_json(said | {"search": made.searched})
        return
    banner(stamp)
    confirm(f"Wrote {made.rows:,} synthetic rows with {len(made.columns)} columns to {out}.")
