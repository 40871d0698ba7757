"""`export`: a release in the forms of other tools."""

from __future__ import annotations

from pathlib import Path

from admeasure.terminal.console import banner, confirm
from admeasure.verbs.export import ExportForm, export
from admeasure.verbs.given import release_of


def show(
    path: Path, out: Path, form: ExportForm, rows: int | None, seed: int | None, *, force: bool
) -> None:
    release = release_of(path)
    export(release, out, form, rows=rows, seed=seed, overwrite=force)
    if release.certificate.stamp:
        banner(release.certificate.stamp)
    confirm(f"Wrote {out}.")
