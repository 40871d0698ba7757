"""A text is counted once for each row, so that one unit alone brings it to two."""

from __future__ import annotations

from collections import Counter

from admeasure.sources import memory, texts

CAUGHT_BY = {"threshold"}


def apply(patch) -> None:
    def rows(group, held, most, named):
        counted = Counter(text for text in held if text is not None)
        return texts.in_blocks(sorted(counted.items()))

    patch(memory, "count_texts", rows)
