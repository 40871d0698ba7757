"""A budget book that remembers what it has read, and does not look at what others added since."""

from __future__ import annotations

from admeasure.privacy import changes

CAUGHT_BY = "PASSED"


def apply(patch) -> None:
    read = changes.read
    patch(changes, "read", lambda db, after=None: read(db) if after is None else ())
