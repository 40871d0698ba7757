"""A unit counts for all of its texts, however many it may have rows."""

from __future__ import annotations

from admeasure.sources import memory, texts

CAUGHT_BY = {"threshold"}


def apply(patch) -> None:
    count = texts.count_texts
    patch(
        memory, "count_texts", lambda group, texts, most, named: count(group, texts, 10**9, named)
    )
