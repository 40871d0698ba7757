"""Tables some of whose columns have levels that are still to be found (`enum = "private"`).

Nothing is released here: which texts a column holds, and how many units hold each, is private. What
is said of them is the curator's affair (`privacy.found_levels`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import md5
from itertools import islice
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import DataError, UsageError
from admeasure.schema.column import Column
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.schema.model import Schema
from admeasure.schema.storage import TIMES, Storage
from admeasure.schema.values import quoted
from admeasure.sources import Source
from admeasure.sparse import SparseCounts, TextCounts

SOUGHT = 'Levels that are private (`enum = "private"`)'

BLOCK = 1 << 16
"""Texts that are held at a time."""

FINDS = (Storage.TEXT, Storage.BOOLEAN, Storage.WHOLE, Storage.WIDE, *TIMES)
"""Storages of which a value has one text and no other."""

Texts = Callable[[str], Iterator[TextCounts]]
"""The texts of a column, by its name: see `HoldsTexts`."""


@final
class OpenTable:
    """A table as it is read before its levels are known, and again when they are: `opened` reads it
    by a schema, and has read `source`."""

    def __init__(self, source: Source, opened: Callable[[Schema], Source], texts: Texts) -> None:
        self._source, self._opened, self._texts = source, opened, texts

    @property
    def schema(self) -> Schema:
        return self._source.schema

    @property
    def in_memory(self) -> bool:
        """Texts are looked for where the table lies, and it is read again from there."""
        return False

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        return self._source.counts(marginals)

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]:
        return self._source.sparse(marginals)

    def texts(self, column: str) -> Iterator[TextCounts]:
        return self._texts(column)

    def by(self, schema: Schema) -> Source:
        """What was read before is let go; what is read now, with this."""
        self._source.close()
        self._source = self._opened(schema)
        return self._source

    def close(self) -> None:
        self._source.close()


@runtime_checkable
class FindsTexts(Protocol):
    """A source that can say what texts its columns hold."""

    def finding(self, columns: Sequence[str]) -> Texts:
        """The texts of these columns; `DataError` at once where one has no texts."""
        ...


def texts_of(source: Source, data: Any, columns: Sequence[str]) -> Texts:
    """The texts of columns of a source that has read `data`; refused before anything is charged
    where it cannot be asked for them."""
    from admeasure.sources.memory import MemorySource, texts_in

    if isinstance(source, MemorySource):
        return texts_in(data, source.schema, columns)
    if isinstance(source, FindsTexts):
        return source.finding(columns)
    raise UsageError(f"{SOUGHT} cannot be found in this table. Give the column `enum = […]`.")


def check_storage(column: Column, storage: Storage) -> None:
    """Refuse a column whose stored values have no text of their own."""
    if storage not in FINDS:
        raise DataError(
            f"The levels of column {quoted(column.name)} cannot be found: it is stored as numbers "
            "with fractions, or in a form that has no text. Store it as texts, or describe it as "
            "a number."
        )


def absent_texts(column: Column) -> list[str]:
    """The texts that mean missing."""
    return sorted(set(column.missing_values or ()))


def may_be_sought(column: Column, text: str) -> bool:
    return len(text) <= LONGEST_LEVEL and text not in (column.missing_values or ())


def text_order(unit: str, text: str) -> tuple[str, str]:
    """The place of a text among those of its unit (`HoldsTexts`).

    >>> text_order("ann", "flu")[0] == md5(b"ann|flu").hexdigest()
    True
    """
    hashed = md5(f"{unit}|{text}".encode(errors="surrogatepass"), usedforsecurity=False)
    return hashed.hexdigest(), text


def count_texts(held: Iterable[tuple[str, str]], most: int) -> Iterator[TextCounts]:
    """How many units hold each text, of (unit, text) pairs; at most so many texts of a unit."""
    of_unit: dict[str, set[str]] = {}
    for unit, text in held:
        of_unit.setdefault(unit, set()).add(text)
    counted: Counter[str] = Counter()
    for unit, texts in of_unit.items():
        first = sorted(texts, key=lambda text: text_order(unit, text))[:most]
        counted.update(first if len(texts) > most else texts)
    return in_blocks(sorted(counted.items()))


def in_blocks(counted: Iterable[tuple[str, int]]) -> Iterator[TextCounts]:
    pairs = iter(counted)
    while block := list(islice(pairs, BLOCK)):
        texts, counts = zip(*block, strict=True)
        yield TextCounts(texts, np.array(counts, np.int64))
