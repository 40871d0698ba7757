"""The exponential mechanism without replacement over scores that arrive in blocks, exactly.

Candidate i arrives at time -log(U_i) exp(-step · score_i), the U_i independent and uniform on
[0, 1), and the first k win: k exponential mechanisms without replacement, in law the k largest of
step · score + Gumbel noise (Avent and Korolova 2023, Algorithm 4; Durfee and Rogers 2019). Only the
candidates that may still win are kept, so a race over billions of scores holds a few hundred.

Drawing lazily. Let `limit` be a time by which k candidates seen so far are sure to arrive. Write
V_b for the event that the first b binary digits of U are all one. Without V_b, -log U >= 2^-b, so a
candidate whose score is at most a cut with

    2^-b exp(-step · cut) > exp(limit)

loses for sure, and nothing of U but 'not V_b' need be known. V_b has probability 2^-b. So the
candidates of a block above the cut get a whole U each, and of all the others only those with V_b
are found, by the gaps between them, and get the rest of their digits. Every U has its law:

- Gaps. With s = 2^b - 1, floor(-s log U') has P(gap >= g) = exp(-g / s), which is the number of
  failures before a success of probability p' = 1 - exp(-1/s). Since exp(-1/s) < 1 - 2^-b, p' is a
  little more than 2^-b; a success is kept with probability 2^-b / p', decided exactly.
- Given V_b the digits that follow are independent and fair: U = 1 - 2^-b (1 - W), W uniform.

Where no good limit is known yet, V_b is decided first, for a fixed and small b: the candidates with
V_b are found and enter, which sets a limit, and with it a cut. Those above the cut get a U under
the condition that V_b is false, drawn until it is. They are few. With weights w = exp(step ·
score) the limit t that the candidates with V_b give is about where Σ min(2^-b, t w) = k, and each
candidate above the cut (t w > 2^-b) adds 2^-b to that sum: there are at most about k 2^b of them.

Floating point decides an arrival only where its error bound leaves no doubt; `exact` decides the
rest from the same digits and more of them, as in `samplers`. Nothing here reads data or spends
budget; positions and scores are private until `result` is called by who was charged for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from admeasure.privacy import samplers
from admeasure.privacy.bits import BitSource, Words
from admeasure.privacy.exact import PREFIX, LazyUniform, exp_bounds, first_arrivals

MOST_ONES = 40
"""The most leading ones that are asked for: beyond, gaps would pass what a float holds exactly."""

HEAD = 8192
"""Candidates that get a whole U each before there is a limit, where a block is small."""

FEW_BITS = 15
"""Where V_b is decided first, 2^b k is at most two to this power."""

ROUNDING = 1e-9
"""Added to a sum of a few floats below 2^10: more than its rounding."""

Ints = NDArray[np.int64]


class BlockScores(Protocol):
    """One block of scores, wherever it lies."""

    @property
    def size(self) -> int: ...

    def above(self, cut: int, most: int) -> tuple[Ints, Ints] | None:
        """Positions, ascending, and scores of all above the cut, which may be any whole number;
        None where they are more than `most`, or too many to be found quickly."""
        ...

    def at(self, positions: Ints) -> Ints:
        """The scores at these positions."""
        ...


@final
class ArrayScores:
    """A block in memory."""

    __slots__ = ("_array",)

    def __init__(self, array: NDArray[np.integer]) -> None:
        self._array = array

    @property
    def size(self) -> int:
        return self._array.size

    def above(self, cut: int, most: int) -> tuple[Ints, Ints] | None:
        info = np.iinfo(self._array.dtype)
        if cut >= info.max:
            found = np.empty(0, np.int64)
        elif cut < info.min:
            found = np.arange(self._array.size) if self._array.size <= most else None
        else:
            over = self._array > cut
            found = None if np.count_nonzero(over) > most else np.flatnonzero(over)
        return None if found is None else (found, self.at(found))

    def at(self, positions: Ints) -> Ints:
        return self._array[positions].astype(np.int64)


@final
class Race:
    """Add blocks of scores, then ask for the winners."""

    def __init__(
        self,
        bits: BitSource,
        step: Fraction,
        k: int,
        *,
        head: int = HEAD,
        few_bits: int = FEW_BITS,
    ) -> None:
        self._bits, self._head, self._few_bits = bits, head, few_bits
        self._step = step
        self._k = k
        self._seen = 0
        self._best = 0
        self._limit = math.inf
        self._index = np.empty(0, np.int64)
        self._scores = np.empty(0, np.int64)
        self._ones = np.empty(0, np.int64)
        self._words = np.empty(0, np.uint64)
        self._low = self._high = np.empty(0, np.float64)

    def add(self, block: BlockScores, without: Ints | None = None) -> None:
        """More candidates, those at the positions `without` left out."""
        size, barred = block.size, np.empty(0, np.int64) if without is None else np.sort(without)
        head = 0
        if size >> self._first_ones < 4 * self._k:
            while head < size and len(self._index) < self._k:
                first = np.arange(head, min(size, head + max(self._head, 4 * self._k)))
                head += len(first)
                self._enter_from(block, first[_absent(first, barred)], ones=0)
        if head < size:
            self._rest(block, head, barred)
        self._seen += size

    def result(self) -> list[int]:
        """Positions of the k winners among all that was added, sorted: their order is not told."""
        if len(self._index) < self._k:
            raise ValueError("fewer candidates than winners")
        first = self._high < np.partition(self._low, self._k - 1)[self._k - 1]
        winners = self._index[first].tolist()
        contested = np.flatnonzero(~first)
        if len(winners) + len(contested) > self._k:
            racers = [self._racer(int(i)) for i in contested]
            contested = contested[first_arrivals(racers, self._k - len(winners))]
        return sorted(winners + self._index[contested].tolist())

    def _racer(self, i: int) -> tuple[LazyUniform, Fraction]:
        ones, word = int(self._ones[i]), int(self._words[i]) >> (64 - PREFIX)
        prefix = ((1 << ones) - 1) << PREFIX | word
        behind = self._step * (self._best - int(self._scores[i]))
        return LazyUniform(self._bits, prefix, ones + PREFIX), behind

    @property
    def _first_ones(self) -> int:
        """The b for which V_b is decided before there is a cut."""
        return max(1, self._few_bits - self._k.bit_length())

    def _rest(self, block: BlockScores, head: int, barred: Ints) -> None:
        """The block from position `head` on: by a cut, or V_b first where that leaves too many."""
        size = block.size
        most = max(self._head, size >> 6)
        ones = min(MOST_ONES, max(4, (size - head).bit_length() - 4))
        lowest = self._first_ones if (size - head) >> self._first_ones >= self._k else 4
        while ones >= lowest and self._limit < math.inf:
            high = _above(block, self._cut(ones), most)
            if high is not None:
                tall, scores = _outside(high, head, barred)
                lucky = head + self.with_ones(ones, size - head)
                self._enter(tall, scores, ones=0)
                lucky = lucky[_absent(lucky, barred) & _absent(lucky, tall)]
                self._enter_from(block, lucky, ones=ones)
                return
            ones -= 4
        self.ones_first(block, head, barred)

    def ones_first(self, block: BlockScores, head: int, barred: Ints) -> None:
        ones, size = self._first_ones, block.size
        lucky = head + self.with_ones(ones, size - head)
        self._enter_from(block, lucky[_absent(lucky, barred)], ones=ones)
        known = self._limit < math.inf
        high = _above(block, self._cut(ones), max(self._head, size >> 2)) if known else None
        if high is not None:
            tall, scores = _outside(high, head, barred)
            rest = _absent(tall, lucky)
            self._enter(tall[rest], scores[rest], ones=0, never=ones)
            return
        for low in range(head, size, 1 << 16):
            part = np.arange(low, min(size, low + (1 << 16)))
            part = part[_absent(part, barred) & _absent(part, lucky)]
            self._enter_from(block, part, ones=0, never=ones)

    def _cut(self, ones: int) -> int:
        """The highest score that loses for sure unless U begins with so many ones."""
        late = self._limit + ones * math.log(2) + ROUNDING
        if self._step == 0:
            return 2**63 if late < 0 else -(2**63) - 1
        return self._best - (math.floor(Fraction(late) / self._step) + 1)

    def with_ones(self, ones: int, size: int) -> Ints:
        """Which of `size` candidates have a U that begins with so many ones: each with 2^-ones."""
        scale = float(2**ones - 1)
        found: list[Ints] = []
        reached = -1
        while reached < size - 1:
            count = int((size - reached) / scale * 1.1) + 16
            gaps, _ = samplers.magnitudes_and_signs(self._bits, scale, min(count, samplers.BLOCK))
            steps = np.minimum(gaps, float(size)).astype(np.int64) + 1
            places = reached + np.cumsum(steps)
            reached = int(places[-1])
            places = places[places < size]
            found.append(places[self._thinned(ones, len(places))])
        return np.concatenate(found)

    def _thinned(self, ones: int, count: int) -> NDArray[np.bool_]:
        """Kept with probability 2^-ones / (1 - exp(-1 / (2^ones - 1)))."""
        words = self._bits.words(count) >> np.uint64(64 - PREFIX)
        kept = np.empty(count, np.bool_)
        low, high = keep_bounds(ones, PREFIX)
        kept[:] = words < low
        for i in np.flatnonzero((words + np.uint64(1) > low) & (words < high)):
            kept[i] = self._decide(ones, int(words[i]))
        return kept

    def _decide(self, ones: int, prefix: int) -> bool:
        uniform = LazyUniform(self._bits, prefix, PREFIX)
        return uniform.is_below(lambda precision: keep_bounds(ones, precision))

    def _enter_from(self, block: BlockScores, positions: Ints, ones: int, never: int = 0) -> None:
        if len(positions):
            self._enter(positions, block.at(positions), ones, never)

    def _enter(self, positions: Ints, scores: Ints, ones: int, never: int = 0) -> None:
        """Draw the digits after the leading ones, and keep who may win.

        With `never`, U is known not to begin with so many ones."""
        if not len(positions):
            return
        best = int(scores.max())
        if not len(self._index) or best > self._best:
            self._best = best
            self._low, self._high = self._times(self._words, self._ones, self._scores)
            self._tighten()
        words = self._bits.words(len(positions))
        if never:
            words = self.without_ones(words, never)
        prefix = np.full(len(positions), ones, np.int64)
        low, high = self._times(words, prefix, scores)
        new = low <= self._limit
        self._index = np.concatenate([self._index, self._seen + positions[new]])
        self._scores = np.concatenate([self._scores, scores[new]])
        self._ones = np.concatenate([self._ones, prefix[new]])
        self._words = np.concatenate([self._words, words[new]])
        self._low = np.concatenate([self._low, low[new]])
        self._high = np.concatenate([self._high, high[new]])
        self._tighten()

    def without_ones(self, words: Words, ones: int) -> Words:
        """Draw those words again that begin with so many ones, until none does."""
        words, shift, all_ones = words.copy(), np.uint64(64 - ones), np.uint64(2**ones - 1)
        while len(again := np.flatnonzero(words >> shift == all_ones)):
            words[again] = self._bits.words(len(again))
        return words

    def _times(self, words: Words, ones: Ints, scores: Ints) -> tuple[samplers.Floats, ...]:
        behind = np.uint64(self._best % 2**64) - scores.view(np.uint64)
        return samplers.arrivals(words, ones, behind, self._step)

    def _tighten(self) -> None:
        if len(self._index) < self._k:
            return
        self._limit = float(np.partition(self._high, self._k - 1)[self._k - 1])
        keep = self._low <= self._limit
        for name in ("_index", "_scores", "_ones", "_words", "_low", "_high"):
            setattr(self, name, getattr(self, name)[keep])


def _above(block: BlockScores, cut: int, most: int) -> tuple[Ints, Ints] | None:
    """What the block has above the cut. A candidate that it does not have, or has twice, would have
    a chance of its own, so no block is taken on its word."""
    found = block.above(cut, most)
    if found is not None and len(found[0]):
        places = found[0]
        if places[0] < 0 or places[-1] >= block.size or not np.all(places[1:] > places[:-1]):
            raise AssertionError("A block of scores offers candidates that it does not have.")
    return found


def _outside(found: tuple[Ints, Ints], head: int, barred: Ints) -> tuple[Ints, Ints]:
    """Positions from `head` on that are not barred, and their scores."""
    positions, scores = found
    keep = (positions >= head) & _absent(positions, barred)
    return positions[keep], scores[keep]


def _absent(positions: Ints, others: Ints) -> NDArray[np.bool_]:
    """Which are not among the others, which are sorted. numpy's own set operations sort again."""
    if not len(others):
        return np.ones(len(positions), np.bool_)
    at = np.minimum(np.searchsorted(others, positions), len(others) - 1)
    return others[at] != positions


def keep_bounds(ones: int, bits: int) -> tuple[int, int]:
    """Integers with low <= 2^bits 2^-ones / (1 - exp(-1 / (2^ones - 1))) <= high."""
    q = bits + 2 * ones + 16
    low, high = exp_bounds(Fraction(1, 2**ones - 1), q)
    top = 1 << (q - ones + bits)
    return top // ((1 << q) - low), -(-top // ((1 << q) - high))
