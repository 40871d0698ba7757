"""Tables split into orthogonal effects, one for each set of attributes.

A table on a clique c is the sum over A ⊆ c of its effects: the part that depends on A alone and
sums to zero along every attribute of A. Marginals of one distribution share their effects, so
weighted least squares on noisy marginals y_i of cliques c_i,

    sum over i of |M_i p - y_i|^2 / sigma_i^2,

equals, up to a constant, the sum over A in the cliques' downward closure of

    |effect_A(M_A p) - r_A|^2 / tau_A^2,     1 / tau_A^2 = sum over c_i ⊇ A of n_A / (n_i sigma_i^2)

with r_A the precision-weighted mean of what the y_i say (n: cells). That is the whole information
of any set of overlapping measurements, without its redundancy. The maps are sparse matrices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from admeasure.families.graphical.tree import Clique, cells_of

if TYPE_CHECKING:
    from scipy import sparse


def closure(cliques: Iterable[Clique]) -> list[Clique]:
    """Every non-empty subset of a clique, small ones first."""
    found = {
        subset
        for clique in cliques
        for size in range(1, len(clique) + 1)
        for subset in itertools.combinations(clique, size)
    }
    return sorted(found, key=lambda subset: (len(subset), subset))


class Effects:
    """The effects of all sets in the closure of `cliques`, as one vector.

    `of` and `spread` work on tables on `cliques`, laid end to end.
    """

    def __init__(self, levels: Sequence[int], cliques: Sequence[Clique]) -> None:
        self._levels = levels
        self.cliques = tuple(cliques)
        self.sets = closure(cliques)
        self.sizes = [cells_of(levels, subset) for subset in self.sets]
        starts = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        self._starts = dict(zip(self.sets, starts.tolist(), strict=False))
        self.cells = int(starts[-1])
        self._kind = np.int32 if self.cells < 2**31 else np.int64
        self._lift = self.lift_from(self.cliques)
        self._centre_rows, self._centre_signs = self._centring()

    def lift_from(self, cliques: Sequence[Clique]) -> sparse.csr_array:
        """(cells of the cliques' tables, cells of the effects): entry n_A / n_c where they meet.

        Times a vector of effects' tables it spreads them over the cliques' cells; its transpose
        averages tables over the attributes outside A and adds up what all cliques say.
        """
        blocks, weights = [], []
        for clique in cliques:
            own = cells_of(self._levels, clique)
            subsets = [
                subset
                for size in range(1, len(clique) + 1)
                for subset in itertools.combinations(clique, size)
            ]
            columns = [self._cells_met(clique, subset) for subset in subsets]
            blocks.append(np.stack(columns, axis=1))
            shares = [cells_of(self._levels, subset) / own for subset in subsets]
            weights.append(np.broadcast_to(shares, blocks[-1].shape))
        return _csr(blocks, weights, self.cells)

    def _cells_met(self, clique: Clique, subset: Clique) -> np.ndarray:
        """For every cell of the clique's table, the position of its cell in the subset's."""
        shape = [self._levels[a] if a in subset else 1 for a in clique]
        first = self._starts[subset]
        index = np.arange(first, first + cells_of(self._levels, subset), dtype=self._kind)
        full = np.broadcast_to(index.reshape(shape), [self._levels[a] for a in clique])
        return full.reshape(-1)

    def _centring(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Means over every proper subset of each set's own attributes, and their signs."""
        blocks, means, signs = [], [], []
        start = 0
        for subset, size in zip(self.sets, self.sizes, strict=True):
            shape = [self._levels[a] for a in subset]
            columns, share, sign = [], [], []
            for kept in range(len(subset)):
                for lower in itertools.combinations(range(len(subset)), kept):
                    inner = [n if k in lower else 1 for k, n in enumerate(shape)]
                    count = math.prod(inner)
                    index = np.arange(count, dtype=np.int64).reshape(inner)
                    columns.append(np.broadcast_to(index, shape).reshape(-1) + start)
                    share.append(count / size)
                    sign.append((-1.0) ** (len(subset) - kept))
                    start += count
            blocks.append(np.stack(columns, axis=1))
            means.append(np.broadcast_to(share, blocks[-1].shape))
            signs.append(np.broadcast_to(sign, blocks[-1].shape))
        return _csr(blocks, means, start), _csr(blocks, signs, start)

    def centred(self, tables: np.ndarray) -> np.ndarray:
        """Each set's own effect within its table (the projection on sums of zero)."""
        return tables + self._centre_signs @ (self._centre_rows.T @ tables)

    def of(self, tables: np.ndarray) -> np.ndarray:
        """The effects of the sum of the cliques' tables, spread over the whole domain."""
        return self.centred(self._lift.T @ tables)

    def spread(self, effects: np.ndarray) -> np.ndarray:
        """The transpose of `of` for effects that are centred."""
        return self._lift @ effects

    def per_set(self, values: Sequence[float]) -> np.ndarray:
        return np.repeat(np.asarray(values, dtype=np.float64), self.sizes)


def _csr(blocks: list[np.ndarray], data: list[np.ndarray], columns: int) -> sparse.csr_array:
    """Rows with a fixed number of entries within each block, put together without sorting."""
    from scipy import sparse  # takes a third of a second, which only a fit should pay

    rows = sum(len(block) for block in blocks)
    lengths = np.repeat([block.shape[1] for block in blocks], [len(block) for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    kind = np.int32 if max(columns, int(indptr[-1])) < 2**31 else np.int64
    flat = [np.zeros(0, kind), *(block.reshape(-1).astype(kind, copy=False) for block in blocks)]
    values = [np.zeros(0), *(block.reshape(-1) for block in data)]
    return sparse.csr_array(
        (np.concatenate(values), np.concatenate(flat), indptr.astype(kind)), shape=(rows, columns)
    )
