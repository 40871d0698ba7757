"""Bins: how an ordered range is cut into levels, and how a value is drawn back from a level.

`OrdinalGrid` holds whole numbers (integers, days); everything in it is exact. `RealGrid` holds
doubles. Both answer `place` for one value and `place_all` for an array, with values outside the
range marked, so that clamping is decided in one place.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from admeasure.schema.problems import Refusal

_LOOKUP_SPAN = 1 << 16


class PartlyCovered(Exception):
    """A range cuts through a bin. Carries the bin's code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, eq=False)
class OrdinalGrid:
    """Whole numbers from `low` to `high`, cut at the first value of each bin."""

    low: int
    high: int
    starts: np.ndarray
    clamp: bool
    is_equal: bool
    """Whether the bins are those of `equal`."""

    @classmethod
    def equal(cls, low: int, high: int, bins: int | None, *, clamp: bool) -> OrdinalGrid:
        """Bin i holds the v with ((v - low) * bins) // (high - low + 1) = i, so it starts at
        low + ceil(i * span / bins)."""
        span = high - low + 1
        count = span if bins is None else bins
        starts = [low - (-i * span) // count for i in range(count)]
        return cls(low, high, np.array(starts, dtype=np.int64), clamp, is_equal=True)

    @classmethod
    def cut(cls, edges: Sequence[int], *, clamp: bool) -> OrdinalGrid:
        starts = np.array(edges[:-1], dtype=np.int64)
        return cls(edges[0], edges[-1], starts, clamp, is_equal=False)

    @property
    def size(self) -> int:
        return len(self.starts)

    @cached_property
    def ends(self) -> np.ndarray:
        """The last value of each bin."""
        return np.append(self.starts[1:] - 1, self.high)

    @cached_property
    def _starts(self) -> list[int]:
        return self.starts.tolist()

    @cached_property
    def _lookup(self) -> np.ndarray | None:
        span = self.high - self.low + 1
        if span > _LOOKUP_SPAN:
            return None
        widths = self.ends - self.starts + 1
        return np.repeat(np.arange(self.size, dtype=np.int32), widths)

    def place(self, value: int | float) -> int:
        if not self.low <= value <= self.high:
            return _outside(value < self.low, self.size, clamp=self.clamp)
        return bisect.bisect_right(self._starts, value) - 1

    def place_all(self, values: np.ndarray) -> np.ndarray:
        """Codes or marks of an int64 array."""
        inside = np.clip(values, self.low, self.high)
        if self._lookup is not None:
            codes = self._lookup[inside - self.low]
        else:
            codes = np.searchsorted(self.starts, inside, side="right").astype(np.int32) - 1
        if not self.clamp:
            codes[inside != values] = Refusal.OUTSIDE
        return codes

    def covered(self, low: float, high: float) -> np.ndarray:
        """The codes of the bins that lie within [low, high]; a bin cut in two is refused."""
        touched = (self.starts <= high) & (self.ends >= low)
        whole = (self.starts >= low) & (self.ends <= high)
        return _whole_bins(touched, whole)

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Uniform whole numbers within each code's bin."""
        return rng.integers(self.starts[codes], self.ends[codes], endpoint=True)


@dataclass(frozen=True, eq=False)
class RealGrid:
    """Doubles from `low` to `high`. With `width` the bins are equal and the arithmetic is that of
    docs/reference/schema.md; without it `edges` are searched. The last bin includes `high`."""

    edges: np.ndarray
    width: float | None
    clamp: bool

    @classmethod
    def equal(cls, low: float, high: float, bins: int, *, clamp: bool) -> RealGrid:
        width = (high - low) / bins
        with np.errstate(invalid="ignore", over="ignore"):  # `is_resolved` refuses such a grid
            edges = low + np.arange(bins + 1) * width
        edges[-1] = high
        return cls(edges, width, clamp)

    @classmethod
    def cut(cls, edges: Sequence[float], *, clamp: bool) -> RealGrid:
        return cls(np.array(edges, dtype=np.float64), None, clamp)

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def low(self) -> float:
        return float(self.edges[0])

    @property
    def high(self) -> float:
        return float(self.edges[-1])

    @property
    def is_resolved(self) -> bool:
        """Whether double precision can tell every bin from its neighbours."""
        if self.width is not None and not (math.isfinite(self.width) and self.width > 0):
            return False
        return bool(np.all(self._bins(self._middles) == np.arange(self.size)))

    @cached_property
    def _middles(self) -> np.ndarray:
        if self.width is None:
            middles = self.edges[:-1] / 2 + self.edges[1:] / 2
            return np.where(self._points, self.edges[:-1], middles)
        return self.low + (np.arange(self.size) + 0.5) * self.width

    @cached_property
    def _points(self) -> np.ndarray:
        """Which bins hold one double and no more."""
        points = self.edges[1:] == np.nextafter(self.edges[:-1], np.inf)
        points[-1] = False  # the last bin holds its end, too
        return points

    def is_point(self, code: int) -> bool:
        """Whether a bin is a single double."""
        return bool(self._points[code])

    def label(self, code: int) -> str:
        """A bin in words; one that ends at the largest double ends nowhere."""
        first, last = (float(f"{self.edges[i]:.12g}") for i in (code, code + 1))
        if first == last or self.is_point(code):
            return f"{first:g}"
        if first < -1e300:
            return f"below {last:g}"
        if last > 1e300:
            return f"{first:g} or more"
        return f"[{first:g}, {last:g}" + ("]" if code == self.size - 1 else ")")

    def _bins(self, inside: np.ndarray) -> np.ndarray:
        if self.width is None:
            codes = np.searchsorted(self.edges, inside, side="right") - 1
        else:
            codes = np.floor((inside - self.low) / self.width)
        return np.minimum(codes, self.size - 1).astype(np.int32)

    @cached_property
    def starts(self) -> np.ndarray:
        """The least double of each bin, by halving the doubles between the ends. Placing is
        monotone in the value, also as rounded, so that comparing with these is placing."""
        if self.width is None:
            return self.edges[:-1]
        low, high = (np.full(self.size, _rank(x)) for x in (self.low, self.high))
        wanted = np.arange(self.size)
        while (low < high).any():
            # (low + high) // 2 without passing 64 bits
            middle = (low & high) + ((low ^ high) >> 1)
            reached = self.place_all(_unrank(middle)) >= wanted
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        return _unrank(low)

    @cached_property
    def _edges(self) -> list[float]:
        return self.edges.tolist()

    def place(self, value: float) -> int:
        """The same arithmetic as `place_all`; Python's floats are numpy's."""
        low, high = self._edges[0], self._edges[-1]
        if not low <= value <= high:
            return _outside(value < low, self.size, clamp=self.clamp)
        if self.width is None:
            code = bisect.bisect_right(self._edges, value) - 1
        else:
            code = math.floor((value - low) / self.width)
        return min(code, self.size - 1)

    def place_all(self, values: np.ndarray) -> np.ndarray:
        """Codes or marks of a float64 array without NaN."""
        inside = np.clip(values, self.low, self.high)
        codes = self._bins(inside)
        if not self.clamp:
            codes[inside != values] = Refusal.OUTSIDE
        return codes

    def covered(self, low: float, high: float) -> np.ndarray:
        """As for whole numbers. A bin that meets the range in one point only is not touched, and
        ends are compared with a tolerance of 1e-9 of a bin, since an edge may be a rounded sum."""
        slack = 1e-9 * np.diff(self.edges)
        starts, ends = self.edges[:-1], self.edges[1:]
        touched = (starts < high - slack) & (ends > low + slack)
        whole = (starts >= low - slack) & (ends <= high + slack)
        return _whole_bins(touched, whole)

    def draw(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Uniform doubles within each code's bin; where rounding would carry a value over an edge
        it is the middle of the bin instead."""
        starts = self.edges[codes]
        values = starts + rng.random(len(codes)) * (self.edges[codes + 1] - starts)
        strays = self._bins(values) != codes
        values[strays] = self._middles[codes[strays]]
        return values


def _rank(value: float) -> int:
    """The place of a double among all, as a 64-bit whole number."""
    bits = int(np.float64(value + 0.0).view(np.int64))  # + 0.0: there is one zero
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _unrank(ranks: np.ndarray) -> np.ndarray:
    size = np.abs(ranks).view(np.float64)
    return np.where(ranks < 0, -size, size)


def _outside(below: object, size: int, *, clamp: bool) -> int:
    if not clamp:
        return int(Refusal.OUTSIDE)
    return 0 if below else size - 1


def _whole_bins(touched: np.ndarray, whole: np.ndarray) -> np.ndarray:
    partly = np.flatnonzero(touched & ~whole)
    if len(partly):
        raise PartlyCovered(int(partly[0]))
    return np.flatnonzero(touched)
