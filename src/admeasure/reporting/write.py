"""Reports as files, public or internal; a certificate alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admeasure.certificate import registry_yaml
from admeasure.conclusions import Conclusion, check_all, load_conclusions
from admeasure.errors import UsageError
from admeasure.evaluation import compare
from admeasure.files import refuse_to_overwrite, write_private, write_text
from admeasure.privacy.account import Account
from admeasure.privacy.book import Book
from admeasure.published import Published
from admeasure.reporting.files import is_page, marked
from admeasure.reporting.html import certificate_page, html_report
from admeasure.reporting.text import text_report
from admeasure.reporting.verdicts import lines
from admeasure.sources.open import held, open_source


def write_report(
    release: Published,
    path: str | Path,
    *,
    confidence: float = 0.95,
    conclusions: str | Path | None = None,
    book: str | Path | None = None,
    internal: Any = None,
    overwrite: bool = False,
    reading: Callable[[float], None] | None = None,
) -> Path:
    """The verb `report`, of a release that is at hand."""
    target = Path(path) if internal is None else marked(Path(path))
    refuse_to_overwrite(target, force=overwrite)
    stated = [] if conclusions is None else load_conclusions(conclusions, release.schema)
    account = None if book is None else _account(book, release)
    if internal is None:
        write_text(target, _text(release, target, confidence, stated, account, None))
        return target
    with held(open_source(internal, release.schema, progress=reading)) as source:
        text = _text(release, target, confidence, stated, account, source.counts)
    write_private(target, text)
    return target


def _text(
    release: Published,
    target: Path,
    confidence: float,
    stated: list[Conclusion],
    account: Account | None,
    counts: Callable[..., Any] | None,
) -> str:
    if is_page(target):
        return html_report(
            release,
            confidence=confidence,
            conclusions=stated,
            account=account,
            private_counts=counts,
        )
    errors = None
    if counts is not None:
        errors = compare(counts, release.model.marginals, release.workload, release.schema.domain)
    text = text_report(release, confidence=confidence, errors=errors)
    verdicts = check_all(release, stated, confidence=confidence)
    return text + "".join(f"{line}\n" for line in lines(verdicts))


def _account(book: str | Path, release: Published) -> Account:
    dataset = release.certificate.dataset
    if dataset is None:
        raise UsageError("The release was not charged to a budget book. Leave out --ledger.")
    return Book.open(book).account(dataset)


def write_certificate(release: Published, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the certificate alone: .html (one page), .json or .yaml. The path that was written."""
    target = Path(path)
    refuse_to_overwrite(target, force=overwrite)
    write_text(target, _certificate(release, target))
    return target


def _certificate(release: Published, out: Path) -> str:
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
