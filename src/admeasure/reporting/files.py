"""Names and kinds of report files. A report with true errors says so in its name."""

from __future__ import annotations

from pathlib import Path

MARK = ".NOT-PRIVATE"
PAGES = (".html", ".htm")


def marked(path: Path) -> Path:
    """The name for an internal report.

    >>> marked(Path("report.html")).name, marked(Path("a.NOT-PRIVATE.html")).name
    ('report.NOT-PRIVATE.html', 'a.NOT-PRIVATE.html')
    """
    return path if MARK in path.name else path.with_name(f"{path.stem}{MARK}{path.suffix}")


def is_page(path: Path) -> bool:
    """Whether the file is to be HTML; all others are plain text."""
    return path.suffix.lower() in PAGES
