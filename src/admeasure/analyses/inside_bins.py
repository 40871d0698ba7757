"""What places inside bins do to a statistic: what is known of them, and what they can do at most.

A row of level b that is off the level's mean by e moves the statistic by g e + q (e² - s²) more
than the mean over the level does; s² is the variance there, and g and q depend on the row's other
cells (`cells`). With ḡ and q̄ their means over the level, the table's rows add

    Σ (ḡ e + q̄ (e² - s²))  +  Σ (g - ḡ) e  +  Σ (q - q̄) (e² - s²)  +  Σ r e f

The first is a sum over leaves: their unbiased counts say it with noise of known scale (`Leaves`).
The second is what no count says, how places go together with other columns: it is at most
√(Σ (g - ḡ)²) √(Σ e²) in each level (Cauchy and Schwarz), with Σ e² as the leaves have it. The third
is none for means, correlations and least squares, whose q is the same for all rows of a level; of a
logistic regression it is left out. The last, of two columns with bins, is at most r √Σe² √Σf².
Inside a leaf that is wider than one value e is off by half its width at the most.

Of a column without counts of leaves nothing is known but the ends of its levels: each row is put
where it does most. That is a second way for columns with leaves too where no g depends on e, and
the better one where most leaves are empty and the noise in them is large. The ends of an interval
are the better of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.analyses.cells import Influence, Moves, PointEstimates
from admeasure.analyses.places import Leaves
from admeasure.bounds import Evidence

BY_ENDS = 0.1
"""The part of the error probability that the ends of bins have where leaves were counted."""


@dataclass(frozen=True, eq=False)
class Way:
    """A way to bound a statistic of the table (axis 0: its values). It lies between its value in
    the model with the sums of the functions in `least`, and of those in `most`, over the table's
    rows, moved by `shift`, whose variance from noise is `variance`; up to `below` and `above`."""

    least: tuple[Influence, ...]
    most: tuple[Influence, ...]
    shift: np.ndarray
    variance: np.ndarray
    below: np.ndarray
    above: np.ndarray


def inside_bins(own: PointEstimates, evidence: Evidence) -> list[tuple[Way, float]]:
    """The ways to bound a statistic, with the part of the error probability that each has."""
    counted = [move for move in own.moves if move.places.leaves is not None]
    if not counted:
        return [(_by_ends(own, own.moves, evidence), 1.0)]
    others = [move for move in own.moves if move.places.leaves is None]
    way = _by_leaves(own, counted, _by_ends(own, others, evidence), evidence)
    if own.crosses or any(np.abs(move.curve).max() > 0 for move in own.moves):
        return [(way, 1.0)]
    return [(way, 1 - BY_ENDS), (_by_ends(own, own.moves, evidence), BY_ENDS)]


def _by_ends(own: PointEstimates, moves: Sequence[Moves], evidence: Evidence) -> Way:
    """Functions of columns that were measured together are summed as measured, others as the model
    has them."""
    zero = np.zeros(len(own.values))
    known = [move for move in moves if evidence.estimate(move.least[0]) is not None]
    rest = [move for move in moves if evidence.estimate(move.least[0]) is None]
    crossed = _crossed(own, {move.places.name: _squares_by_ends(move) for move in moves})
    return Way(
        (*own.influence, *(move.least for move in known)),
        (*own.influence, *(move.most for move in known)),
        zero,
        zero,
        crossed - sum((move.sums[0] for move in rest), zero),
        crossed + sum((move.sums[1] for move in rest), zero),
    )


def _by_leaves(own: PointEstimates, moves: Sequence[Moves], others: Way, evidence: Evidence) -> Way:
    shift, variance, besides = (np.zeros(len(own.values)) for _ in range(3))
    told: list[Influence] = []
    for name in dict.fromkeys(move.places.name for move in moves):
        mine = [move for move in moves if move.places.name == name]
        leaves = mine[0].places.leaves
        assert leaves is not None
        weights = np.sum([_of_leaves(move, leaves) for move in mine], axis=0)
        modelled = name in evidence.domain.columns
        levels, moved, spread = leaves.sums(weights, apart=modelled)
        if modelled:
            table = np.zeros((len(shift), evidence.domain[name]))
            table[:, : levels.shape[1]] = levels
            told.append(((name,), table))
        shift, variance = shift + moved, variance + spread
        besides = besides + np.sum([_besides(move, leaves) for move in mine], axis=0)
    squares = {move.places.name: _squares_by_ends(move) for move in own.moves}
    squares |= {move.places.name: _squares(move) for move in moves}
    most = besides + _crossed(own, squares)
    return Way(
        (*others.least, *told),
        (*others.most, *told),
        shift,
        variance,
        others.below + most,
        others.above + most,
    )


def _of_leaves(move: Moves, leaves: Leaves) -> np.ndarray:
    """ḡ e + q̄ (e² - s²) of each leaf."""
    at, level = move.places, leaves.level
    e = leaves.middle - at.means[level]
    return move.slope[:, level] * e + move.curve[:, level] * (e**2 - at.variances[level])


def _besides(move: Moves, leaves: Leaves) -> np.ndarray:
    """What goes together with other columns, and what is inside leaves."""
    at = move.places
    half = np.bincount(leaves.level, leaves.share * leaves.half, len(at.means))
    apart = move.apart @ np.sqrt(move.rows * at.variances)
    return apart + np.abs(move.slope) @ (move.rows * half)


def _crossed(own: PointEstimates, squares: dict[str, float]) -> np.ndarray:
    """r √Σe² √Σf² of each two columns whose Σe² these are."""
    found = np.zeros(len(own.values))
    for cross in own.crosses:
        product = squares.get(cross.one, 0.0) * squares.get(cross.two, 0.0)
        found = found + cross.most * product**0.5
    return found


def _squares(move: Moves) -> float:
    """Σ e² over the rows, as the leaves have it."""
    return float(move.rows @ move.places.variances)


def _squares_by_ends(move: Moves) -> float:
    """The same at the most."""
    at = move.places
    return float(move.rows @ np.maximum(at.means - at.lows, at.highs - at.means) ** 2)
