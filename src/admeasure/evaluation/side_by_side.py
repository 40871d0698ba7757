"""A marginal of the private table beside the release's, as a picture. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import escape

from admeasure.domain import Columns, canonical
from admeasure.errors import UsageError
from admeasure.evaluation.errors import NOT_PRIVATE
from admeasure.notebooks import BLUE, GREY, ROWS_SHOWN, bars, cell, row, shade, stamp, table
from admeasure.published import Published
from admeasure.sources.open import open_source


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Shares of the rows: `true` are the table's, `released` the release's."""

    columns: Columns
    labels: tuple[tuple[str, ...], ...]
    true: np.ndarray
    released: np.ndarray

    @property
    def distance(self) -> float:
        """The L1 distance, 0 to 2."""
        return float(np.abs(self.true - self.released).sum())

    def __repr__(self) -> str:
        named = ", ".join(self.columns)
        return f"{NOT_PRIVATE}\n({named}): L1 distance {self.distance:.4f}"

    def _repr_html_(self) -> str:
        most = max(float(self.true.max()), float(self.released.max()), 1e-12)
        drawn = self._bars(most) if len(self.columns) == 1 else self._squares(most)
        named = escape(", ".join(self.columns))
        apart = f"<p>({named}): L1 distance {self.distance:.4f}</p>"
        return f"<div>{stamp(NOT_PRIVATE)}{drawn}{apart}</div>"

    def _bars(self, most: float) -> str:
        lines = [
            row(
                cell(label, "th"),
                cell(f"{100 * t:.2f}%"),
                cell(f"{100 * r:.2f}%"),
                bars((t / most, GREY), (r / most, BLUE)),
            )
            for label, t, r in zip(self.labels[0], self.true, self.released, strict=True)
        ]
        return table((self.columns[0], "table (grey)", "release (blue)", ""), lines)

    def _squares(self, most: float) -> str:
        across = self.labels[1][:ROWS_SHOWN]
        head = (f"{self.columns[0]} \\ {self.columns[1]}", *across, "", *across)
        lines = [
            row(
                cell(label, "th"),
                *(shade(float(x) / most) for x in t[:ROWS_SHOWN]),
                cell(""),
                *(shade(float(x) / most) for x in r[:ROWS_SHOWN]),
            )
            for label, t, r in zip(self.labels[0], self.true, self.released, strict=True)
        ]
        return "<p>left: the table; right: the release</p>" + table(head, lines)


def side_by_side(release: Published, data: Any, columns: Sequence[str]) -> SideBySide:
    """One or two columns of the private table beside the release's model of them.

    Reads exact counts: what comes out is NOT PRIVATE, for whoever holds the table.
    """
    schema = release.schema
    if not 1 <= len(columns) <= 2:
        raise UsageError(f"A picture has one or two columns; {len(columns)} are named.")
    wanted = canonical(schema.column(name).name for name in columns)
    sides = [
        np.asarray(answers([wanted])[0], float)
        for answers in (open_source(data, schema).counts, release.model.marginals)
    ]
    true, released = (side / max(float(side.sum()), 1e-12) for side in sides)
    labels = tuple(tuple(schema.column(name).labels) for name in wanted)
    return SideBySide(wanted, labels, true, released)
