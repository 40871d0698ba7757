"""Noisy marginals that overlap, made to agree, without negative counts (PrivSyn 2021, section 4.3).

Post-processing of measurements. For each column, the marginals that hold it give several estimates
of its counts; their mean by precision is the agreed one, and each marginal is moved to it by the
same amount in every cell of a level. Then each marginal is brought to the simplex of the total
(norm-sub). The two undo each other a little, so they are repeated, ending with the simplex.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from admeasure.domain import Columns
from admeasure.families.answers import to_simplex
from admeasure.schema import Zero
from admeasure.schema.zeros import possible_cells

PASSES = 5


def consistent(
    tables: Mapping[Columns, np.ndarray],
    variances: Mapping[Columns, float],
    total: float,
    zeros: Sequence[Zero] = (),
    passes: int = PASSES,
) -> dict[Columns, np.ndarray]:
    """Tables that nearly agree on every column, each with no negative count and the total.

    `variances`: of the noise in a cell. Cells that a zero inside a table rules out stay empty.
    """
    found = {c: np.asarray(t, float) for c, t in tables.items()}
    possible = {c: possible_cells(c, t.shape, zeros) for c, t in found.items()}
    columns = sorted({column for c in found for column in c})
    for _ in range(passes):
        for column in columns:
            _agree(found, variances, column)
        for c, table in found.items():
            found[c] = _projected(table, possible[c], total)
    return found


def _agree(
    found: dict[Columns, np.ndarray], variances: Mapping[Columns, float], column: str
) -> None:
    """Move the tables that hold a column to the mean of what they say of it, in place."""
    holding = [c for c in found if column in c]
    if len(holding) < 2:
        return
    sums, weights = [], []
    for c in holding:
        others = tuple(i for i, name in enumerate(c) if name != column)
        sums.append(found[c].sum(axis=others))
        weights.append(1 / (variances[c] * math.prod(found[c].shape[i] for i in others)))
    mean = np.average(sums, axis=0, weights=weights)
    for c, own in zip(holding, sums, strict=True):
        axis = c.index(column)
        shape = [1] * found[c].ndim
        shape[axis] = -1
        spread = found[c].size // found[c].shape[axis]
        found[c] = found[c] + ((mean - own) / spread).reshape(shape)


def _projected(table: np.ndarray, possible: np.ndarray, total: float) -> np.ndarray:
    made = np.zeros_like(table)
    if possible.any():
        made[possible] = to_simplex(table[possible], total)
    return made
