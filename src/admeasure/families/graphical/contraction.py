"""log Z and the marginals of every potential, by bucket elimination with matrix products.

For potentials theta_c on cliques c,

    Z = sum over x of exp(sum over c of theta_c(x_c)),    mu_c = d log Z / d theta_c.

A `Contraction` plans, once for a structure, a sequence of binary steps
R[b, i, j] = sum over k of A[b, i, k] B[b, j, k] that ends in scalars, and runs it forwards for
log Z and backwards for the marginals. Clique tables of the junction tree are never formed.

Two arithmetics run the same plan. The linear one multiplies and adds positive numbers, rescaled on
the way. It reports when a part of the sum may have been lost to underflow; then the logarithmic
one, slower and safe for potentials of any size, is used instead. Neither subtracts, so a potential
of -inf gives a probability of exactly 0.0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from admeasure.families.graphical.tree import Clique, Tree, cells_of, maximal

_SMALL, _LARGE = 1e-30, 1e30
_LOG_LOSS = 560.0
"""Numbers below 1e-308 vanish. What lies within exp(560) of the largest term, with room for 1e30
of growth at a step and a relative accuracy of 1e-12, has not."""
_LOG_BLOCK = 1 << 21
_MAX_SPLIT = 9


@dataclass(slots=True)
class _Step:
    """R = A ×_k B, or the sum of A over k where `right` is negative."""

    left: int
    right: int
    out: int
    left_perm: tuple[int, ...]
    right_perm: tuple[int, ...]
    left_matrix: tuple[int, int, int]
    right_matrix: tuple[int, int, int]
    out_shape: tuple[int, ...]
    left_shape: tuple[int, ...] = ()  # after the permutation
    right_shape: tuple[int, ...] = ()
    left_back: tuple[int, ...] = ()
    right_back: tuple[int, ...] = ()
    summed: int = 1
    ones: np.ndarray = field(default_factory=lambda: np.ones(1))


class Contraction:
    """The plan for potentials on `cliques` (sorted, distinct) inside the nodes of `tree`.

    Potentials and marginals are flat arrays: the cliques' tables in C order, one after another.
    """

    def __init__(self, tree: Tree, cliques: Sequence[Clique]) -> None:
        levels = tree.levels
        self.levels = levels
        self.cliques = tuple(cliques)
        self.shapes = [tuple(levels[a] for a in clique) for clique in self.cliques]
        sizes = [math.prod(shape) for shape in self.shapes]
        self.bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        self._sizes = np.asarray(sizes, dtype=np.int64)
        self.cells = int(self.bounds[-1])
        held = {a for clique in self.cliques for a in clique}
        self._free = math.fsum(math.log(n) for a, n in enumerate(levels) if a not in held)
        room = min(200.0, math.fsum(math.log(n) for n in levels))
        self._loss = -(_LOG_LOSS - room)
        self._steps: list[_Step] = []
        self._axes: list[Clique] = list(self.cliques)
        self._scalars = self._plan(tree)

    # Planning

    def _plan(self, tree: Tree) -> list[int]:
        live = set(range(len(self.cliques)))
        holders: dict[int, set[int]] = {a: set() for clique in self.cliques for a in clique}
        for t in live:
            for a in self._axes[t]:
                holders[a].add(t)
        nodes = [set(node) & set(holders) for node in tree.nodes]

        def settle(nodes: list[set[int]]) -> None:
            """Sum out at once every attribute that only one tensor still holds."""
            lonely: dict[int, list[int]] = {}
            for a, held_by in holders.items():
                if len(held_by) == 1:
                    lonely.setdefault(next(iter(held_by)), []).append(a)
            for t, attributes in sorted(lonely.items()):
                self._replace(live, holders, (t,), self._sum(t, attributes))
            for a in [a for a, held_by in holders.items() if not held_by]:
                del holders[a]
                for node in nodes:
                    node.discard(a)

        settle(nodes)
        while holders:
            nodes = [set(node) for node in maximal(nodes)]
            counts: dict[int, list[int]] = {}
            for k, node in enumerate(nodes):
                for a in node:
                    counts.setdefault(a, []).append(k)
            # An attribute that is in one node only can go without making anything larger.
            options = sorted(a for a, where in counts.items() if len(where) == 1)
            best = min(options, key=lambda a: (self._split(sorted(holders[a]))[0], a))
            _, first, second = self._split(sorted(holders[best]))
            left = self._product(live, holders, first)
            right = self._product(live, holders, second)
            self._join(live, holders, left, right)
            settle(nodes)
        return sorted(live)

    def _split(self, bucket: list[int]) -> tuple[float, list[int], list[int]]:
        """The cheapest way to part a bucket into two groups that are multiplied, then joined."""
        if len(bucket) > _MAX_SPLIT:
            bucket = sorted(bucket, key=lambda t: cells_of(self.levels, self._axes[t]))
            half = [bucket[0]], bucket[1:]
            return math.inf, *half
        best: tuple[float, list[int], list[int]] | None = None
        everything = {a for t in bucket for a in self._axes[t]}
        joint = cells_of(self.levels, everything)
        for size in range(1, len(bucket) // 2 + 1):
            for first in itertools.combinations(bucket, size):
                second = [t for t in bucket if t not in first]
                cost = joint / 8 + self._product_cost(first) + self._product_cost(second)
                if best is None or cost < best[0]:
                    best = cost, list(first), second
        assert best is not None
        return best

    def _product_cost(self, group: Sequence[int]) -> float:
        union = {a for t in group for a in self._axes[t]}
        return cells_of(self.levels, union) * (len(group) if len(group) > 1 else 0.25)

    def _product(self, live, holders, group: list[int]) -> int:
        group = sorted(group, key=lambda t: cells_of(self.levels, self._axes[t]))
        while len(group) > 1:
            group = [self._join(live, holders, group[0], group[1]), *group[2:]]
        return group[0]

    def _join(self, live, holders, left: int, right: int) -> int:
        done = {a for a in self._axes[left] if holders[a] <= {left, right}}
        out = self._binary(left, right, done)
        self._replace(live, holders, (left, right), out)
        return out

    def _replace(self, live, holders, old: tuple[int, ...], new: int) -> None:
        live.difference_update(old)
        live.add(new)
        for t in old:
            for a in self._axes[t]:
                holders[a].discard(t)
        for a in self._axes[new]:
            holders[a].add(new)

    def _shape(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.levels[a] for a in axes)

    def _sum(self, t: int, attributes: list[int]) -> int:
        axes = self._axes[t]
        kept = [a for a in axes if a not in attributes]
        order = [*kept, *attributes]
        perm = tuple(axes.index(a) for a in order)
        rows, k = cells_of(self.levels, kept), cells_of(self.levels, attributes)
        self._axes.append(tuple(kept))
        out = len(self._axes) - 1
        self._steps.append(
            _Step(
                t,
                -1,
                out,
                perm,
                (),
                (1, rows, k),
                (1, 1, 1),
                self._shape(kept),
                left_shape=self._shape(order),
                left_back=tuple(np.argsort(perm).tolist()),
                summed=k,
                ones=np.ones(k),
            )
        )
        return out

    def _binary(self, left: int, right: int, done: set[int]) -> int:
        a_axes, b_axes = self._axes[left], self._axes[right]
        shared = [a for a in a_axes if a in b_axes and a not in done]
        k = [a for a in a_axes if a in b_axes and a in done]
        i = [a for a in a_axes if a not in b_axes]
        j = [a for a in b_axes if a not in a_axes]
        out_axes = (*shared, *i, *j)
        a_order, b_order = [*shared, *i, *k], [*shared, *j, *k]
        a_perm = tuple(a_axes.index(a) for a in a_order)
        b_perm = tuple(b_axes.index(a) for a in b_order)
        nb, ni, nj, nk = (cells_of(self.levels, group) for group in (shared, i, j, k))
        self._axes.append(out_axes)
        out = len(self._axes) - 1
        self._steps.append(
            _Step(
                left,
                right,
                out,
                a_perm,
                b_perm,
                (nb, ni, nk),
                (nb, nj, nk),
                self._shape(out_axes),
                left_shape=self._shape(a_order),
                right_shape=self._shape(b_order),
                left_back=tuple(np.argsort(a_perm).tolist()),
                right_back=tuple(np.argsort(b_perm).tolist()),
                summed=nk,
            )
        )
        return out

    # Running

    def views(self, flat: np.ndarray) -> list[np.ndarray]:
        """The tables inside a flat array, in the order of the cliques."""
        cuts = self.bounds.tolist()
        return [flat[cuts[t] : cuts[t + 1]].reshape(shape) for t, shape in enumerate(self.shapes)]

    def run(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the flat marginals, as probabilities.

        Where every configuration is impossible, log Z is -inf and the marginals are 0.
        """
        if not self.cliques:
            return self._free, np.zeros(0)
        return self.run_linear(theta) or self.run_logarithmic(theta)

    def run_linear(self, theta: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The same, or None where underflow may have taken part of the sum."""
        tops = np.maximum.reduceat(theta, self.bounds[:-1])
        if not np.isfinite(tops).all():
            return None
        psi = np.exp(theta - np.repeat(tops, self._sizes))
        log_z = float(tops.sum()) + self._free
        tensors: list = self.views(psi) + [None] * len(self._steps)
        scales: list[float] = []
        for step in self._steps:
            r = _forward(step, tensors)
            top = float(r.max())
            scale = 1.0
            if not _SMALL < top < _LARGE:
                if not 0.0 < top < math.inf:
                    return None
                scale = 1.0 / top
                r *= scale
                log_z += math.log(top)
            scales.append(scale)
            tensors[step.out] = r.reshape(step.out_shape)
        adjoint: list = [None] * len(tensors)
        depth = [0.0] * len(tensors)
        for t in self._scalars:
            z = float(tensors[t])
            if not z > 0.0:
                return None
            log_z += math.log(z)
            depth[t] = math.log(z)
            adjoint[t] = np.full((), 1.0 / z)
        for step, scale in zip(reversed(self._steps), reversed(scales), strict=True):
            below = depth[step.out] - math.log(scale)
            if below < self._loss:
                return None
            depth[step.left] = below
            if step.right >= 0:
                depth[step.right] = below
            _backward(step, tensors, adjoint, scale)
        mu = np.empty(self.cells)
        for t, view in enumerate(self.views(mu)):
            np.multiply(tensors[t], adjoint[t], out=view)
        return (log_z, mu) if math.isfinite(log_z) else None

    def run_logarithmic(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The same in logarithms throughout."""
        tensors: list = self.views(theta) + [None] * len(self._steps)
        for step in self._steps:
            tensors[step.out] = _log_forward(step, tensors).reshape(step.out_shape)
        log_z = self._free + math.fsum(float(tensors[t]) for t in self._scalars)
        if not math.isfinite(log_z):
            return log_z, np.zeros(self.cells)
        adjoint: list = [None] * len(tensors)
        for t in self._scalars:
            adjoint[t] = -np.asarray(tensors[t])
        for step in reversed(self._steps):
            _log_backward(step, tensors, adjoint)
        mu = np.empty(self.cells)
        for t, view in enumerate(self.views(mu)):
            np.exp(tensors[t] + adjoint[t], out=view)
        return log_z, mu


def _matrix(table: np.ndarray, perm: tuple[int, ...], shape: tuple[int, int, int]) -> np.ndarray:
    return np.ascontiguousarray(table.transpose(perm)).reshape(shape)


def _times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Batched (i, k) × (k, j)."""
    if x.shape[2] == 1:
        return x * y
    if x.shape[0] == 1:
        return (x[0] @ y[0])[None]
    return x @ np.ascontiguousarray(y)


def _forward(step: _Step, tensors: list) -> np.ndarray:
    a = _matrix(tensors[step.left], step.left_perm, step.left_matrix)
    if step.right < 0:
        return a[0] @ step.ones
    b = _matrix(tensors[step.right], step.right_perm, step.right_matrix)
    return _times(a, b.transpose(0, 2, 1))


def _backward(step: _Step, tensors: list, adjoint: list, scale: float) -> None:
    down = adjoint[step.out]
    if scale != 1.0:
        down = down * scale
    if step.right < 0:
        spread = np.broadcast_to(down.reshape(-1, 1), step.left_matrix[1:])
        adjoint[step.left] = spread.reshape(step.left_shape).transpose(step.left_back)
        return
    nb, ni, _ = step.left_matrix
    nj = step.right_matrix[1]
    down = down.reshape(nb, ni, nj)
    a = _matrix(tensors[step.left], step.left_perm, step.left_matrix)
    b = _matrix(tensors[step.right], step.right_perm, step.right_matrix)
    da, db = _times(down, b), _times(down.transpose(0, 2, 1), a)
    adjoint[step.left] = da.reshape(step.left_shape).transpose(step.left_back)
    adjoint[step.right] = db.reshape(step.right_shape).transpose(step.right_back)


def _log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(axis=axis)) + np.squeeze(top, axis=axis)


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


def _log_forward(step: _Step, tensors: list) -> np.ndarray:
    a = _matrix(tensors[step.left], step.left_perm, step.left_matrix)
    if step.right < 0:
        return _log_sum(a[0], 1)
    b = _matrix(tensors[step.right], step.right_perm, step.right_matrix)
    return _log_times(a, b.transpose(0, 2, 1))


def _log_backward(step: _Step, tensors: list, adjoint: list) -> None:
    down = adjoint[step.out]
    if step.right < 0:
        spread = np.broadcast_to(down.reshape(-1, 1), step.left_matrix[1:])
        adjoint[step.left] = spread.reshape(step.left_shape).transpose(step.left_back)
        return
    nb, ni, _ = step.left_matrix
    nj = step.right_matrix[1]
    down = down.reshape(nb, ni, nj)
    a = _matrix(tensors[step.left], step.left_perm, step.left_matrix)
    b = _matrix(tensors[step.right], step.right_perm, step.right_matrix)
    da, db = _log_times(down, b), _log_times(down.transpose(0, 2, 1), a)
    adjoint[step.left] = da.reshape(step.left_shape).transpose(step.left_back)
    adjoint[step.right] = db.reshape(step.right_shape).transpose(step.right_back)
