"""Records that follow given marginals: the gradual update method (PrivSyn 2021, section 5).

Post-processing of measurements, with randomness of a fixed public seed. Records start with
independent columns. Then, marginal after marginal and round after round, records leave cells that
have too many and join cells that have too few: a part α of what a cell holds at most, so that what
other marginals taught is not undone at once; α falls from round to round. A record joins a cell by
becoming a copy of one that is in it (which keeps its other columns as they should be), or by
changing the marginal's columns alone (which reaches cells that nobody is in); half of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import Codes
from admeasure.families.rounding import rounded_counts

FIRST, DECAY, EVERY = 1.0, 0.84, 20
"""α of the first rounds, what it is multiplied by, and after how many rounds."""
COPIED = 0.5


def synthesised(
    targets: Mapping[Columns, np.ndarray],
    one_way: Mapping[Columns, np.ndarray],
    domain: Domain,
    rows: int,
    rounds: int,
) -> Codes:
    """`rows` records that follow the targets (and `one_way` at the start), columns by name."""
    rng = np.random.default_rng(0)
    codes = {c: _drawn(one_way[(c,)], rows, rng) for c in domain.columns}
    wanted = [(c, t.ravel() * (rows / t.sum())) for c, t in targets.items() if t.sum() > 0]
    for t in range(rounds):
        alpha = FIRST * DECAY ** (t // EVERY)
        for columns, target in wanted:
            _update(codes, columns, domain.shape(columns), target, alpha, rng)
    return codes


def _drawn(counts: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    share = counts / counts.sum() if counts.sum() > 0 else np.full(counts.size, 1 / counts.size)
    codes = np.repeat(np.arange(counts.size), rounded_counts(share, rows, rng))
    rng.shuffle(codes)
    return codes


def _update(
    codes: Codes,
    columns: Columns,
    shape: Sequence[int],
    target: np.ndarray,
    alpha: float,
    rng: np.random.Generator,
) -> None:
    """Move records of one marginal towards its target, in place."""
    cells = np.ravel_multi_index(tuple(codes[c] for c in columns), tuple(shape))
    held = np.bincount(cells, minlength=target.size)
    gap = target - held
    joining = np.minimum(np.maximum(gap, 0.0), alpha * np.where(held > 0, held, target))
    leaving = np.maximum(-gap, 0.0)
    moved = min(joining.sum(), leaving.sum())
    if moved < 1:
        return
    joins = _whole(joining * (moved / joining.sum()), rng)
    leaves = np.minimum(_whole(_limited(leaving, held, moved), rng), held)
    order = rng.permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    starts = np.cumsum(held) - held
    of = cells[order]
    out = order[np.arange(len(order)) - starts[of] < leaves[of]]
    rng.shuffle(out)
    into = np.repeat(np.arange(target.size), joins)
    rng.shuffle(into)
    count = min(len(out), len(into))
    out, into = out[:count], into[:count]
    copied = (rng.random(count) < COPIED) & (held[into] > 0)
    place = starts[into[copied]] + (rng.random(copied.sum()) * held[into[copied]]).astype(np.intp)
    models = order[place]
    for column, values in codes.items():
        values[out[copied]] = values[models]
        if column in columns:
            axis = np.unravel_index(into[~copied], tuple(shape))[columns.index(column)]
            values[out[~copied]] = axis


def _limited(leaving: np.ndarray, held: np.ndarray, moved: float) -> np.ndarray:
    """min(leaving, β held) with β such that so many leave in all: no cell loses all at once."""
    low, high = 0.0, 1.0
    for _ in range(30):
        beta = (low + high) / 2
        if np.minimum(leaving, beta * held).sum() < moved:
            low = beta
        else:
            high = beta
    return np.minimum(leaving, high * held)


def _whole(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rounded up or down at random, right in the mean."""
    low = np.floor(numbers)
    return (low + (rng.random(numbers.size) < numbers - low)).astype(np.intp)
