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

if TYPE_CHECKING:
    from admeasure.release.release import Release

ROWS_SHOWN = 40
BOUNDS_SHOWN = 10
_BAR = "background:#2f6db3;height:.8em;display:inline-block;vertical-align:middle"


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
        counts = (
            np.ascontiguousarray(table).view(cls) if table.ndim else np.asarray(table).view(cls)
        )
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


def _cross_table(table: np.ndarray, columns: Columns, labels: Sequence[Sequence[str]]) -> str:
    head = "".join(_cell(label, "th") for label in labels[1])
    body = "".join(
        f"<tr>{_cell(label, 'th')}{''.join(_number(v) for v in row)}</tr>"
        for label, row in zip(labels[0][:ROWS_SHOWN], table[:ROWS_SHOWN], strict=False)
    )
    corner = _cell(f"{columns[0]} \\ {columns[1]}", "th")
    return _table(f"<tr>{corner}{head}</tr>", body, len(table) - ROWS_SHOWN)


def _long_table(table: np.ndarray, columns: Columns, labels: Sequence[Sequence[str]]) -> str:
    flat = np.asarray(table).ravel()
    most = max(float(flat.max(initial=0.0)), 1e-12)
    lines = []
    for place in range(min(ROWS_SHOWN, flat.size)):
        codes = np.unravel_index(place, table.shape) if table.ndim else ()
        names = "".join(_cell(labels[i][int(c)], "th") for i, c in enumerate(codes))
        width = f"{100 * max(0.0, float(flat[place])) / most:.1f}"
        bar = f'<td style="width:10em"><span style="{_BAR};width:{width}%"></span></td>'
        lines.append(f"<tr>{names}{_number(flat[place])}{bar}</tr>")
    head = "".join(_cell(c, "th") for c in columns) + "<th>rows</th><th></th>"
    return _table(f"<tr>{head}</tr>", "".join(lines), flat.size - ROWS_SHOWN)


def _table(head: str, body: str, left_out: int) -> str:
    more = f"<p>and {left_out:,} more</p>" if left_out > 0 else ""
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


def _cell(text: str, kind: str = "td") -> str:
    return f'<{kind} style="text-align:left"><bdi>{escape(text)}</bdi></{kind}>'


def _number(value: Any) -> str:
    return f'<td style="text-align:right">{float(value):,.0f}</td>'


def release_html(release: Release) -> str:
    """A release at a glance: its promise, and its best and worst known marginals."""
    from admeasure.reporting.facts import rank

    c = release.certificate
    stamp = f'<p style="color:#b3261e"><b>{escape(c.stamp)}</b></p>' if c.stamp else ""
    ranked = rank(release, release.evidence, 0.95)
    half = BOUNDS_SHOWN // 2
    shown = ranked if len(ranked) <= BOUNDS_SHOWN else (*ranked[:half], *ranked[-half:])
    body = "".join(
        f"<tr>{_cell(', '.join(r.columns), 'th')}{_cell(f'{r.error:.3g}')}{_cell(r.kind)}</tr>"
        for r in shown
    )
    bounds = _table(
        "<tr><th>marginal</th><th>L1 error at most, in shares</th><th>kind</th></tr>",
        body,
        len(ranked) - len(shown),
    )
    return (
        f"<div>{stamp}<p><b><bdi>{escape(release.schema.table.name)}</bdi></b> by "
        f"{escape(c.mechanism)}: about {release.rows:,} rows, {len(release.schema.columns)} "
        f"columns, {len(release.measurements)} measurements.</p><p>{escape(c.promise)}</p>"
        f"<details><summary>{len(ranked)} marginals of the workload, worst first (95% bounds)"
        f"</summary>{bounds}</details></div>"
    )
