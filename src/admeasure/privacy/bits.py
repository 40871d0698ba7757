"""Where random bits come from: the operating system, or a seed.

The samplers are written once on top of `BitSource`; what differs between a release and an
experiment is only which of the two sources below fills the words.
"""

from __future__ import annotations

import os
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class BitSource(Protocol):
    """Independent, uniform 64-bit words."""

    def words(self, count: int) -> Words: ...


@final
class OsBits:
    """Words from the operating system's generator (`os.urandom`).

    Nothing is kept between calls: a process that forks, or is copied while it runs, never hands
    the same words out twice.
    """

    __slots__ = ()

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype="<u8")


@final
class SeededBits:
    """Words from PCG64, the same for the same seed. NOT PRIVATE: who has the seed has the noise."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def words(self, count: int) -> Words:
        return self._generator.random_raw(count)


def halves(bits: BitSource, count: int) -> NDArray[np.uint32]:
    """`count` independent 32-bit words."""
    return bits.words((count + 1) // 2).astype("<u8", copy=False).view("<u4")[:count]
