"""A text is counted once for each row, so that one unit alone brings it to two."""

from __future__ import annotations

from collections import Counter

from admeasure.sources import memory, texts

CAUGHT_BY = {"threshold"}


def apply(patch) -> None:
    def rows(held, most):
        counted = Counter(text for _, text in held)
        return texts.in_blocks(sorted(counted.items()))

    patch(memory, "count_texts", rows)
