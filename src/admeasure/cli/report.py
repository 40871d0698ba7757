"""`report`: a release for people, as HTML or text; its certificate alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.evaluation import NOT_PRIVATE
from admeasure.sources.address import printable
from admeasure.terminal.bars import Bar, progress
from admeasure.terminal.console import confirm, note
from admeasure.verbs.report import certificate, report


@dataclass(frozen=True)
class ReportArguments:
    """What the command line asked for."""

    release: Path
    out: Path
    internal: str | None
    confidence: float
    conclusions: Path | None
    ledger: str | None
    certificate: bool


def show(given: ReportArguments, *, force: bool) -> None:
    if given.internal is not None and given.certificate:
        raise UsageError("A certificate has nothing internal. Leave out --internal.")
    if given.certificate:
        confirm(f"Wrote {certificate(given.release, given.out, overwrite=force)}.")
        return
    if given.internal is None:
        out = _written(given, force=force)
    else:
        with progress() as make:
            reading = make(f"reading {printable(given.internal)}")
            out = _written(given, force=force, reading=reading)
        note(NOT_PRIVATE)
    confirm(f"Wrote {out}.")


def _written(given: ReportArguments, *, force: bool, reading: Bar | None = None) -> Path:
    return report(
        given.release,
        given.out,
        confidence=given.confidence,
        conclusions=given.conclusions,
        book=given.ledger,
        internal=given.internal,
        overwrite=force,
        reading=reading,
    )
