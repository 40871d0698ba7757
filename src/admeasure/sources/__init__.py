"""Where exact counts come from: memory, files, databases, clusters.

A source counts the private table and knows nothing of privacy, except that it keeps at most
`max_rows_per_unit` rows of each unit, on which every sensitivity rests. Inside a mechanism only
the curator reads one.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    `by` gives the same rows by a schema whose columns are these, some of them in coarser levels.
    What the two hold they share, and closing one closes both.

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

    def by(self, schema: Schema) -> Source: ...

    def close(self) -> None: ...


__all__ = ["Source", "SparseCounts", "TextCounts"]
