"""log Z and the marginals of every potential, without forming the tree's clique tables.

For potentials theta_c on cliques c,

    Z = sum over x of exp(sum over c of theta_c(x_c)),    mu_c = d log Z / d theta_c.

The steps of a `Plan` are run forwards for log Z and backwards for the marginals. Three arithmetics
can run them, each slower and safer than the one before; the first that is sure of its answer gives
it, so that answers are finite and right for potentials of any size.

* Linear: tensors of positive numbers, rescaled as a whole. Declines when a part of the sum may have
  been lost to underflow.
* Scaled: tensors of logarithms; each product is taken of numbers scaled row by row. Declines when
  a product vanishes that should not.
* Logarithmic: every product term by term in logarithms.

None of them subtracts probabilities, so a potential of -inf gives a probability of exactly 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from admeasure.families.graphical.inference import bucket
from admeasure.families.graphical.inference.elimination import Absorb, Bucket, Plan, Step
from admeasure.families.graphical.inference.tables import CliqueLayout
from admeasure.families.graphical.structure.junction_tree import Clique, JunctionTree

Result = tuple[float, np.ndarray]

_SMALL, _LARGE = 1e-30, 1e30
_LOG_LOSS = 560.0
"""Numbers below 1e-308 vanish. What lies within exp(560) of the largest term, with room for 1e30
of growth at a step and a relative accuracy of 1e-12, has not."""
_NARROW = 300.0
"""Two tables that each span less than this can be multiplied after one shift: exp(-600) > 0."""
_EVEN = 1e-3, 1e3
"""Factors of a bucket whose largest cells lie between these are multiplied as they are."""
_VANISHING = 1e-290
_PATIENCE = 5
"""How often the linear arithmetic may decline before it is no longer tried."""
_LOG_BLOCK = 1 << 21


class Contraction:
    """Potentials on `cliques` (sorted, distinct) inside the nodes of `tree`.

    Potentials and marginals are flat arrays: the cliques' tables in C order, one after another.
    """

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        levels = tree.levels
        self.cliques = tuple(cliques)
        self._plan = Plan(tree, self.cliques)
        self.layout = CliqueLayout(levels, self.cliques)
        held = {a for clique in self.cliques for a in clique}
        self._free = math.fsum(math.log(n) for a, n in enumerate(levels) if a not in held)
        room = min(200.0, math.fsum(math.log(n) for n in levels))
        self._loss = -(_LOG_LOSS - room)
        self._declined = 0

    def run(self, theta: np.ndarray) -> Result:
        """log Z and the flat marginals, as probabilities.

        Where every configuration is impossible, log Z is -inf and the marginals are 0.
        """
        if not self.cliques:
            return self._free, np.zeros(0)
        # Potentials that are too wide for the linear arithmetic rarely become narrow again.
        if self._declined < _PATIENCE:
            found = self.run_linear(theta)
            if found is not None:
                return found
            self._declined += 1
        return self.run_scaled(theta) or self.run_logarithmic(theta)

    @np.errstate(over="ignore", invalid="ignore")
    def run_linear(self, theta: np.ndarray) -> Result | None:
        """The same, or None where underflow may have taken part of the sum."""
        tops = np.maximum.reduceat(theta, self.layout.bounds[:-1])
        if not np.isfinite(tops).all():
            return None
        psi = np.exp(theta - self.layout.each(tops))
        log_z = float(tops.sum()) + self._free
        steps, scalars = self._plan.steps, self._plan.scalars
        tensors: list = self.layout.views(psi) + [None] * len(steps)
        operands, scales, lifts = [], [], []
        for step in steps:
            if isinstance(step, Bucket):
                kept, lifted = _evened(step.views(tensors))
                r = bucket.summed([factor for factor, _ in kept], step.out_shape)
            elif isinstance(step, Absorb):
                kept, lifted = step.view(tensors), 0.0
                r = np.multiply(tensors[step.right], kept, order="C")
            else:
                kept, lifted = _matrices(step, tensors), 0.0
                a, b = kept
                r = a[0] @ step.ones if b is None else _times(a, b.transpose(0, 2, 1))
            top = float(r.max())
            scale = 1.0
            if not _SMALL < top < _LARGE:
                if not _VANISHING < top < math.inf:
                    return None
                scale = 1.0 / top
                r *= scale
                lifted -= math.log(top)
            log_z -= lifted
            operands.append(kept)
            scales.append(scale)
            lifts.append(lifted)
            tensors[step.out] = r.reshape(step.out_shape)
        adjoint: list = [None] * len(tensors)
        depth = [0.0] * len(tensors)
        for t in scalars:
            z = float(tensors[t])
            if not z > 0.0:
                return None
            log_z += math.log(z)
            depth[t] = math.log(z)
            adjoint[t] = np.full((), 1.0 / z)
        for step, scale, lifted, kept in zip(
            reversed(steps), reversed(scales), reversed(lifts), reversed(operands), strict=True
        ):
            below = depth[step.out] - lifted
            if below < self._loss:
                return None
            down = adjoint[step.out]
            if scale != 1.0:
                down = down * scale
            if isinstance(step, Bucket):
                for t in step.factors:
                    depth[t] = below
                found = bucket.adjoints([factor for factor, _ in kept], step.out_shape, down)
                found = [cells / top for cells, (_, top) in zip(found, kept, strict=True)]
                for t, cells in step.tensors(found):
                    adjoint[t] = cells
                continue
            if isinstance(step, Absorb):
                depth[step.left] = depth[step.right] = below
                down = np.ascontiguousarray(down)
                adjoint[step.right] = down * kept
                adjoint[step.left] = step.tensor(down * tensors[step.right])
                continue
            depth[step.left] = below
            a, b = kept
            if b is None:
                spread = np.broadcast_to(down.reshape(-1, 1), a.shape[1:])
                _put_back(step, adjoint, spread, None)
                continue
            depth[step.right] = below
            down = down.reshape(a.shape[0], a.shape[1], b.shape[1])
            _put_back(step, adjoint, _times(down, b), _times(down.transpose(0, 2, 1), a))
        mu = np.empty(self.layout.cells)
        for t, view in enumerate(self.layout.views(mu)):
            np.multiply(tensors[t], adjoint[t], out=view)
        return (log_z, mu) if math.isfinite(log_z + float(mu.sum())) else None

    @np.errstate(over="ignore", invalid="ignore")
    def run_scaled(self, theta: np.ndarray) -> Result | None:
        """The same with logarithms between products, or None where a product vanished."""
        steps, scalars = self._plan.steps, self._plan.scalars
        tensors: list = self.layout.views(theta) + [None] * len(steps)
        kept = []
        for step in steps:
            if isinstance(step, Bucket):
                views = step.views(tensors)
                tensors[step.out] = bucket.log_summed(views, step.out_shape)
                kept.append(views)
                continue
            if isinstance(step, Absorb):
                tensors[step.out] = step.view(tensors) + tensors[step.right]
                kept.append(None)
                continue
            a, b = _matrices(step, tensors)
            ea, shift = _scaled(a)
            if b is None:
                r = (ea[0] @ step.ones)[None, :, None]
                eb, out = None, _log(r) + shift
            elif step.summed == 1:
                eb, r, out = None, None, a + b.transpose(0, 2, 1)
            else:
                eb, other = _scaled(b)
                r = _times(ea, eb.transpose(0, 2, 1))
                if r.min() < _VANISHING and _lost(a, b, r):
                    return None
                out = _log(r) + shift
                out += other.transpose(0, 2, 1)
            kept.append((ea, eb, r))
            tensors[step.out] = out.reshape(step.out_shape)
        log_z = self._free + math.fsum(float(tensors[t]) for t in scalars)
        if not math.isfinite(log_z):
            return None
        share: list = [None] * len(tensors)  # probabilities of every tensor's cells
        for t in scalars:
            share[t] = np.ones(())
        for step, operands in zip(reversed(steps), reversed(kept), strict=True):
            if isinstance(step, Bucket):
                found = bucket.log_shares(operands, tensors[step.out], share[step.out])
                for t, cells in step.tensors(found):
                    share[t] = cells
                continue
            if isinstance(step, Absorb):
                share[step.right] = share[step.out]
                share[step.left] = step.tensor(share[step.out])
                continue
            ea, eb, r = operands
            nb, ni, _ = step.left_matrix
            nj = step.right_matrix[1]
            p = share[step.out].reshape(nb, ni, nj)
            if r is None:
                _put_back(step, share, p.sum(axis=2), p.sum(axis=1))
                continue
            w = np.divide(p, r, out=np.zeros_like(r), where=r > 0)
            if eb is None:
                _put_back(step, share, ea * w, None)
                continue
            right = eb * _times(w.transpose(0, 2, 1), ea)
            _put_back(step, share, ea * _times(w, eb), right)
        mu = np.empty(self.layout.cells)
        for t, view in enumerate(self.layout.views(mu)):
            view[...] = share[t]
        return (log_z, mu) if np.isfinite(mu).all() else None

    def run_logarithmic(self, theta: np.ndarray) -> Result:
        """The same in logarithms throughout."""
        steps, scalars = self._plan.steps, self._plan.scalars
        tensors: list = self.layout.views(theta) + [None] * len(steps)
        for step in steps:
            if isinstance(step, Bucket):
                tensors[step.out] = bucket.log_summed(step.views(tensors), step.out_shape)
                continue
            if isinstance(step, Absorb):
                tensors[step.out] = step.view(tensors) + tensors[step.right]
                continue
            a, b = _matrices(step, tensors)
            r = _log_sum(a, 2) if b is None else _log_times(a, b.transpose(0, 2, 1))
            tensors[step.out] = r.reshape(step.out_shape)
        log_z = self._free + math.fsum(float(tensors[t]) for t in scalars)
        if not math.isfinite(log_z):
            return log_z, np.zeros(self.layout.cells)
        adjoint: list = [None] * len(tensors)
        for t in scalars:
            adjoint[t] = -np.asarray(tensors[t])
        for step in reversed(steps):
            if not isinstance(step, Step):
                shared = np.exp(tensors[step.out] + adjoint[step.out])
                if isinstance(step, Absorb):
                    found = [(step.left, step.tensor(shared)), (step.right, shared)]
                else:
                    views = step.views(tensors)
                    found = step.tensors(bucket.log_shares(views, tensors[step.out], shared))
                for t, cells in found:
                    adjoint[t] = _log(cells) - np.where(cells > 0, tensors[t], 0.0)
                continue
            a, b = _matrices(step, tensors)
            if b is None:
                spread = np.broadcast_to(adjoint[step.out].reshape(-1, 1), a.shape[1:])
                _put_back(step, adjoint, spread, None)
                continue
            down = adjoint[step.out].reshape(a.shape[0], a.shape[1], b.shape[1])
            left, right = _log_times(down, b), _log_times(down.transpose(0, 2, 1), a)
            _put_back(step, adjoint, left, right)
        mu = np.empty(self.layout.cells)
        for t, view in enumerate(self.layout.views(mu)):
            np.exp(tensors[t] + adjoint[t], out=view)
        return log_z, mu


def _matrices(step: Step, tensors: list) -> tuple[np.ndarray, np.ndarray | None]:
    """A as (b, i, k) and B as (b, j, k); B is None where the step only sums."""
    a = np.ascontiguousarray(tensors[step.left].transpose(step.left_perm))
    a = a.reshape(step.left_matrix)
    if step.right < 0:
        return a, None
    b = np.ascontiguousarray(tensors[step.right].transpose(step.right_perm))
    return a, b.reshape(step.right_matrix)


def _evened(factors: list[np.ndarray]) -> tuple[list[tuple[np.ndarray, float]], float]:
    """Factors whose products cannot underflow sooner than they do, each with what it was divided
    by, and the log of what all of them were multiplied by together."""
    evened, lifted = [], 0.0
    for factor in factors:
        top = float(factor.max())
        if not _EVEN[0] < top < _EVEN[1] and _VANISHING < top < math.inf:
            evened.append((factor / top, top))
            lifted -= math.log(top)
        else:
            evened.append((factor, 1.0))
    return evened, lifted


def _put_back(step: Step, into: list, left: np.ndarray, right: np.ndarray | None) -> None:
    """Matrices of a step's inputs as tensors again, axes in the tensors' own order."""
    into[step.left] = left.reshape(step.left_shape).transpose(step.left_back)
    if right is not None:
        into[step.right] = right.reshape(step.right_shape).transpose(step.right_back)


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
        shift = np.full((1, 1, 1), top)
    else:
        shift = logs.max(axis=2, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0.0)
    return np.exp(logs - shift), shift


def _lost(a: np.ndarray, b: np.ndarray, r: np.ndarray) -> bool:
    """Whether a product vanished although some of its terms are possible."""
    possible = _times(np.isfinite(a) * 1.0, (np.isfinite(b) * 1.0).transpose(0, 2, 1))
    return bool(((r < _VANISHING) & (possible > 0)).any())


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
    if rows >= ni:
        step = max(1, rows // ni)
        for s in range(0, nb, step):
            block = x[s : s + step, :, None, :] + y[s : s + step, None, :, :]
            out[s : s + step] = _log_sum(block, 3)
        return out
    for s in range(nb):
        for r in range(0, ni, rows):
            out[s, r : r + rows] = _log_sum(x[s, r : r + rows, None, :] + y[s, None, :, :], 2)
    return out
