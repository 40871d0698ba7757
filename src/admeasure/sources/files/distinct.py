"""The distinct values of a column and how many rows have each: for who holds the files anyway.

NOT PRIVATE. Nothing of this may enter a release, a log or a message; `check --show` prints it on
the terminal of whoever asks, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb

from admeasure.errors import DataError
from admeasure.sources.files.encodings import in_utf8
from admeasure.sources.files.engine import connected
from admeasure.sources.files.tables import layout, locate

_BATCH = 10_000


def distinct_values(data: Any, name: str, encoding: str | None) -> Iterator[tuple[Any, int]]:
    """Each stored value and how many rows have it; once for each set of files that store the
    column alike."""
    location = in_utf8(locate(data), encoding)
    try:
        with connected(location.read_paths) as connection:
            for part in layout(connection, location):
                place, _ = part.stored(name)
                found = connection.execute(
                    f"SELECT {place}, count(*) FROM {part.rows} GROUP BY {place}"
                )
                while batch := found.fetchmany(_BATCH):
                    yield from batch
    except duckdb.Error:
        raise DataError(
            f"The rows of {location.words} cannot be read. `admeasure check` without --show says "
            "why."
        ) from None
