"""Noise, behind one interface: exact and from the operating system, or exact and seeded.

Promise: both draw from exactly the stated distributions (docs/explanations/noise.md), on the
integers, through the same code. `ExactNoise` takes its bits from the operating system and cannot be
seeded; only a release made with it is private. `SeededNoise` repeats itself for tests and research;
whatever is made with it is NOT PRIVATE and says so through `private`.

Sensitivity and charge are the caller's: with L2 sensitivity D, adding `discrete_gaussian(sigma)`
to integers is D^2 / (2 sigma^2)-zCDP; choosing with `exponential_choice(scores, step)` is
e^2 / 8-zCDP for e = 2 step D with scores of sensitivity D, and `top` costs k times as much.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import ClassVar, Protocol, final

import numpy as np
from numpy.typing import NDArray

from admeasure.errors import UsageError
from admeasure.privacy import flip, samplers
from admeasure.privacy.bits import BitSource, OsBits, SeededBits
from admeasure.privacy.race import Race
from admeasure.sparse import TextCounts

SMALLEST_SCALE = 2.0**-40
LARGEST_SCALE = 2.0**40
LARGEST_STEP = 2**64

Scores = NDArray[np.int64] | Sequence[int]


class Noise(Protocol):
    """What a curator draws from."""

    private: ClassVar[bool]
    """False: a release made with it is stamped NOT PRIVATE."""

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        """Draws y with P(y) ∝ exp(-y² / 2σ²); σ is the float's exact value, 2^-40 to 2^40."""
        ...

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Draws y with P(y) ∝ exp(-|y| / scale); the scale is the float's exact value."""
        ...

    def passing(
        self, blocks: Iterable[TextCounts], sigma: float, least: int, most: int
    ) -> list[str]:
        """The texts whose counts are at least `least` with discrete Gaussian noise, in alphabetical
        order; where they are more than `most`, those of the largest noisy counts. Blocks are never
        held together."""
        ...

    def exponential_choice(self, scores: Scores, step: Fraction) -> int:
        """The position i with P(i) ∝ exp(step · scores[i])."""
        ...

    def permute_and_flip(self, scores: Scores, step: Fraction) -> int:
        """The first position, in a random order, whose coin of probability
        exp(step · (scores[i] - the largest score)) shows heads.
        """
        ...

    def top(self, scores: Scores, step: Fraction, k: int) -> list[int]:
        """Positions of k exponential choices without replacement, sorted: their order is not
        part of the output. Equal in law to the k largest of step · scores + Gumbel noise.
        """
        ...

    def race(self, step: Fraction, k: int) -> Race:
        """The same for scores that arrive in blocks and are never held together."""
        ...


class _OnBits:
    """The draws on a source of bits. Abstract: final are the two classes below."""

    __slots__ = ("_bits",)

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def discrete_gaussian(self, sigma: float, size: int) -> NDArray[np.int64]:
        return samplers.discrete_gaussian(self._bits, _scale("sigma", sigma), _size(size))

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        return samplers.discrete_laplace(self._bits, _scale("scale", scale), _size(size))

    def passing(
        self, blocks: Iterable[TextCounts], sigma: float, least: int, most: int
    ) -> list[str]:
        kept: list[tuple[int, str]] = []
        for block in blocks:
            noisy = block.counts + self.discrete_gaussian(sigma, len(block.texts))
            kept += (
                (-int(noisy[i]), block.texts[i]) for i in np.flatnonzero(noisy >= least).tolist()
            )
            kept = sorted(kept)[:most]
        return sorted(text for _, text in kept)

    def exponential_choice(self, scores: Scores, step: Fraction) -> int:
        return self.top(scores, step, 1)[0]

    def permute_and_flip(self, scores: Scores, step: Fraction) -> int:
        return flip.permute_and_flip(self._bits, _scores(scores), _step(step))

    def top(self, scores: Scores, step: Fraction, k: int) -> list[int]:
        candidates = _scores(scores)
        k = operator.index(k)
        if not 1 <= k <= len(candidates):
            raise UsageError(
                f"k must be from 1 to the number of candidates, {len(candidates)}; it is {k}"
            )
        return samplers.race(self._bits, candidates, _step(step), k)

    def race(self, step: Fraction, k: int) -> Race:
        return Race(self._bits, _step(step), operator.index(k))


@final
class ExactNoise(_OnBits):
    """Noise for releases. Its bits come from the operating system; there is no seed.

    >>> ExactNoise().private, ExactNoise().discrete_gaussian(2.5, 3).shape
    (True, (3,))
    """

    __slots__ = ()
    private: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(OsBits())


@final
class SeededNoise(_OnBits):
    """Noise for tests and research: the same seed and calls give the same draws. NOT PRIVATE.

    >>> SeededNoise(7).private
    False
    """

    __slots__ = ()
    private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        if operator.index(seed) < 0:
            raise UsageError(f"seed must not be negative; it is {seed}")
        super().__init__(SeededBits(seed))


def _scale(name: str, value: float) -> float:
    if not isinstance(value, Real) or not SMALLEST_SCALE <= value <= LARGEST_SCALE:
        raise UsageError(f"{name} must be a number from 2^-40 to 2^40; it is {value!r}")
    number = float(value)
    if number != value:
        raise UsageError(
            f"{name} must be a float; {value!r} is not one exactly. Round it up with "
            "math.nextafter, and charge for the rounded value"
        )
    return number


def _size(size: int) -> int:
    number = operator.index(size)
    if number < 0:
        raise UsageError(f"size must not be negative; it is {number}")
    return number


def _step(step: Fraction) -> Fraction:
    if not isinstance(step, Rational) or not 0 <= step <= LARGEST_STEP:
        raise UsageError(
            f"step must be a Fraction from 0 to 2^64; it is {step!r}. "
            "Write Fraction(x) for the exact value of a float x"
        )
    return Fraction(step)


def _scores(scores: Scores) -> NDArray[np.int64]:
    """Never names a score in an error: scores are computed from the private table."""
    array = np.asarray(scores)
    if array.ndim != 1 or array.size == 0:
        raise UsageError(f"scores must be one row of candidates; their shape is {array.shape}")
    if array.dtype.kind not in "iu" or (array.dtype.itemsize == 8 and array.dtype.kind == "u"):
        raise UsageError(
            f"scores must be integers that fit 64 bits; they are {array.dtype}. "
            "Round them to a grid, and put the grid's width into step"
        )
    return np.ascontiguousarray(array, dtype=np.int64)
