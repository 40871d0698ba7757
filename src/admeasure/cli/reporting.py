"""`report`: what a release says of itself, for people, as HTML or text; its certificate alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from admeasure.cli.concluding import lines
from admeasure.cli.console import note, progress, say
from admeasure.cli.files import refuse_to_overwrite, write_private, write_text
from admeasure.conclusions import Conclusion, check_all, load_conclusions
from admeasure.errors import UsageError
from admeasure.evaluate import NOT_PRIVATE, compare
from admeasure.evaluate.errors import Answers
from admeasure.privacy.account import Account
from admeasure.privacy.book import Book
from admeasure.release import Release
from admeasure.release.certificate import registry_yaml
from admeasure.report.files import is_page, marked
from admeasure.report.html import certificate_page, html_report
from admeasure.report.text import text_report
from admeasure.sources.address import printable
from admeasure.sources.open import open_source


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


def report(request: Request, *, force: bool) -> None:
    out = request.out
    if request.internal is not None and request.certificate:
        raise UsageError("A certificate has nothing internal. Leave out --internal.")
    if request.internal is not None:
        out = marked(out)
    refuse_to_overwrite(out, force=force)
    release = Release.load(request.release)
    write = write_text if request.internal is None else write_private
    write(out, _certificate(release, out) if request.certificate else _report(request, release))
    if request.internal is not None:
        note(NOT_PRIVATE)
    say(f"Wrote {out}.")


def _report(request: Request, release: Release) -> str:
    conclusions: list[Conclusion] = []
    if request.conclusions is not None:
        conclusions = load_conclusions(request.conclusions, release.schema)
    account = None if request.ledger is None else _account(request.ledger, release)
    counts = None
    if request.internal is not None:
        counts = _counts(request.internal, release)
    if is_page(request.out):
        return html_report(
            release,
            confidence=request.confidence,
            conclusions=conclusions,
            account=account,
            private_counts=counts,
        )
    errors = None
    if counts is not None:
        errors = compare(counts, release.model.marginals, release.workload, release.schema.domain)
    text = text_report(release, confidence=request.confidence, errors=errors)
    verdicts = check_all(release, conclusions, confidence=request.confidence)
    return text + "".join(f"{line}\n" for line in lines(verdicts))


def _counts(data: str, release: Release) -> Answers:
    with progress() as make:
        return open_source(data, release.schema, progress=make(f"reading {printable(data)}")).counts


def _account(path: Path, release: Release) -> Account:
    dataset = release.certificate.dataset
    if dataset is None:
        raise UsageError("The release was not charged to a budget book. Leave out --ledger.")
    return Book.open(path).account(dataset)


def _certificate(release: Release, out: Path) -> str:
    """The certificate alone, by the suffix of the file."""
    certificate = release.certificate
    match out.suffix.lower():
        case ".html" | ".htm":
            return certificate_page(release)
        case ".json":
            return json.dumps(certificate.to_json(), indent=1, ensure_ascii=False) + "\n"
        case ".yaml" | ".yml":
            schema = release.schema
            return registry_yaml(certificate, schema.table.name, schema.domain.columns)
    raise UsageError(f"A certificate is a .html, .json or .yaml file; {out.name!r} is none.")
