"""`report`: what a release says of itself, for people, as HTML or text; its certificate alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from admeasure.reporting.write import write_certificate, write_report
from admeasure.verbs.given import GivenRelease, release_of


def report(
    release: GivenRelease,
    path: str | Path,
    *,
    confidence: float = 0.95,
    conclusions: str | Path | None = None,
    book: str | Path | None = None,
    internal: Any = None,
    overwrite: bool = False,
    reading: Callable[[float], None] | None = None,
) -> Path:
    """Write a report: `.html` is one page with charts, any other suffix plain text. The path that
    was written.

    It may be published, unless `internal`, the private table, is given: then it holds true errors,
    and its name gets `.NOT-PRIVATE`. `conclusions` is a file of statements to check, `book` the
    budget book, for what was ever spent on the data set. `reading` hears which part of the private
    table has been read.

    >>> report("release", "report.html")  # doctest: +SKIP
    >>> report("release", "report.html", internal="private.csv")  # doctest: +SKIP
    """
    return write_report(
        release_of(release),
        path,
        confidence=confidence,
        conclusions=conclusions,
        book=book,
        internal=internal,
        overwrite=overwrite,
        reading=reading,
    )


def certificate(release: GivenRelease, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the certificate alone: .html (one page), .json or .yaml. The path that was written."""
    return write_certificate(release_of(release), path, overwrite=overwrite)
