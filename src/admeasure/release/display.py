"""How a release and its marginals show themselves in a notebook.

Everything shown comes from the release, so it may be shared as the release may. All names are
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import escape

from admeasure.domain import Columns
from admeasure.notebooks import BLUE, ROWS_SHOWN, bars, cell, count, folded, row, stamp, table

if TYPE_CHECKING:
    from admeasure.release.release import Release


class Counts(np.ndarray):
    """Expected counts of a marginal: an array that knows its columns and their levels.

    It is an array in every other way. What is computed or cut out of it is a plain array as far as
    names go: it has none.
    """

    columns: Columns | None
    labels: tuple[tuple[str, ...], ...] | None

    @classmethod
    def of(
        cls, table: np.ndarray, columns: Sequence[str], labels: Sequence[Sequence[str]]
    ) -> Counts:
        counts = np.asarray(table, order="C").view(cls)
        counts.columns = tuple(columns)
        counts.labels = tuple(tuple(names) for names in labels)
        return counts

    def __array_finalize__(self, obj: Any) -> None:
        self.columns, self.labels = None, None

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: Any = None
    ) -> Any:
        # What is computed from counts is not a marginal any more.
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    def _repr_html_(self) -> str:
        if self.columns is None or self.labels is None or self.ndim != len(self.columns):
            return f"<pre>{escape(repr(np.asarray(self)))}</pre>"
        if self.ndim == 2 and self.shape[1] <= 12:
            return _cross_table(self, self.columns, self.labels)
        return _long_table(self, self.columns, self.labels)


def _cross_table(counts: np.ndarray, columns: Columns, labels: Sequence[Sequence[str]]) -> str:
    head = (f"{columns[0]} \\ {columns[1]}", *labels[1])
    lines = [
        row(cell(label, "th"), *map(count, values))
        for label, values in zip(labels[0], counts, strict=False)
    ]
    return table(head, lines)


def _long_table(counts: np.ndarray, columns: Columns, labels: Sequence[Sequence[str]]) -> str:
    flat = np.asarray(counts).ravel()
    most = max(float(flat.max(initial=0.0)), 1e-12)
    lines = []
    for place in range(min(ROWS_SHOWN, flat.size)):
        codes = np.unravel_index(place, counts.shape) if counts.ndim else ()
        names = (cell(labels[i][int(c)], "th") for i, c in enumerate(codes))
        bar = bars((float(flat[place]) / most, BLUE))
        lines.append(row(*names, count(flat[place]), bar))
    return table((*columns, "rows", ""), lines, all_rows=flat.size)


def release_html(release: Release) -> str:
    """A release at a glance: its promise, and its best and worst known marginals."""
    c = release.certificate
    found = release.bounds()
    return (
        f"<div>{stamp(c.stamp)}<p><b><bdi>{escape(release.schema.table.name)}</bdi></b> by "
        f"{escape(c.mechanism)}: about {release.rows:,} rows, {len(release.schema.columns)} "
        f"columns, {len(release.measurements)} measurements.</p><p>{escape(c.promise)}</p>"
        + folded(f"{len(found)} marginals of the workload, worst first (95% bounds)", found.html())
        + "</div>"
    )
