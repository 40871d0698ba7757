"""Reports as files, public or internal; a certificate alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from admeasure.certificate import registry_yaml
from admeasure.conclusions import check_all, load_conclusions
from admeasure.errors import UsageError
from admeasure.evaluation import compare
from admeasure.files import refuse_to_overwrite, write_private, write_text
from admeasure.privacy.account import Account
from admeasure.privacy.book import Book
from admeasure.published import Published
from admeasure.reporting.html import certificate_page, html_report
from admeasure.reporting.text import text_report, verdict_lines
from admeasure.sources.open import held, open_source

MARK = ".NOT-PRIVATE"
"""In the name of a report with true errors."""
PAGES = (".html", ".htm")
"""What is to be HTML; all other files are plain text."""


def marked(path: Path) -> Path:
    """The name for an internal report.

    >>> marked(Path("report.html")).name, marked(Path("a.NOT-PRIVATE.html")).name
    ('report.NOT-PRIVATE.html', 'a.NOT-PRIVATE.html')
    """
    return path if MARK in path.name else path.with_name(f"{path.stem}{MARK}{path.suffix}")


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
    schema = release.schema
    stated = [] if conclusions is None else load_conclusions(conclusions, schema)
    account = None if book is None else _account(book, release)
    private = None if internal is None else open_source(internal, schema, progress=reading)
    with nullcontext() if private is None else held(private) as table:
        counts = None if table is None else table.counts
        if target.suffix.lower() in PAGES:
            text = html_report(
                release,
                confidence=confidence,
                conclusions=stated,
                account=account,
                private_counts=counts,
            )
        else:
            model, asked = release.model, release.workload
            errors = counts and compare(counts, model.marginals, asked, schema.domain)
            verdicts = check_all(release, stated, confidence=confidence)
            text = text_report(release, confidence=confidence, errors=errors)
            text += "".join(f"{line}\n" for line in verdict_lines(verdicts))
    (write_text if internal is None else write_private)(target, text)
    return target


def _account(book: str | Path, release: Published) -> Account:
    dataset = release.certificate.dataset
    if dataset is None:
        raise UsageError("The release was not charged to a budget book. Leave out --ledger.")
    return Book.open(book).account(dataset)


def write_certificate(release: Published, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the certificate alone: .html (one page), .json or .yaml. The path that was written."""
    target = Path(path)
    refuse_to_overwrite(target, force=overwrite)
    certificate, schema = release.certificate, release.schema
    match target.suffix.lower():
        case ".html" | ".htm":
            text = certificate_page(release)
        case ".json":
            text = json.dumps(certificate.to_json(), indent=1, ensure_ascii=False) + "\n"
        case ".yaml" | ".yml":
            text = registry_yaml(certificate, schema.table.name, schema.domain.columns)
        case _:
            raise UsageError(
                f"A certificate is a .html, .json or .yaml file; {target.name!r} is none."
            )
    write_text(target, text)
    return target
