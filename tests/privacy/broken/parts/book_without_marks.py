"""A budget book that does not know how far the journal of a run goes."""

from __future__ import annotations

from admeasure.privacy.book import Book

CAUGHT_BY = "RESTORED"


def apply(patch) -> None:
    patch(Book, "mark", lambda book, entry, before, after: None)
