"""Three tables of which each lacks what the other two share.

    R(z, x, g, y) = sum over k of A(z, x, k, y) B(z, x, g, k) C(z, g, k, y)

has no cheap order of products: any two tables together are as large as all three. For one x the
product of A and C stays in a core's cache, and that with B is summed in the same breath, as a
vector times a matrix for each (z, g). Every derivative is a sum of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Triangle:
    """Which factors of a bucket (`bucket.py`) are A, B and C, and which axes behind k are z, x, g
    and y."""

    order: tuple[int, int, int]
    axes: dict[str, list[int]]
    lengths: tuple[int, ...]
    cells: int
    """How many cells of a product are held at a time."""

    @classmethod
    def of(
        cls, factors: Sequence[np.ndarray], shape: tuple[int, ...], cells: int
    ) -> Triangle | None:
        """None where the factors do not overlap in this way."""
        if len(factors) != 3:
            return None
        shared: list[list[int]] = [[], [], []]  # by all but one factor
        by_all = []
        for axis in range(len(shape)):
            lacking = [f for f, factor in enumerate(factors) if factor.shape[axis + 1] == 1]
            if len(lacking) == 1:
                shared[lacking[0]].append(axis)
            elif shape[axis] == 1 or not lacking:
                by_all.append(axis)
            else:
                return None
        if not all(shared):
            return None
        # Rows of cells in y stay as they are; few x to go through make large tables.
        b = max(range(3), key=lambda f: max(shared[f]))
        c, a = sorted(
            (f for f in range(3) if f != b), key=lambda f: math.prod(shape[i] for i in shared[f])
        )
        groups = {"z": by_all, "x": shared[c], "g": shared[a], "y": shared[b]}
        axes = {"k": [0]} | {name: [i + 1 for i in group] for name, group in groups.items()}
        return cls((a, b, c), axes, (len(factors[0]), *shape), cells)

    def summed(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """R, axes as in the bucket."""
        a, b, c = (factors[f] for f in self.order)
        found, _ = self._products(self._as(c, "gky"), self._as(a, "xky"), self._as(b, "xgk"))
        return self._back(found, "xgy")[0]

    def adjoints(self, factors: Sequence[np.ndarray], weight: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the sum of weight R by each factor, axes as in the bucket."""
        a, b, c = (factors[f] for f in self.order)
        w = weight[None]
        by_a, _ = self._products(self._as(c, "kgy"), self._as(w, "xgy"), self._as(b, "xkg"))
        by_c, by_b = self._products(
            self._as(w, "gxy"), self._as(a, "kxy"), self._as(b, "kgx"), self._as(c, "kgy")
        )
        assert by_b is not None
        found = [self._back(by_a, "xky"), self._back(by_b, "kgx"), self._back(by_c, "kgy")]
        return [found[self.order.index(f)] for f in range(3)]

    def _as(self, table: np.ndarray, names: str) -> np.ndarray:
        """A table with one axis for z and one for each name; it has length 1 along all others."""
        groups = [self.axes[name] for name in ("z", *names)]
        held = [i for group in groups for i in group]
        order = held + [i for i in range(table.ndim) if i not in held]
        sizes = [math.prod(self.lengths[i] for i in group) for group in groups]
        return table.transpose(order).reshape(sizes)

    def _back(self, table: np.ndarray, names: str) -> np.ndarray:
        """The axes of the bucket again."""
        held = [i for name in ("z", *names) for i in self.axes[name]]
        order = held + [i for i in range(len(self.lengths)) if i not in held]
        whole = table.reshape([self.lengths[i] if i in held else 1 for i in order])
        return whole.transpose(np.argsort(order))

    def _products(
        self, t: np.ndarray, s: np.ndarray, v: np.ndarray, w: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """sum over b of V(z, i, a, b) T(z, a, b, c) S(z, i, b, c), and if there is a W(z, i, a, c),
        the sum over c of the same with W instead of V."""
        t, s, v = map(np.ascontiguousarray, (t, s, v))
        nz, na, nb, nc = t.shape
        ni = s.shape[1]
        by_c, by_b = np.empty((nz, ni, na, nc)), None if w is None else np.empty((nz, ni, na, nb))
        rows = max(1, self.cells // (nb * nc))
        deep = max(1, rows // na)
        table = np.empty((min(deep, nz), min(rows, na), nb, nc))
        for z in range(0, nz, deep):
            for a in range(0, na, rows):
                part = t[z : z + deep, a : a + rows]
                joint = table[: part.shape[0], : part.shape[1]]
                for i in range(ni):
                    at = slice(z, z + deep), i, slice(a, a + rows)
                    np.multiply(part, s[z : z + deep, i, None], out=joint)
                    np.matmul(v[at][..., None, :], joint, out=by_c[at][..., None, :])
                    if w is not None and by_b is not None:
                        np.matmul(joint, w[at][..., None], out=by_b[at][..., None])
        return by_c, by_b
