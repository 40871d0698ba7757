"""Where exact counts come from: memory, files, databases, clusters.

A source counts the private table and knows nothing of privacy, except that it keeps at most
`max_rows_per_unit` rows of each unit, on which every sensitivity rests. Inside a mechanism only
the curator reads one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from admeasure.domain import Columns
from admeasure.schema.model import Schema
from admeasure.sparse import SparseCounts, TextCounts


@runtime_checkable
class Source(Protocol):
    """Exact counts of marginals.

    `counts` gives one int64 array for each marginal, in the order asked, of the shape
    `schema.domain.shape(columns)` with `columns` in canonical (alphabetical) order. The empty
    marginal `()` is the number of rows, of shape `()`. Arrays belong to the caller. More cells
    than memory can sensibly hold are refused by a `ResourceError` before anything is counted.

    `sparse` gives the same counts as the cells that occur, for marginals of any number of columns;
    its memory follows the rows and not the cells.

    `close` lets go of what is held outside this process: a connection, a file, codes in a cluster.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def in_memory(self) -> bool:
        """Whether counting reads nothing from elsewhere, so that another pass costs little."""
        ...

    def counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]: ...

    def sparse(self, marginals: Sequence[Columns]) -> list[SparseCounts]: ...

    def close(self) -> None: ...


@runtime_checkable
class HoldsTexts(Source, Protocol):
    """A source of a table some of whose columns have levels that are still to be found.

    `texts` gives the distinct texts of such a column and how many units hold each, in the order of
    their bytes and a block at a time, so that memory does not follow their number. Missing values
    and texts too long for a level are left out. A unit counts once for each of its texts, for at
    most `max_rows_per_unit` of them: those that come first by the MD5 of `unit|text`, and then by
    their bytes, so that this depends on nobody else. Without a unit column a row is a unit.

    `by` gives the same table read by another schema, in which they have levels.
    """

    def texts(self, column: str) -> Iterator[TextCounts]: ...

    def by(self, schema: Schema) -> Source: ...


__all__ = ["HoldsTexts", "Source", "SparseCounts", "TextCounts"]
