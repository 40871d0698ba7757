"""The samplers, vectorised and exact: discrete Laplace, discrete Gaussian, and the Gumbel race.

Promise: given independent uniform bits, every draw has exactly the law in its docstring. Floating
point decides a draw only where its error bound leaves no doubt; `exact` decides the rest from the
same bits and more of them. The bounds, and what they assume of numpy's exp and log, are proved in
docs/explanations/noise.md, with the same names as the constants below.

Nothing here reads data or spends budget: the caller adds the noise and has been charged for it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from admeasure.privacy.bits import BitSource, Words, halves
from admeasure.privacy.exact import PREFIX, LazyUniform, floor_exponential

BLOCK = 8192
"""Proposals handled at once: about ten arrays of 64 KB, which stay in a core's cache."""

LOG_ERROR = 2.0**-46
"""Bounds the relative error of a computed -log u, with room for a product after it."""

CELL_ERROR = 2.0**-10
"""Bounds the error of a computed exp(-x), in units of 2^-32."""

KEY_ERROR = 2.0**-38
"""Bounds the absolute error of a computed log(-log u)."""

LARGEST = 2**53
"""A magnitude from here on is not an exact float64. At the largest scale it has probability
exp(-2^13), and the draw stops with an error."""

Floats = NDArray[np.float64]


def discrete_laplace(bits: BitSource, scale: float, size: int) -> NDArray[np.int64]:
    """`size` draws y with probability proportional to exp(-|y| / scale), y any integer."""

    def draw(proposals: int) -> Floats:
        magnitude, negative = magnitudes_and_signs(bits, scale, proposals)
        # Zero has one sign only: without this it would count twice.
        return _signed(magnitude, negative, ~(negative & (magnitude == 0)))

    return _filled(size, draw)


def discrete_gaussian(bits: BitSource, sigma: float, size: int) -> NDArray[np.int64]:
    """`size` draws y with probability proportional to exp(-y^2 / (2 sigma^2)), y any integer."""

    def draw(proposals: int) -> Floats:
        magnitude, negative = magnitudes_and_signs(bits, sigma, proposals)
        accepted = gaussian_accepts(bits, sigma, magnitude)
        return _signed(magnitude, negative, accepted & ~(negative & (magnitude == 0)))

    return _filled(size, draw)


def _filled(size: int, draw: Callable[[int], Floats]) -> NDArray[np.int64]:
    """The first `size` of independent draws, of which each part has those that were accepted."""
    out = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        drawn = draw(_proposals(size - filled))
        take = min(len(drawn), size - filled)
        out[filled : filled + take] = drawn[:take]
        filled += take
    return out


def race(bits: BitSource, scores: NDArray[np.int64], step: Fraction, k: int) -> list[int]:
    """The k winners, sorted, of as many exponential mechanisms without replacement.

    Candidate i wins the first with probability proportional to exp(step scores[i]).
    """
    from admeasure.privacy.race import ArrayScores, Race  # which is built on this module

    runners = Race(bits, step, k)
    runners.add(ArrayScores(scores))
    return runners.result()


def _proposals(wanted: int) -> int:
    """Enough that a small request is nearly always met at once: at least 44% are accepted."""
    return min(BLOCK, wanted + wanted // 2 + 16)


def _signed(magnitude: Floats, negative: NDArray[np.bool_], keep: NDArray[np.bool_]) -> Floats:
    return np.where(negative, -magnitude, magnitude)[keep]


def middles(words: Words) -> Floats:
    """(n + 1/2) / 2^52 for the first 52 bits n of each word, without rounding.

    The bits are put behind the exponent of 1, which makes 1 + n / 2^52; the subtraction is exact.
    """
    ones = (words >> np.uint64(64 - PREFIX)) | np.uint64(0x3FF0_0000_0000_0000)
    return ones.view(np.float64) - (1 - 2.0**-53)


def magnitudes_and_signs(
    bits: BitSource, scale: float, count: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Magnitudes floor(-scale log U), and an independent fair sign each."""
    words = bits.words(count)
    middle = middles(words)
    drawn = np.log(middle)
    drawn *= -scale
    magnitude = np.floor(drawn)
    # Where U lies in its cell of width 2^-52, and rounding, move `drawn` by less than `error`.
    error = (0.75 * 2.0**-PREFIX * scale) / middle
    error += LOG_ERROR * drawn
    drawn -= magnitude
    drawn -= 0.5
    np.abs(drawn, out=drawn)
    drawn += error
    # In the first cell U may be as near to 0 as one likes, and no error bounds the magnitude.
    open_cells = (drawn >= 0.5) | (middle < 2.0**-PREFIX)
    if open_cells.any():
        exact_scale = Fraction(scale)
        for i in np.flatnonzero(open_cells):
            uniform = LazyUniform(bits, int(words[i]) >> (64 - PREFIX), PREFIX)
            value = floor_exponential(uniform, exact_scale, int(magnitude[i]))
            if value >= LARGEST:
                raise OverflowError("a draw passed 2^53; its probability is below exp(-2^13)")
            magnitude[i] = value
    return magnitude, (words & np.uint64(1)).astype(np.bool_)


def gaussian_accepts(bits: BitSource, sigma: float, magnitude: Floats) -> NDArray[np.bool_]:
    """Accept a with probability exp(-x), x = (a - m)(a + m - 2 sigma) / (2 sigma^2).

    m is the integer nearest to sigma, where exp(-a^2 / 2 sigma^2 + a / sigma) is greatest: x >= 0.
    """
    cells = halves(bits, len(magnitude))
    m = round(sigma)
    x = magnitude - m
    other = x + 2 * (m - sigma)
    x *= 1 / sigma
    other *= -0.5 / sigma
    x *= other
    with np.errstate(under="ignore"):
        margin = np.exp(x)
    margin *= 2.0**32
    margin -= cells
    accepted = margin >= 1 + CELL_ERROR
    open_cells = np.flatnonzero(~accepted & (margin > -CELL_ERROR))
    if len(open_cells):
        s = Fraction(sigma)
        for i in open_cells:
            a = int(magnitude[i])
            accepted[i] = LazyUniform(bits, int(cells[i]), 32).below_exp(
                (a - m) * (a + m - 2 * s) / (2 * s * s)
            )
    return accepted


def arrivals(
    words: Words, ones: NDArray[np.int64], behind: NDArray[np.uint64], step: Fraction
) -> tuple[Floats, Floats]:
    """Bounds of log(-log U) + step * behind, for U that begins with so many ones, then the words.

    With v = 1 - W, the middle of its cell, and b leading ones: -log U = -log(1 - 2^-b v). Its
    logarithm has slope 2^-b / ((1 - 2^-b v) (-log U)) in v, which is at most 1 / (v (1 - 2^-b v)),
    and half a cell is 2^-53.
    """
    rest = middles(~words)  # of 1 - W: the cell of the complement is the mirrored cell
    part = np.ldexp(rest, -ones)
    time = -np.log1p(-part)
    spread = (0.75 * 2.0**-PREFIX) / (rest * (1 - part))
    lost = behind * float(step)
    error = 2 * spread + LOG_ERROR * lost + KEY_ERROR
    # The first and the last cells of [0, 1) hold arrivals of any lateness or earliness.
    error[(spread > 0.25) | (part > 1 - 2.0**-PREFIX)] = np.inf
    key = np.log(time) + lost
    return key - error, key + error
