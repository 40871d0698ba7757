"""Tables and bars as HTML for notebooks. Every name is escaped, and every table has an end.

And what a console shows in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import escape

ROWS_SHOWN, PARTS_SHOWN = 40, 5
BLUE, GREY = "#2f6db3", "#8a8f98"
_BAR = "height:.8em;display:inline-block;vertical-align:middle"


def table(head: Sequence[str], rows: Sequence[str], *, all_rows: int | None = None) -> str:
    """Of rows that are made already; those beyond the end are counted."""
    body = "".join(rows[:ROWS_SHOWN])
    left_out = (len(rows) if all_rows is None else all_rows) - min(ROWS_SHOWN, len(rows))
    more = f"<p>and {left_out:,} more</p>" if left_out > 0 else ""
    top = "".join(cell(name, "th") for name in head)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}"


def largest(parts: Iterable[tuple[str, float]]) -> str:
    """The largest parts of a whole as plain text, with how many more there are.

    >>> largest([("a", 0.2), ("b", 0.7), ("c", 0.1)])
    'b 70.0%, a 20.0%, c 10.0%'
    """
    most = sorted(parts, key=lambda named: -named[1])
    shown = [f"{what} {100 * part:.1f}%" for what, part in most[:PARTS_SHOWN]]
    left_out = len(most) - len(shown)
    return ", ".join([*shown, f"and {left_out:,} more"] if left_out else shown)


def row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def cell(text: object, kind: str = "td") -> str:
    return f'<{kind} style="text-align:left"><bdi>{escape(text)}</bdi></{kind}>'


def count(value: Any) -> str:
    return f'<td style="text-align:right">{float(value):,.0f}</td>'


def bars(*parts: tuple[float, str]) -> str:
    """Bars one above the other: each a part of the whole width, from 0 to 1, and its colour."""
    drawn = "".join(
        f'<div style="line-height:1"><span style="{_BAR};background:{colour};'
        f'width:{100 * min(1.0, max(0.0, part)):.1f}%"></span></div>'
        for part, colour in parts
    )
    return f'<td style="width:10em">{drawn}</td>'


def shade(part: float) -> str:
    """A square whose blue is the deeper, the larger the part."""
    strength = min(1.0, max(0.0, part)) ** 0.5
    title = f"{100 * part:.2f}%"
    colour = f"rgba(47,109,179,{strength:.3f})"
    return f'<td title="{title}" style="background:{colour};min-width:1.6em;height:1.4em"></td>'


def stamp(text: str) -> str:
    return f'<p style="color:#b3261e"><b>{escape(text)}</b></p>' if text else ""


def folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"
