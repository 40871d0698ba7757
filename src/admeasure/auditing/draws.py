"""A source of noise in which every kind of draw goes through one method, to be watched there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from admeasure.privacy.noise import Noise
from admeasure.sparse import TextCounts


class Draws(ABC):
    """`Noise` whose draws all end in `draw`; never private, since somebody watches."""

    private: ClassVar[bool] = False

    @abstractmethod
    def draw(
        self, kind: str, scale: float | Fraction, count: int, scores: np.ndarray | None
    ) -> Any:
        """One draw of the method `kind`: `count` numbers of a scale, or `count` of some scores."""

    def discrete_gaussian(self, sigma: float, size: int) -> np.ndarray:
        return self.draw("discrete_gaussian", sigma, size, None)

    def discrete_laplace(self, scale: float, size: int) -> np.ndarray:
        return self.draw("discrete_laplace", scale, size, None)

    @abstractmethod
    def passing(
        self, blocks: Iterable[TextCounts], sigma: float, least: int, most: int
    ) -> list[str]:
        """Texts that pass a threshold: not of a fixed size, so watched by itself."""

    def exponential_choice(self, scores: Any, step: Fraction) -> int:
        return self.top(scores, step, 1)[0]

    def permute_and_flip(self, scores: Any, step: Fraction) -> int:
        return self.draw("permute_and_flip", step, 1, np.asarray(scores))

    def top(self, scores: Any, step: Fraction, k: int) -> list[int]:
        return self.draw("top", step, k, np.asarray(scores))

    def race(self, step: Fraction, k: int) -> Any:
        """Blocks are held together here: watched runs are small."""
        return _Race(self, step, k)


class Misoffered(Exception):
    """A block of scores that a race would read differently from one cut to another: `above` is not
    what the scores are. Candidates that do not exist, or are passed over, change the law."""


class _Race:
    """A race whose candidates are collected and then drawn as one `top`."""

    def __init__(self, draws: Draws, step: Fraction, k: int) -> None:
        self._draws, self._step, self._k = draws, step, k
        self._scores: list[np.ndarray] = []
        self._places: list[np.ndarray] = []
        self._seen = 0

    def add(self, block: Any, without: np.ndarray | None = None) -> None:
        barred = np.empty(0, np.int64) if without is None else without
        _check_offer(block)
        open_ = np.setdiff1d(np.arange(block.size), barred)
        self._scores.append(block.at(open_))
        self._places.append(self._seen + open_)
        self._seen += block.size

    def result(self) -> list[int]:
        picks = self._draws.top(np.concatenate(self._scores), self._step, self._k)
        return sorted(np.concatenate(self._places)[picks].tolist())


def _check_offer(block: Any) -> None:
    """Above any cut the block has the candidates whose scores are above it, and no other."""
    scores = block.at(np.arange(block.size)).astype(object)
    ranked = sorted(set(scores))
    cuts = {-(2**64), -2, -1, 0, 2**64, *ranked[:: len(ranked) // 16 + 1]}
    for cut in cuts | {score - 1 for score in ranked[:1]}:
        found = block.above(cut, 2**40)
        expected = np.flatnonzero(scores > cut)
        if found is not None and not (
            np.array_equal(found[0], expected) and np.array_equal(found[1], scores[expected])
        ):
            raise Misoffered("what is above a cut is not what the scores are")


def drawn(
    noise: Noise, kind: str, scale: float | Fraction, count: int, scores: np.ndarray | None
) -> Any:
    """The same draw from another source of noise."""
    method = getattr(noise, kind)
    if scores is None:
        return method(scale, count)
    return method(scores, scale) if kind == "permute_and_flip" else method(scores, scale, count)
