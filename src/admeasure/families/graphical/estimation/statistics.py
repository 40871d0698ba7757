"""What noisy marginals say, one statistic for each distinct clique.

Several measurements of a clique are worth as much as their precision-weighted mean with the summed
precision: the weighted least squares objective differs by a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.errors import UsageError
from admeasure.families.graphical.inference.tables import aligned
from admeasure.families.graphical.structure.triangulation import Clique
from admeasure.families.graphical.structure.zeros import Zeros


@dataclass(frozen=True)
class Observation:
    """One noisy marginal: counts plus independent noise of scale `sigma` in every cell."""

    clique: Clique
    values: np.ndarray
    sigma: float


@dataclass(frozen=True)
class CliqueStatistic:
    """All that was measured of one clique. `mean` is 0 in cells that cannot occur."""

    clique: Clique
    mean: np.ndarray
    sigma: float
    possible: np.ndarray


def combine(
    levels: Sequence[int], observations: Iterable[Observation], zeros: Sequence[Zeros] = ()
) -> tuple[CliqueStatistic, ...]:
    """One statistic for each distinct clique, in lexicographic order of the cliques."""
    for zero in zeros:
        _check_shape(levels, zero.clique, zero.mask)
    weighted: dict[Clique, np.ndarray] = {}
    precision: dict[Clique, float] = {}
    for seen in observations:
        values = np.asarray(seen.values, dtype=np.float64)
        _check_shape(levels, seen.clique, values)
        if not (math.isfinite(seen.sigma) and seen.sigma > 0):
            raise UsageError(
                f"The measurement of {seen.clique} has sigma {seen.sigma}; sigma must be a "
                "positive number. Use a small one for counts that are known."
            )
        if not np.isfinite(values).all():
            raise UsageError(f"The measurement of {seen.clique} holds a value that is not finite.")
        weight = 1.0 / seen.sigma / seen.sigma
        weighted[seen.clique] = weighted.get(seen.clique, 0.0) + weight * values
        precision[seen.clique] = precision.get(seen.clique, 0.0) + weight
    statistics = []
    for clique in sorted(weighted):
        possible = ~impossible(levels, clique, zeros)
        mean = np.where(possible, weighted[clique] / precision[clique], 0.0)
        statistics.append(CliqueStatistic(clique, mean, precision[clique] ** -0.5, possible))
    return tuple(statistics)


def impossible(levels: Sequence[int], clique: Clique, zeros: Iterable[Zeros]) -> np.ndarray:
    """The cells of a clique's table that some rule inside the clique forbids."""
    mask = np.zeros([levels[a] for a in clique], dtype=bool)
    members = frozenset(clique)
    for zero in zeros:
        if members.issuperset(zero.clique):
            mask |= aligned(np.asarray(zero.mask, dtype=bool), zero.clique, clique)
    return mask


def estimate_total(statistics: Iterable[CliqueStatistic]) -> float:
    """The number of rows: inverse-variance mean of the marginals' sums, and at least 1.

    A sum of m cells has variance m sigma^2; cells that cannot occur are left out.
    """
    weights, sums = [], []
    for statistic in statistics:
        cells = int(statistic.possible.sum())
        if cells:
            weights.append(1.0 / (cells * statistic.sigma * statistic.sigma))
            sums.append(float(statistic.mean.sum()))
    if not weights:
        return 1.0
    scale = max(weights)
    shares = [weight / scale for weight in weights]
    mean = math.fsum(w * s for w, s in zip(shares, sums, strict=True)) / math.fsum(shares)
    return max(1.0, mean)


def _check_shape(levels: Sequence[int], clique: Clique, values: np.ndarray) -> None:
    ordered = tuple(sorted(set(clique)))
    if tuple(clique) != ordered or any(not 0 <= a < len(levels) for a in clique):
        raise UsageError(f"{clique} is not a sorted tuple of attributes below {len(levels)}.")
    shape = tuple(levels[a] for a in clique)
    if np.shape(values) != shape:
        raise UsageError(f"The table on {clique} has shape {np.shape(values)}, not {shape}.")
