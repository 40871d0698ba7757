"""Exact comparisons of a uniform number with exp and log of rationals.

A uniform number U in [0, 1) is an endless string of bits of which a prefix has been read. Every
function here computes with integers only and rounds outwards, so an answer is never wrong; where
the prefix does not decide, more bits are read. The samplers call this for the few draws that
floating point cannot decide (docs/explanations/noise.md has the proof).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import final

from admeasure.privacy.bits import BitSource

PREFIX = 52
"""Bits of U read at first: (n + 1/2) / 2^52 is then a float64 without rounding."""


@final
class LazyUniform:
    """U in [prefix, prefix + 1) / 2^precision, of which more bits are read on demand."""

    __slots__ = ("_bits", "precision", "prefix")

    def __init__(self, bits: BitSource, prefix: int, precision: int) -> None:
        self._bits = bits
        self.prefix = prefix
        self.precision = precision

    def refine(self) -> None:
        self.prefix = self.prefix << 64 | int(self._bits.words(1)[0])
        self.precision += 64

    def below_exp(self, x: Fraction) -> bool:
        """Whether U < exp(-x), for rational x >= 0."""
        return self.is_below(lambda precision: exp_bounds(x, precision))

    def is_below(self, bounds: Callable[[int], tuple[int, int]]) -> bool:
        """Whether U is below a number, of which `bounds` gives those of its first bits.

        Ends with probability one: each further word leaves the question open with probability
        at most 2^-62.
        """
        while True:
            low, high = bounds(self.precision)
            if self.prefix + 1 <= low:
                return True
            if self.prefix >= high:
                return False
            self.refine()

    def log_exponential(self, x: Fraction) -> tuple[Fraction | float, Fraction | float]:
        """Bounds of log(-log U) + x, as wide as the bits read so far require."""
        q = 2 * self.precision
        one = 1 << self.precision
        shortest = -log_bounds(Fraction(self.prefix + 1, one), q)[1]
        low = _log_over(shortest, q)[0] + x if shortest > 0 else -math.inf
        if self.prefix == 0:
            return low, math.inf
        longest = -log_bounds(Fraction(self.prefix, one), q)[0]
        return low, _log_over(longest, q)[1] + x


def floor_exponential(uniform: LazyUniform, scale: Fraction, guess: int) -> int:
    """floor(-scale log U): the largest k >= 0 with U < exp(-k / scale).

    The guess decides only how soon the answer is found, never what it is.
    """
    low, step = max(guess, 0), 1
    high = None
    while not uniform.below_exp(low / scale):
        low, high, step = max(0, low - step), low, 2 * step
    if high is None:
        high, step = low + 1, 1
        while uniform.below_exp(high / scale):
            low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if uniform.below_exp(middle / scale):
            low = middle
        else:
            high = middle
    return low


def first_arrivals(racers: Sequence[tuple[LazyUniform, Fraction]], k: int) -> list[int]:
    """Positions of the k smallest log(-log U) + x among pairs (U, x)."""
    chosen: list[int] = []
    contested = list(range(len(racers)))
    while len(chosen) + len(contested) > k:
        bounds = {i: racers[i][0].log_exponential(racers[i][1]) for i in contested}
        needed = k - len(chosen) - 1
        low = sorted(b[0] for b in bounds.values())[needed]
        high = sorted(b[1] for b in bounds.values())[needed]
        chosen += [i for i in contested if bounds[i][1] < low]
        contested = [i for i in contested if bounds[i][1] >= low and bounds[i][0] <= high]
        if len(chosen) + len(contested) > k:
            for i in contested:
                racers[i][0].refine()
    return chosen + contested


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= exp(-x) 2^bits <= high, at most two apart, for rational x >= 0.

    exp(-x) = exp(-r)^(2^s) with r = x / 2^s <= 1/8; exp(-r) from its alternating series in
    fixed point, then s squarings, each step rounded down for `low` and up for `high`.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:  # exp(-x) 2^bits < (2 / e)^bits
        return 0, 1
    s = int(x).bit_length() + 3
    q = bits + s + 24
    one = 1 << q
    r_low = (x.numerator << (q - s)) // x.denominator
    r_high = r_low + 1
    low = high = t_low = t_high = one
    k = 0
    while t_high > 1:
        k += 1
        t_low = (t_low * r_low >> q) // k
        t_high = -((-(t_high * r_high) >> q) // k)
        low, high = (low - t_high, high - t_low) if k % 2 else (low + t_low, high + t_high)
    low, high = low - t_high, min(high + t_high, one)  # what is left out is below the last term
    for _ in range(s):
        low, high = low * low >> q, -(-(high * high) >> q)
    return low >> (q - bits), -(-high >> (q - bits))


def log_bounds(y: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= log(y) 2^bits <= high, at most two apart, for rational y > 0.

    log y = e log 2 + log m with y = m 2^e and 1/2 < m < 2.
    """
    e = y.numerator.bit_length() - y.denominator.bit_length()
    q = bits + e.bit_length() + 16
    m = y / Fraction(2) ** e
    low, high = _log_near_one(m, q)
    two_low, two_high = _log_near_one(Fraction(2), q)
    low, high = (
        (low + e * two_low, high + e * two_high)
        if e >= 0
        else (
            low + e * two_high,
            high + e * two_low,
        )
    )
    return low >> (q - bits), -(-high >> (q - bits))


def _log_near_one(m: Fraction, q: int) -> tuple[int, int]:
    """Bounds of log(m) 2^q for 1/2 <= m <= 2, by log m = 2 (z + z^3/3 + z^5/5 + …)."""
    z = abs((m - 1) / (m + 1))  # at most 1/3
    z_low = (z.numerator << q) // z.denominator
    z_high = -((-z.numerator << q) // z.denominator)
    low, high, power_low, power_high, k = 0, 0, z_low, z_high, 1
    while power_high > 1:
        low, high = low + power_low // k, high - (-power_high // k)
        power_low = power_low * z_low * z_low >> (2 * q)
        power_high = -(-(power_high * z_high * z_high) >> (2 * q))
        k += 2
    high += 2  # what is left out is below 9/8 of the next power, which is at most one unit
    low, high = 2 * low, 2 * high
    return (low, high) if m >= 1 else (-high, -low)


def _log_over(y: int, q: int) -> tuple[Fraction, Fraction]:
    """Bounds of log(y / 2^q) as rationals, for an integer y > 0."""
    low, high = log_bounds(Fraction(y, 1 << q), q)
    return Fraction(low, 1 << q), Fraction(high, 1 << q)
