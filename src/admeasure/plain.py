"""Plain text that people read: without control characters, in aligned columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def clean(text: str) -> str:
    """Without control characters: names in files and paths must not steer the terminal."""
    return "".join(c if c == "\n" or unicodedata.category(c) != "Cc" else "?" for c in text)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Aligned columns; the first `left` to the left, numbers to the right.

    >>> table(["name", "n"], [["a", "10"], ["bc", "9"]])
    ['name   n', 'a     10', 'bc     9']
    """
    cells = [[clean(c).replace("\n", " ") for c in row] for row in [headers, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def large_and_rest(sizes: Sequence[float], most: int) -> tuple[list[int], list[int]]:
    """The places of so many of the largest, and of the rest, both in their order: what to show of a
    long list of parts, and what to add up.

    >>> large_and_rest([1, 5, 2, 5, 9], 3)
    ([1, 3, 4], [0, 2])
    """
    places = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return sorted(places[:most]), sorted(places[most:])
