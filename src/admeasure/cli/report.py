"""`report`: a release for people, as HTML or text; its certificate alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from admeasure.cli.arguments import Conclusions, Confidence, Force, ReleasePath, flag, option
from admeasure.errors import UsageError
from admeasure.terminal.bars import progress
from admeasure.terminal.console import confirm, note


def report(
    release: ReleasePath,
    out: Annotated[Path, option("FILE", "The report's file.", "--out", "-o")],
    internal: Annotated[str | None, option("DATA", "Add true errors: NOT PRIVATE.")] = None,
    confidence: Confidence = 0.95,
    conclusions: Conclusions = None,
    ledger: Annotated[
        str | None, option("BOOK", "Show what was ever spent on the data set.")
    ] = None,
    *,
    certificate: Annotated[
        bool, flag("--certificate", "The certificate alone: .html (one page), .json, .yaml.")
    ] = False,
    force: Force = False,
) -> None:
    """What the release is, what it cost, how good it says it is. May be published.

    FILE.html is one page with charts, complete in itself; any other suffix is plain text.
    """
    from admeasure.evaluation import NOT_PRIVATE
    from admeasure.sources.address import printable
    from admeasure.verbs.report import certificate as write_certificate
    from admeasure.verbs.report import report as write_report

    if internal is not None and certificate:
        raise UsageError("A certificate has nothing internal. Leave out --internal.")
    if certificate:
        confirm(f"Wrote {write_certificate(release, out, overwrite=force)}.")
        return
    with progress(shown=internal is not None) as make:
        written = write_report(
            release,
            out,
            confidence=confidence,
            conclusions=conclusions,
            book=ledger,
            internal=internal,
            overwrite=force,
            reading=None if internal is None else make(f"reading {printable(internal)}"),
        )
    if internal is not None:
        note(NOT_PRIVATE)
    confirm(f"Wrote {written}.")
