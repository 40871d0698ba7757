"""Small charts as inline SVG: pure functions from numbers and names to markup.

Promises: every name is escaped; every chart that stands alone has a role, a label and a longer
description; colours are classes (`c-…`) that a style sheet defines for light, dark and print, so no
colour is written here; nothing refers to anything outside the page. Bars carry no text: they stand
in the rows of a table that has the numbers, and are hidden from screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

LABEL_LENGTH = 22
"""Characters of a name inside a drawing; the full name is in its tooltip."""
TIP_LENGTH = 60
"""Characters of a name in the tooltip of a pair."""
SPIKES, BARS_A_SPIKE = 3, 8
PALEST = 0.08
"""The shade of no dependence at all: a square can be seen to be there."""


def shortened(name: str, length: int = LABEL_LENGTH) -> str:
    """A name that fits.

    >>> shortened("a very long name of a column", 12)
    'a very long…'
    """
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def number(value: float) -> str:
    """A coordinate: two decimals at most, no exponent, never NaN.

    >>> number(12.3456), number(float("nan")), number(3.0)
    ('12.35', '0', '3')
    """
    if not math.isfinite(value):
        return "0"
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def interval_bar(value: float, low: float, high: float, most: float) -> Markup:
    """A bar to `value` with a whisker from `low` to `high`, on a scale from 0 to `most`."""
    v, a, b = (100 * _part(x, most) for x in (value, low, high))
    return _bar_frame(
        f'<rect class="c-bar" x="0" y="3" width="{number(v)}" height="10"/>'
        f'<path class="c-whisker" d="M{number(a)} 8H{number(b)}'
        f'M{number(a)} 4V12M{number(b)} 4V12"/>'
    )


def plain_bar(value: float, most: float, kind: str = "bar") -> Markup:
    """A bar alone; `kind` is a class of the style sheet: bar, good, fair, poor."""
    width = number(100 * _part(value, most))
    return _bar_frame(
        f'<rect class="c-track" x="0" y="3" width="100" height="10"/>'
        f'<rect class="c-{escape(kind)}" x="0" y="3" width="{width}" height="10"/>'
    )


def twin_bars(first: float, second: float, most: float) -> Markup:
    """Two bars one above the other: the private table's, then the release's."""
    a, b = (number(100 * _part(x, most)) for x in (first, second))
    return _bar_frame(
        f'<rect class="c-true" x="0" y="1" width="{a}" height="6.5"/>'
        f'<rect class="c-bar" x="0" y="8.5" width="{b}" height="6.5"/>'
    )


def histogram(
    edges: Sequence[float],
    bins: Sequence[tuple[str, float, float, float]],
    ticks: Sequence[tuple[float, str]],
    *,
    title: str,
) -> Markup:
    """Bars on a real axis, by their area, with whiskers; `bins` are words, count, low and high.

    A bar too narrow to be seen is drawn as a line. Up to `SPIKES` bars that tower over the others
    (one, of few bars) are cut off, with a mark: a spike at one value would flatten all the rest.
    """
    width, height, top = 380.0, 96.0, 10.0
    begin = edges[0] / 4
    edges = [edge / 4 - begin for edge in edges]  # no difference is too large a number
    span = edges[-1]
    widths = [max((b - a) / span, 1e-12) for a, b in pairwise(edges)]
    tall = [value / w for (_, value, _, _), w in zip(bins, widths, strict=True)]
    spikes = min(SPIKES, max(1, len(tall) // BARS_A_SPIKE))
    highest = sorted(tall, reverse=True)[: spikes + 1]
    towering = (b for a, b in pairwise(highest) if a > 4 * b > 0)
    highest_whole = min(towering, default=highest[0])
    ends = (
        high / w
        for (_, _, _, high), w, t in zip(bins, widths, tall, strict=True)
        if t <= highest_whole
    )
    ceiling = 1.05 * max(highest_whole, *ends)
    floor = number(top + height)
    parts, lines = [f'<path class="c-faint" d="M0 {floor}H{number(width)}"/>'], []
    for (words, value, low, high), start, w, t in zip(bins, edges, widths, tall, strict=False):
        x, wide = width * start / span, max(1.5, width * w - 0.5)
        y, middle = top + height * (1 - _part(t, ceiling)), number(x + wide / 2)
        hint = escape(f"{words}: {value:,.0f} ({low:,.0f} to {high:,.0f})")
        outline = f"M{number(x)} {floor}V{number(y)}h{number(wide)}V{floor}z"
        parts.append(f'<path class="c-bar" d="{outline}"><title>{hint}</title></path>')
        ends = [number(top + height * (1 - _part(v / w, ceiling))) for v in (low, high)]
        cut_off = f"M{middle} {number(top)}l-3 5m3 -5l3 5"
        lines.append(cut_off if t > ceiling else f"M{middle} {ends[0]}V{ends[1]}")
    parts.append(f'<path class="c-whisker" d="{"".join(lines)}"/>')
    for place, words in ticks:
        x = width * (place / 4 - begin) / span
        parts.append(_text(x, top + height + 15, words, "start"))
    said = "Each bar's area is a count; the line across its top is its interval."
    return _figure(width + 8, top + height + 20, "".join(parts), title, said)


def _part(value: float, most: float) -> float:
    if not (math.isfinite(value) and most > 0):
        return 0.0
    return min(1.0, max(0.0, value / most))


def _bar_frame(inside: str) -> Markup:
    return Markup(
        '<svg class="bar" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">{inside}</svg>'
    )


@dataclass(frozen=True)
class HeatCell:
    """One pair: its value from 0 to 1, None where it is not known, and whether it is uncertain."""

    value: float | None
    uncertain: bool = False


def heat_map(
    names: Sequence[str],
    cells: dict[tuple[int, int], HeatCell],
    *,
    title: str,
    description: str,
    measure: str,
) -> Markup:
    """A lower triangle of pairs, the darker the stronger. `cells` has (row, column), row > column.

    A pair that is uncertain has a ring in it, one that is not known a cross.
    """
    n = len(names)
    side = 26 if n <= 14 else (20 if n <= 24 else 14)
    longest = max([len(shortened(name)) for name in names], default=0)
    left, bottom = 14 + 6.6 * longest, 20 + 5.8 * longest
    width, height = left + side * max(1, n - 1) + 16, 8 + side * max(1, n - 1) + bottom
    parts: list[str] = []
    for row in range(1, n):
        y = 8 + side * (row - 1)
        parts.append(_name(names[row], left - 6, y + side * 0.68, "end"))
        for column in range(row):
            cell = cells.get((row, column), HeatCell(None))
            parts.append(
                _heat_cell(cell, left + side * column, y, side, (names[row], names[column]))
            )
    for column in range(n - 1):
        x, y = left + side * (column + 0.5), 8 + side * (n - 1) + 8
        parts.append(_name(names[column], x, y, "end", turned=True))
    return _figure(width, height, "".join(parts), title, f"{description} Shade: {measure}.")


def _heat_cell(cell: HeatCell, x: float, y: float, side: int, names: tuple[str, str]) -> str:
    x, y, s = x + 1, y + 1, side - 2
    where = f'x="{number(x)}" y="{number(y)}" width="{s}" height="{s}"'
    said = "not known" if cell.value is None else f"{cell.value:.2f}"
    first, second = (shortened(name, TIP_LENGTH) for name in names)
    hint = f"{first} and {second}: {said}" + (", not measured together" if cell.uncertain else "")
    tip = f"<title>{escape(hint)}</title>"
    if cell.value is None:
        cross = f"M{number(x + 3)} {number(y + 3)}l{s - 6} {s - 6}m0 {6 - s}l{6 - s} {s - 6}"
        return f'<rect class="c-track" {where}>{tip}</rect><path class="c-faint" d="{cross}"/>'
    shade = number(PALEST + (1 - PALEST) * min(1.0, max(0.0, cell.value)) ** 0.7)
    ring = ""
    if cell.uncertain:
        middle = f'cx="{number(x + s / 2)}" cy="{number(y + s / 2)}" r="{number(s / 7)}"'
        ring = f'<circle class="c-ring" {middle}/>'
    return f'<rect class="c-heat" fill-opacity="{shade}" {where}>{tip}</rect>{ring}'


@dataclass(frozen=True)
class Dot:
    """A point with its name."""

    x: float
    y: float
    name: str
    kind: str = "bar"


def scatter(
    dots: Sequence[Dot], *, x_title: str, y_title: str, title: str, description: str
) -> Markup:
    """Points in a square with the diagonal x = y, both axes from 0 to the same end."""
    most = max([*(d.x for d in dots), *(d.y for d in dots), 1e-6])
    step = nice_step(most)
    end = step * math.ceil(most / step - 1e-9)
    left, top, size = 56, 12, 280
    scale = size / end
    parts = [
        f'<rect class="c-plot" x="{left}" y="{top}" width="{size}" height="{size}"/>',
        f'<path class="c-faint" d="M{left} {top + size}L{left + size} {top}"/>',
    ]
    ticks = round(end / step)
    for i in range(ticks + 1):
        at, said = i * step * scale, f"{i * step:.4g}"
        parts.append(_text(left + at, top + size + 16, said, "middle"))
        parts.append(_text(left - 6, top + size - at + 4, said, "end"))
    for dot in dots:
        place = f'cx="{number(left + dot.x * scale)}" cy="{number(top + size - dot.y * scale)}"'
        tip = f"<title>{escape(f'{dot.name}: {dot.x:.4f}, {dot.y:.4f}')}</title>"
        parts.append(f'<circle class="c-dot c-{escape(dot.kind)}" {place} r="3.5">{tip}</circle>')
    parts.append(_text(left + size / 2, top + size + 36, x_title, "middle"))
    turned = f'transform="translate(14 {top + size / 2}) rotate(-90)"'
    parts.append(f'<text class="c-label" text-anchor="middle" {turned}>{escape(y_title)}</text>')
    return _figure(left + size + 16, top + size + 46, "".join(parts), title, description)


def nice_step(most: float, ticks: int = 5) -> float:
    """A round distance between about `ticks` marks from 0 to `most`.

    >>> nice_step(0.9), nice_step(2.0), nice_step(37)
    (0.2, 0.5, 10)
    """
    rough = most / ticks
    size = 10 ** math.floor(math.log10(rough))
    return next(m * size for m in (1, 2, 5, 10) if m * size >= rough * (1 - 1e-9))


def _name(name: str, x: float, y: float, anchor: str, *, turned: bool = False) -> str:
    place = f'x="{number(x)}" y="{number(y)}"'
    if turned:
        place = f'transform="translate({number(x + 4)} {number(y)}) rotate(-60)"'
    short = escape(shortened(name))
    return (
        f'<text class="c-label" text-anchor="{anchor}" direction="ltr" {place}>'
        f"<title>{escape(name)}</title>{short}</text>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<text class="c-label" text-anchor="{anchor}" {place}>{escape(text)}</text>'


def _figure(width: float, height: float, inside: str, title: str, description: str) -> Markup:
    said = escape(f"{title}. {description}")
    return Markup(
        f'<svg class="figure" viewBox="0 0 {number(width)} {number(height)}" '
        f'width="{number(width)}" height="{number(height)}" role="img" aria-label="{said}">'
        f"<desc>{escape(description)}</desc>{inside}</svg>"
    )
