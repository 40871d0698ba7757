"""`sample`: synthetic rows of a release, which cost nothing."""

from __future__ import annotations

import csv
from pathlib import Path

from admeasure.cli.arguments import conditions
from admeasure.errors import UsageError
from admeasure.release import Release
from admeasure.terminal.bars import first_used, progress
from admeasure.terminal.console import banner, confirm, say_json, warn
from admeasure.verbs.sample import sample_file


def show(
    path: Path,
    out: Path,
    rows: int | None,
    seed: int | None,
    *,
    where: str | None,
    like: Path | None,
    columns: str | None,
    search: bool | None,
    max_seconds: float | None,
    safe: bool,
    force: bool,
    json: bool,
) -> None:
    if rows is not None and rows < 0:
        raise UsageError(f"-n must not be negative; it is {rows}.")
    release = Release.load(path)
    count = release.rows if rows is None else rows
    met = conditions(where)
    what = "rows" if met or like is not None else f"{count:,} rows"
    with progress() as make:
        made = sample_file(
            release,
            out,
            rows,
            where=met,
            like=like,
            columns=None if columns is None else next(csv.reader([columns]), []),
            seed=seed,
            search=search,
            max_seconds=max_seconds,
            spreadsheet_safe=safe,
            overwrite=force,
            tell=first_used(make, f"sampling {what}"),
        )
    if made.formulas:
        warn(
            f"A spreadsheet would run texts of {', '.join(made.formulas)} as formulas. For one, "
            "sample with --spreadsheet-safe."
        )
    stamp = release.certificate.stamp
    if json:
        said = {"rows": made.rows, "columns": list(made.columns), "file": str(out), "stamp": stamp}
        say_json(said | {"search": made.searched})
        return
    if stamp:
        banner(stamp)
    confirm(f"Wrote {made.rows:,} synthetic rows with {len(made.columns)} columns to {out}.")
