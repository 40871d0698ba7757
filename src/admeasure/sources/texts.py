"""Tables some of whose columns have levels that are still to be found (`enum = "private"`).

Nothing is released here: which texts a column holds, and how many units hold each, is private. What
is said of them is the curator's affair (`privacy.found_levels`).
"""

from __future__ import annotations

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
from admeasure.sources.dialect import Dialect
from admeasure.sources.forms import standard
from admeasure.sparse import SparseCounts, TextCounts

SOUGHT = 'Levels that are private (`enum = "private"`)'

BLOCK = 1 << 16
"""Texts that are held at a time."""

FINDS = (Storage.TEXT, Storage.BOOLEAN, Storage.WHOLE, Storage.WIDE, *TIMES)
"""Storages of which a value has one text and no other."""

TextsOf = Callable[[str], Iterator[TextCounts]]
"""The texts of a column, by its name: see `OpenTable.texts`."""


@final
class OpenTable:
    """A table some of whose columns have levels that are still to be found, as it is read before
    they are known, and again when they are: `opened` reads it by a schema, and has read `source`.
    """

    def __init__(self, source: Source, opened: Callable[[Schema], Source], texts: TextsOf) -> None:
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
        """The distinct texts of such a column and how many units hold each, in the order of their
        bytes and a block at a time, so that memory does not follow their number. Missing values and
        texts too long for a level are left out. A unit counts once for each of its texts, for at
        most `max_rows_per_unit` of them: those that come first by the MD5 of `unit|text`, and then
        by their bytes, so that this depends on nobody else. Without a unit column a row is a unit.
        """
        return self._texts(column)

    def by(self, schema: Schema) -> Source:
        """The table read again, by a schema in which its columns have levels. What was read before
        is let go; what is read now, with this."""
        self._source.close()
        self._source = self._opened(schema)
        return self._source

    def close(self) -> None:
        self._source.close()


@runtime_checkable
class FindsTexts(Protocol):
    """A source that can say what texts its columns hold."""

    def finding(self, columns: Sequence[str]) -> TextsOf:
        """The texts of these columns; `DataError` at once where one has no texts."""
        ...


def texts_of(source: Source, data: Any, columns: Sequence[str]) -> TextsOf:
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
    """The texts that mean missing, as texts are sought."""
    return sorted({_spelling(column, text) for text in column.missing_values or ()})


def sought(column: Column, texts: Iterable[str | None]) -> list[str | None]:
    """The texts as they are sought, None where there is none or it cannot be a level."""
    absent = {None, *absent_texts(column)}
    spelled = (None if t is None else _spelling(column, t) for t in texts)
    return [None if t is None or t in absent or len(t) > LONGEST_LEVEL else t for t in spelled]


def _spelling(column: Column, text: str) -> str:
    form = column.sought_form
    found = text if form is None else form.standard(text)
    assert found is not None  # every text has letters
    return found


def sought_text(column: Column, text: str, dialect: Dialect) -> str:
    """An expression for the text as it is sought, from one for the text."""
    form = column.sought_form
    return text if form is None else standard(form, text, dialect)


def text_order(unit: str, text: str) -> tuple[str, str]:
    """The place of a text among those of its unit (`OpenTable.texts`).

    >>> text_order("ann", "flu")[0] == md5(b"ann|flu").hexdigest()
    True
    """
    hashed = md5(f"{unit}|{text}".encode(errors="surrogatepass"), usedforsecurity=False)
    return hashed.hexdigest(), text


def count_texts(
    group: np.ndarray, texts: Sequence[str | None], most: int, named: Callable[[int], str]
) -> Iterator[TextCounts]:
    """How many units hold each text; at most so many texts of a unit. `group` has the number of
    each row's unit, and `named` its name. Numbers stand for texts and units, so that no unit costs
    more memory than its rows do."""
    numbers: dict[str, int] = {}
    codes = (-1 if t is None else numbers.setdefault(t, len(numbers)) for t in texts)
    code = np.fromiter(codes, np.int64, len(texts))
    known, held = list(numbers), code >= 0
    pairs = np.unique(group[held] * max(1, len(known)) + code[held])
    unit, text = np.divmod(pairs, max(1, len(known)))
    kept = np.ones(len(pairs), dtype=bool)
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    sizes = np.diff(np.append(starts, len(unit)))
    for start, size in zip(
        starts[sizes > most].tolist(), sizes[sizes > most].tolist(), strict=True
    ):
        name = named(int(unit[start]))
        places = range(start, start + size)
        first = sorted(places, key=lambda i: text_order(name, known[text[i]]))[:most]
        kept[start : start + size] = False
        kept[first] = True
    counts = np.bincount(text[kept], minlength=len(known))
    found = sorted(np.flatnonzero(counts).tolist(), key=known.__getitem__)
    return in_blocks((known[i], int(counts[i])) for i in found)


def in_blocks(counted: Iterable[tuple[str, int]]) -> Iterator[TextCounts]:
    pairs = iter(counted)
    while block := list(islice(pairs, BLOCK)):
        texts, counts = zip(*block, strict=True)
        yield TextCounts(texts, np.array(counts, np.int64))
