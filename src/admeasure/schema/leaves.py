"""The public grid that private bins are cut from: where its leaves begin, and what they make up.

A leaf is a single value or the values between two neighbours of such. People round: so a range of
whole numbers has a leaf for each value where `LEAVES` of them suffice, and any other range is cut
at round numbers, each a leaf of its own beside the values up to the next: at multiples of a round
width and, nearer to zero than that, at numbers of two digits. With `scale = "log"` the numbers are
those of few digits everywhere, evenly many for each power of ten. Where a bound is not given they
reach to the ends of the type. Days are leaves where `MAX_DAYS` of them suffice; else they are
months or years far from now.

`hierarchy` says which leaves are one node at each level of a tree. Everything here follows from
the schema alone.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np

from admeasure.schema import values

LEAVES = 4096
BRANCHING = 4
MAX_DAYS = 60_000
LARGEST = float(np.finfo(np.float64).max)
EXACT = 2048
"""Where no bound is given, whole numbers up to this are leaves of their own, on both sides."""
TENTHS = 1000
"""In doubles so many tenths, too."""
STEPS = tuple(Fraction(s) for s in ("1/100", "1/50", "1/20", "1/10", "1/5", "1/2", "1"))
"""Of the first digits of round numbers on a scale of powers of ten."""
DEPTH = 9
"""Powers of ten that a logarithmic scale of doubles goes down from its larger end to zero."""
NEAR = 4
"""Powers of ten below a round width that leaves go down to near zero."""
OPEN_POWERS = {k: STEPS[3] if -3 <= k <= 6 else STEPS[-1] for k in range(-12, 16)}
"""Of the scale of doubles without bounds: its powers of ten, and the step of each."""

KEPT = 64
"""Grids that are kept: columns of a schema often have the same one."""

E = TypeVar("E", int, float)


@lru_cache(maxsize=KEPT)
def whole_starts(low: int, high: int, *, log: bool) -> tuple[int, ...]:
    """Where leaves of whole numbers begin, the first at `low`."""
    if log:
        found = _fewest(lambda step: _whole_powers(low, high, step))
    elif high - low < LEAVES:
        return tuple(range(low, high + 1))
    else:
        width = _width(low, high, whole=True)
        near = [v for v in _whole_powers(low, high, STEPS[3]) if abs(v) < width]
        found = [*near, *(int(m) for m in _multiples(low, high, width))]
    return _with_heads(low, high, found, lambda v: v + 1)


@lru_cache(maxsize=KEPT)
def open_whole_starts(low: int, high: int) -> tuple[int, ...]:
    """The same where a bound is not given."""
    exact = range(max(low, -EXACT), min(high, EXACT) + 1)
    far = [v for v in _whole_powers(low, high, STEPS[3]) if abs(v) > EXACT]
    return _with_heads(low, high, [*exact, *far], lambda v: v + 1)


@lru_cache(maxsize=KEPT)
def real_starts(low: float, high: float, *, log: bool) -> tuple[float, ...]:
    """Where leaves of doubles begin, the first at `low`."""
    if not log:
        width = _width(Fraction(low), Fraction(high), whole=False)
        power = _power(float(width))
        near = _real_powers(low, high, dict.fromkeys(range(power - NEAR, power + 1), STEPS[3]))
        multiples = [float(m) for m in _multiples(Fraction(low), Fraction(high), width)]
        found = [*multiples, *(v for v in near if abs(v) < width)]
    else:
        top = _power(max(abs(low), abs(high)))
        bottom = _power(min(abs(low), abs(high))) if low > 0 or high < 0 else top - DEPTH
        powers = range(bottom, top + 1)
        found = [0.0, *_fewest(lambda step: _real_powers(low, high, dict.fromkeys(powers, step)))]
    return _with_heads(low, high, found, lambda v: math.nextafter(v, math.inf))


@lru_cache(maxsize=KEPT)
def open_real_starts(low: float, high: float) -> tuple[float, ...]:
    """The same where a bound is not given: it is then an end of all doubles."""
    near = [v / 10 for v in range(-TENTHS, TENTHS + 1)]
    near += [float(v) for v in range(-EXACT, EXACT + 1)]
    far = _real_powers(low, high, OPEN_POWERS)
    far = [v for v in far if abs(v) > EXACT or abs(v) < 1]
    return _with_heads(low, high, [*near, *far], lambda v: math.nextafter(v, math.inf))


@lru_cache(maxsize=KEPT)
def day_starts(low: int, high: int) -> tuple[int, ...]:
    """Where leaves of days begin, as days since 1970."""
    if high - low < MAX_DAYS:
        return tuple(range(low, high + 1))
    found = {low}
    for year in range(values.day(low).year, values.day(high).year + 1):
        first = values.days(datetime.date(year, 1, 1))
        if 1940 <= year < 2060:
            found.update(range(first, values.days(datetime.date(year, 12, 31)) + 1))
        elif 1800 <= year < 2200:
            found.update(values.days(datetime.date(year, m, 1)) for m in range(1, 13))
        else:
            found.add(first)
    return tuple(sorted(d for d in found if low <= d <= high))


def hierarchy(starts: np.ndarray, *, days: bool) -> tuple[np.ndarray, ...]:
    """The levels of the tree over leaves that begin at `starts`, the coarsest first: of each its
    nodes, as the number of the first leaf of each. Days make months, these make years.

    >>> [level.tolist() for level in hierarchy(np.arange(10), days=False)]
    [[0, 4, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
    """
    levels = [np.arange(len(starts))]
    if days:
        dates = [values.day(int(s)) for s in starts]
        for name in (lambda d: (d.year, d.month), lambda d: d.year):
            first: dict[object, int] = {}
            for i, date in enumerate(dates):
                first.setdefault(name(date), i)
            if len(first) < len(levels[0]):
                levels.insert(0, np.array(list(first.values())))
    while len(levels[0]) > BRANCHING:
        levels.insert(0, levels[0][::BRANCHING])
    return tuple(levels if len(levels[0]) > 1 or len(levels) == 1 else levels[1:])


def _power(size: float) -> int:
    """The k with 10^k <= size < 10^(k+1)."""
    k = math.floor(math.log10(size))
    return k + (Fraction(10) ** (k + 1) <= size) - (Fraction(10) ** k > size)


def _widths() -> Iterator[Fraction]:
    for k in range(-330, 330):
        for digits in (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5)):
            yield digits * Fraction(10) ** k


def _width(low: Fraction | int, high: Fraction | int, *, whole: bool) -> Fraction:
    """The least round width of which three eighths of LEAVES suffice: leaves come in twos, and the
    last quarter is for numbers near zero, of which wide ranges on both sides of it have more."""
    least = Fraction(high - low) * 8 / (3 * LEAVES)
    return next(w for w in _widths() if w >= least and not (whole and w.denominator > 1))


def _multiples(low: Fraction | int, high: Fraction | int, width: Fraction) -> list[Fraction]:
    return [k * width for k in range(math.ceil(low / width), math.floor(high / width) + 1)]


def _fewest(made: Callable[[Fraction], list[E]]) -> list[E]:
    """Round numbers by the finest step that gives at most LEAVES / 2, or by the coarsest."""
    found: list[E] = []
    for step in STEPS:
        found = made(step)
        if 2 * len(found) <= LEAVES:
            break
    return found


def _whole_powers(low: int, high: int, step: Fraction) -> list[int]:
    """Whole numbers whose first digits are a multiple of the step, and zero."""
    sizes = [0]
    for k in range(len(str(max(abs(low), abs(high))))):
        sizes += range(10**k, 10 ** (k + 1), max(1, int(step * 10**k)))
    return [v for size in sizes for v in (-size, size) if low <= v <= high]


def _real_powers(low: float, high: float, steps: Mapping[int, Fraction]) -> list[float]:
    """The same of doubles but zero, for powers of ten with a step each; none is rounded twice."""
    sizes = [
        float(Fraction(10) ** k * (1 + j * step))
        for k, step in steps.items()
        for j in range(int(9 / step))
    ]
    return [v for size in sizes for v in (-size, size) if low <= v <= high]


def _with_heads(low: E, high: E, points: Iterable[E], after: Callable[[E], E]) -> tuple[E, ...]:
    """Every point between the ends, and what comes after it. None begins at the upper end: edges
    of a column say that the last bin holds it."""
    starts = {low}
    for point in points:
        starts |= {point, after(point)}
    return tuple(sorted(s for s in starts if low < s < high or s == low))
