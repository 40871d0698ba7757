"""`report`: a release for people, as HTML or text; its certificate alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from admeasure.errors import UsageError
from admeasure.evaluation import NOT_PRIVATE
from admeasure.sources.address import printable
from admeasure.terminal.bars import Bar, progress
from admeasure.terminal.console import note, say
from admeasure.verbs.report import certificate, report


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    release: Path
    out: Path
    internal: str | None
    confidence: float
    conclusions: Path | None
    ledger: Path | None
    certificate: bool


def show(request: Request, *, force: bool) -> None:
    if request.internal is not None and request.certificate:
        raise UsageError("A certificate has nothing internal. Leave out --internal.")
    if request.certificate:
        say(f"Wrote {certificate(request.release, request.out, overwrite=force)}.")
        return
    if request.internal is None:
        out = _written(request, force=force)
    else:
        with progress() as make:
            reading = make(f"reading {printable(request.internal)}")
            out = _written(request, force=force, reading=reading)
        note(NOT_PRIVATE)
    say(f"Wrote {out}.")


def _written(request: Request, *, force: bool, reading: Bar | None = None) -> Path:
    return report(
        request.release,
        request.out,
        confidence=request.confidence,
        conclusions=request.conclusions,
        ledger=request.ledger,
        internal=request.internal,
        overwrite=force,
        reading=reading,
    )
