"""`sample`: synthetic rows of a release, which cost nothing."""

from __future__ import annotations

from pathlib import Path

from admeasure.errors import UsageError
from admeasure.files import refuse_suffix, refuse_to_overwrite
from admeasure.release import Release
from admeasure.schema.spreadsheet import columns_with_formulas, safe_columns
from admeasure.schema.write import write_table
from admeasure.terminal.bars import progress
from admeasure.terminal.console import banner, say, say_json, warn


def show(
    path: Path,
    out: Path,
    rows: int | None,
    seed: int | None,
    *,
    search: bool | None,
    max_seconds: float | None,
    safe: bool,
    force: bool,
    json: bool,
) -> None:
    refuse_to_overwrite(out, force=force)
    refuse_suffix(out)
    csv = out.suffix.lower() == ".csv"
    if safe and not csv:
        raise UsageError("--spreadsheet-safe is for CSV files. Name one, or leave it out.")
    if rows is not None and rows < 0:
        raise UsageError(f"-n must not be negative; it is {rows}.")
    release = Release.load(path)
    count = release.rows if rows is None else rows
    searched = release.searches(count) if search is None else search
    with progress() as make:
        tell = make(f"sampling {count:,} rows")
        columns = release.sample_columns(
            count, seed=seed, search=searched, max_seconds=max_seconds, tell=lambda p: tell(0.9 * p)
        )
        tell(0.9)
        write_table(safe_columns(columns) if safe else columns, out, quote_texts=safe)
        tell(1.0)
    risky = [] if safe or not csv else columns_with_formulas(release.schema)
    if risky:
        warn(
            f"A spreadsheet would run texts of {', '.join(risky)} as formulas. For one, sample "
            "with --spreadsheet-safe."
        )
    stamp = release.certificate.stamp
    if json:
        said = {"rows": count, "columns": list(columns), "file": str(out), "stamp": stamp}
        say_json(said | {"search": searched})
        return
    if stamp:
        banner(stamp)
    say(f"Wrote {count:,} synthetic rows with {len(columns)} columns to {out}.")
