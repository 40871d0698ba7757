"""The two arithmetics of a contraction: positive numbers, and logarithms.

* `Linear`: tensors of positive numbers, rescaled as a whole. Raises `Underflow` when a part of the
  sum may have been lost. Backwards go derivatives of log Z.
* `Logarithmic`: tensors of logarithms; each product is taken of numbers scaled row by row, or term
  by term where one vanishes that should not. Backwards go probabilities. Slower, and right for
  potentials of any size.

Neither subtracts probabilities, so a potential of -inf gives a probability of exactly 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from admeasure.families.graphical.inference import bucket
from admeasure.families.graphical.inference.steps import Back, Made, Step
from admeasure.families.graphical.inference.tables import CliqueLayout, summed_onto

_SMALL, _LARGE = 1e-30, 1e30
_LOG_LOSS = 560.0
"""Numbers below 1e-308 vanish. What lies within exp(560) of the largest term, with room for 1e30
of growth at a step and a relative accuracy of 1e-12, has not."""
_NARROW = 300.0
"""Two tables that each span less than this can be multiplied after one shift: exp(-600) > 0."""
_EVEN = 1e-3, 1e3
"""Factors of a bucket whose largest cells lie between these are multiplied as they are."""
_VANISHING = 1e-290
_LOG_BLOCK = 1 << 21


class Underflow(ArithmeticError):
    """A part of the sum may have been lost."""


class Linear:
    """Positive numbers, of a table with so many levels."""

    def __init__(self, levels: Sequence[int]) -> None:
        self._most = _LOG_LOSS - min(200.0, math.fsum(math.log(n) for n in levels))
        self._log_z = 0.0  # of what was divided out so far
        self._lift = 0.0  # the logarithm of what this step's product was multiplied by
        self._lifted: dict[int, float] = {}

    def enter(self, theta: np.ndarray, layout: CliqueLayout, free: float) -> np.ndarray:
        tops = np.maximum.reduceat(theta, layout.bounds[:-1])
        if not np.isfinite(tops).all():
            raise Underflow
        self._log_z = float(tops.sum()) + free
        self._lifted.clear()
        return np.exp(theta - layout.each(tops))

    def forward(self, step: Step, tensors: Sequence[np.ndarray]) -> Made:
        self._lift = 0.0
        made, back = step.forward(self, tensors)
        top = float(made.max())
        if not _SMALL < top < _LARGE:
            if not _VANISHING < top < math.inf:
                raise Underflow
            made *= 1.0 / top
            self._lift -= math.log(top)
            back = _after_scaling(back, 1.0 / top)
        self._log_z -= self._lift
        # The most that numbers were raised by on the way from any product to here.
        before = (self._lifted.get(operand.tensor, 0.0) for operand in step.operands)
        self._lifted[step.out] = self._lift + max(0.0, *before)
        return made.reshape(step.shape), back

    def turn(self, scalars: Sequence[int], tensors: list[np.ndarray]) -> tuple[float, list]:
        first: list = [None] * len(tensors)
        for t in scalars:
            z = float(tensors[t])
            if not z > 0.0 or math.log(z) - self._lifted.get(t, 0.0) < -self._most:
                raise Underflow
            self._log_z += math.log(z)
            first[t] = np.full((), 1.0 / z)
        return self._log_z, first

    def leave(self, layout: CliqueLayout, tensors: list, derivatives: list) -> np.ndarray:
        mu = np.empty(layout.cells)
        for view, psi, slope in zip(layout.views(mu), tensors, derivatives, strict=False):
            np.multiply(psi, slope, out=view)
        if not math.isfinite(self._log_z + float(mu.sum())):
            raise Underflow
        return mu

    def sum(self, a: np.ndarray, /) -> Made:
        return a @ _ones(a.shape[1]), lambda down: [np.broadcast_to(down.reshape(-1, 1), a.shape)]

    def product(self, a: np.ndarray, b: np.ndarray, /) -> Made:
        def back(down: np.ndarray) -> list[np.ndarray]:
            down = down.reshape(a.shape[0], a.shape[1], b.shape[1])
            return [_times(down, b), _times(down.transpose(0, 2, 1), a)]

        return _times(a, b.transpose(0, 2, 1)), back

    def absorb(self, part: np.ndarray, whole: np.ndarray, /) -> Made:
        def back(down: np.ndarray) -> list[np.ndarray]:
            down = np.ascontiguousarray(down)
            return [summed_onto(down * whole, part.shape), down * part]

        return whole * part, back

    def bucket(self, /, *factors: np.ndarray) -> Made:
        # Factors whose products cannot underflow sooner than they do.
        tops = [float(factor.max()) for factor in factors]
        tops = [
            top if not _EVEN[0] < top < _EVEN[1] and _VANISHING < top < math.inf else 1.0
            for top in tops
        ]
        evened = [f if top == 1.0 else f / top for f, top in zip(factors, tops, strict=True)]
        for top in tops:
            self._lift -= math.log(top)
        shape = _behind_first(factors)

        def back(down: np.ndarray) -> list[np.ndarray]:
            found = bucket.adjoints(evened, shape, down)
            return [cells / top for cells, top in zip(found, tops, strict=True)]

        return bucket.summed(evened, shape), back


def _after_scaling(back: Back, scale: float) -> Back:
    return lambda down: back(down * scale)


class Logarithmic:
    """Logarithms. A product below `vanishing` is made term by term if it should not be 0."""

    def __init__(self, vanishing: float = _VANISHING) -> None:
        self._vanishing = vanishing
        self._free = 0.0

    def enter(self, theta: np.ndarray, layout: CliqueLayout, free: float) -> np.ndarray:
        del layout
        self._free = free
        return theta

    def forward(self, step: Step, tensors: Sequence[np.ndarray]) -> Made:
        made, back = step.forward(self, tensors)
        return made.reshape(step.shape), back

    def turn(self, scalars: Sequence[int], tensors: list[np.ndarray]) -> tuple[float, list]:
        first: list = [None] * len(tensors)
        for t in scalars:
            first[t] = np.ones(())
        return self._free + math.fsum(float(tensors[t]) for t in scalars), first

    def leave(self, layout: CliqueLayout, tensors: list, shares: list) -> np.ndarray:
        del tensors
        mu = np.empty(layout.cells)
        for view, share in zip(layout.views(mu), shares, strict=False):
            view[...] = share
        return mu

    def sum(self, a: np.ndarray, /) -> Made:
        scaled, shift = _scaled(a)
        r = (scaled @ _ones(a.shape[1]))[:, None]
        return _log(r) + shift, lambda share: [scaled * _ratio(share.reshape(r.shape), r)]

    def product(self, a: np.ndarray, b: np.ndarray, /) -> Made:
        if a.shape[2] == 1:
            return self._outer(a, b)
        (ea, shift), (eb, other) = _scaled(a), _scaled(b)
        r = _times(ea, eb.transpose(0, 2, 1))
        if r.min() < self._vanishing and _lost(a, b, r, self._vanishing):
            return self._term_by_term(a, b)

        def back(share: np.ndarray) -> list[np.ndarray]:
            w = _ratio(share.reshape(r.shape), r)
            return [ea * _times(w, eb), eb * _times(w.transpose(0, 2, 1), ea)]

        made = _log(r) + shift
        made += other.transpose(0, 2, 1)
        return made, back

    def _outer(self, a: np.ndarray, b: np.ndarray) -> Made:
        """Nothing is summed."""
        made = a + b.transpose(0, 2, 1)

        def back(share: np.ndarray) -> list[np.ndarray]:
            share = share.reshape(made.shape)
            return [share.sum(axis=2), share.sum(axis=1)]

        return made, back

    def _term_by_term(self, a: np.ndarray, b: np.ndarray) -> Made:
        made = _log_times(a, b.transpose(0, 2, 1))

        def back(share: np.ndarray) -> list[np.ndarray]:
            share = share.reshape(made.shape)
            down = _log(share) - np.where(share > 0, made, 0.0)
            left = np.exp(a + _log_times(down, b))
            return [left, np.exp(b + _log_times(down.transpose(0, 2, 1), a))]

        return made, back

    def absorb(self, part: np.ndarray, whole: np.ndarray, /) -> Made:
        return part + whole, lambda share: [summed_onto(share, part.shape), share]

    def bucket(self, /, *factors: np.ndarray) -> Made:
        made = bucket.log_summed(factors, _behind_first(factors))
        return made, lambda share: bucket.log_shares(factors, made, share)


@lru_cache(maxsize=256)
def _ones(length: int) -> np.ndarray:
    return np.ones(length)


def _behind_first(factors: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The shape of all factors together, without their first axis."""
    return tuple(max(lengths) for lengths in zip(*(f.shape[1:] for f in factors), strict=True))


def _times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Batched (i, k) × (k, j)."""
    if x.shape[2] == 1:
        return x * y
    if x.shape[0] == 1:
        return (x[0] @ y[0])[None]
    return x @ np.ascontiguousarray(y)


def _scaled(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(logs - shift) and the shift: one for all, or one a row where the table is wide."""
    top = logs.max()
    if logs.min() > top - _NARROW:
        shift = np.full((1,) * logs.ndim, top)
    else:
        shift = logs.max(axis=-1, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0.0)
    return np.exp(logs - shift), shift


def _ratio(share: np.ndarray, r: np.ndarray) -> np.ndarray:
    return np.divide(share, r, out=np.zeros_like(r), where=r > 0)


def _lost(a: np.ndarray, b: np.ndarray, r: np.ndarray, vanishing: float) -> bool:
    """Whether a product vanished although some of its terms are possible."""
    possible = _times(np.isfinite(a) * 1.0, (np.isfinite(b) * 1.0).transpose(0, 2, 1))
    return bool(((r < vanishing) & (possible > 0)).any())


def _log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return _log(np.exp(x - top).sum(axis=axis)) + np.squeeze(top, axis=axis)


def _log_times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Batched (i, k) × (k, j) of logarithms, in blocks of bounded memory."""
    nb, ni, nk = x.shape
    nj = y.shape[2]
    y = np.ascontiguousarray(y.transpose(0, 2, 1))
    out = np.empty((nb, ni, nj))
    rows = max(1, _LOG_BLOCK // max(1, nj * nk))
    deep = max(1, rows // ni)
    for s in range(0, nb, deep):
        for r in range(0, ni, rows):
            block = x[s : s + deep, r : r + rows, None, :] + y[s : s + deep, None, :, :]
            out[s : s + deep, r : r + rows] = _log_sum(block, 3)
    return out
