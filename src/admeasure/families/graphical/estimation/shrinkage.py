"""Measured effects shrunk towards what smaller marginals predict (empirical Bayes).

A count mu of a one-way or two-way marginal, measured as y = mu + noise of scale tau, is believed
beforehand to follow a Gamma law with shape k and mean m: of a single column the number of rows by
its possible levels, of a pair the product of its shrunk columns. In units of tau, with b = k / m,

    p(mu | y)  ∝  mu^(k - 1) exp(-(mu - z)^2 / 2),   z = y - b,   mu >= 0,

so one function of z for each k, I_k(z) = ∫ mu^(k-1) exp(-(mu - z)²/2) dmu, has all that is needed:
the posterior mean I_{k+1} / I_k and the evidence b^k / Γ(k) exp(b²/2 - b y) I_k(z). k is one of
`_SHAPES` and averaged over its posterior: it is log-normal around a centre and learns from all
cells of a table. Columns are alike in how uneven they are: in the fit of a release n k (n: levels)
has one centre for all of them, unknown, log-normal itself and learned from all. In a round, where
little of them is known yet, and for pairs the centre of k is fixed.

The effect (`residuals.py`) of the posterior means takes the measured one's place; effects of three
and more columns stay. Reads noisy measurements and public structure only: nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Literal

import numpy as np

from admeasure.domain import closure, subsets
from admeasure.families.graphical.estimation.residuals import (
    alike_in_shape,
    centred_each,
    means_within,
    said,
    stacked,
)
from admeasure.families.graphical.estimation.statistics import CliqueStatistic, impossible
from admeasure.families.graphical.structure.junction_tree import Clique, cells_of
from admeasure.families.graphical.structure.zeros import Zeros

_ALONE, _TOGETHER, _PAIRS = (0.05, math.inf, 2.0), (0.2, 16.0, 0.5), (0.1, math.inf, 8.0)
"""Where the centre of k lies for columns alone, that of n k for columns together, that of k for
pairs; the precision of its log; and that of log k given the centre."""
_OFFSETS = np.linspace(-12.0, 12.0, 25)
"""Centres that are weighed, in standard deviations."""
_KEPT = 0.02
"""A posterior is not computed anew while the variance of what was measured moved by less."""
_SHAPES = np.geomspace(0.01, 32.0, 15)
_REACH, _STEP = 60.0, 0.02
_SMALLEST = 1e-9
"""What prior means are at least, in units of tau."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior means of one marginal, the variance of the measurement behind them and the log
    evidence of each shape."""

    table: np.ndarray
    variance: float
    evidence: np.ndarray


Posteriors = Mapping[Clique, Posterior]
Learn = Literal["alone", "together"]


def shrunk(
    levels: Sequence[int],
    statistics: Sequence[CliqueStatistic],
    zeros: Sequence[Zeros],
    total: float,
    known: Posteriors,
    columns: Learn = "together",
) -> tuple[tuple[CliqueStatistic, ...], Posteriors]:
    """The statistics with their effects of one and two columns shrunk, and the posteriors.

    `known`: posteriors of an earlier call, used again where little was measured since. `columns`:
    whether shapes of columns are learned alone or together.
    """
    precision: dict[Clique, float] = {}
    for s in statistics:
        for subset in subsets(s.clique):
            share = cells_of(levels, subset) / (s.mean.size * s.sigma**2)
            precision[subset] = precision.get(subset, 0.0) + share
    weighted = said((s.clique, s.mean / s.sigma**2) for s in statistics)
    posteriors: dict[Clique, Posterior] = {}
    for size, sets in groupby(closure(s.clique for s in statistics), len):
        if size > 2:
            break  # smaller sets come first
        beliefs: dict[Clique, Belief] = {}
        for subset in sets:
            variance = 1.0 / precision[subset]
            found = known.get(subset)
            if found is None or abs(variance / found.variance - 1) > _KEPT:
                prior = _prior(levels, subset, zeros, total, posteriors)
                # What smaller sets say of the table is known better than from this measurement.
                (effect,) = centred_each((weighted[subset] * variance - prior)[None])
                seen = prior + effect
                beliefs[subset] = Belief(seen, prior, math.sqrt(variance))
                found = Posterior(prior, variance, np.empty(0))
            posteriors[subset] = found
        together = ManyBeliefs(list(beliefs.values()))
        for subset, evidence in zip(beliefs, together.evidence(), strict=True):
            posteriors[subset] = replace(posteriors[subset], evidence=evidence)
        alike = [c for c in posteriors if len(c) == size]
        evidence = np.array([posteriors[c].evidence for c in alike])
        weights = shape_weights(evidence, *_belief_of_shapes(levels, alike, columns))
        place = {c: i for i, c in enumerate(alike)}
        means = together.means(weights[[place[c] for c in beliefs]])
        for subset, table in zip(beliefs, means, strict=True):
            posteriors[subset] = replace(posteriors[subset], table=table)
    return _with_effects(statistics, posteriors, total), posteriors


def _belief_of_shapes(
    levels: Sequence[int], alike: Sequence[Clique], columns: Learn
) -> tuple[np.ndarray, float, float]:
    """Of sets of one size the centre of each one's shape, and the two precisions."""
    if len(alike[0]) == 1 and columns == "together":
        centre, around, given = _TOGETHER
        return centre / np.array([cells_of(levels, c) for c in alike]), around, given
    centre, around, given = _ALONE if len(alike[0]) == 1 else _PAIRS
    return np.full(len(alike), centre), around, given


def _prior(
    levels: Sequence[int],
    clique: Clique,
    zeros: Sequence[Zeros],
    total: float,
    posteriors: Posteriors,
) -> np.ndarray:
    """What smaller marginals predict: independence, but for cells that cannot occur."""
    possible = ~impossible(levels, clique, zeros)
    if len(clique) == 1:
        table = possible * 1.0
        return table * (total / max(1.0, table.sum()))
    margins = [posteriors[(a,)].table for a in clique]
    first, second = (m * (total / m.sum()) for m in margins)
    table = np.outer(first, second) / total * possible
    for _ in range(0 if possible.all() else 20):  # independence with holes, by raking
        table *= _ratio(first, table.sum(1))[:, None]
        table *= _ratio(second, table.sum(0))
    return table


def _ratio(wanted: np.ndarray, have: np.ndarray) -> np.ndarray:
    """1 where there is nothing, as of a level all of whose cells cannot occur."""
    return np.divide(wanted, have, out=np.ones_like(have), where=have > 0)


def _with_effects(
    statistics: Sequence[CliqueStatistic], posteriors: Posteriors, total: float
) -> tuple[CliqueStatistic, ...]:
    """Those of one shape all at once."""
    found: dict[Clique, np.ndarray] = {}
    for group in alike_in_shape([(s.clique, s.mean) for s in statistics]):
        cliques, means = [c for c, _ in group], stacked(group)
        shape = means.shape[1:]
        sums = means.reshape(len(means), -1).sum(axis=1)
        tables = means + ((total - sums) / math.prod(shape)).reshape(-1, *[1] * len(shape))
        for axes, mean in means_within(means).items():
            if len(axes) > 2:
                continue
            onto = [n if i in axes else 1 for i, n in enumerate(shape)]
            share = math.prod(onto) / math.prod(shape)
            wanted = np.stack([posteriors[tuple(c[i] for i in axes)].table for c in cliques])
            tables += centred_each(wanted * share - mean).reshape(-1, *onto)
        found |= dict(zip(cliques, tables, strict=True))
    return tuple(replace(s, mean=np.where(s.possible, found[s.clique], 0.0)) for s in statistics)


@dataclass(frozen=True, eq=False)
class Belief:
    """A marginal as it was seen, with noise of scale `tau`, beside what is believed beforehand."""

    seen: np.ndarray
    prior: np.ndarray
    tau: float

    def in_units(self) -> tuple[np.ndarray, np.ndarray]:
        """What was seen and believed of the cells that can occur, in units of tau."""
        possible = self.prior > 0
        prior = np.maximum(self.prior[possible] / self.tau, _SMALLEST)
        return self.seen[possible] / self.tau, prior


class ManyBeliefs:
    """Many of them, whose cells lie one after another."""

    def __init__(self, beliefs: Sequence[Belief]) -> None:
        self._beliefs = beliefs
        parts = [belief.in_units() for belief in beliefs]
        self._seen, self._prior = (np.concatenate([np.empty(0), *x]) for x in _both(parts))
        self._sizes = np.array([y.size for y, _ in parts], dtype=np.intp)
        ends = np.cumsum(self._sizes)
        self._spans = list(zip((ends - self._sizes).tolist(), ends.tolist(), strict=True))

    def evidence(self) -> np.ndarray:
        """Of each (row) log p(seen) for each shape, but for a constant."""
        found = np.empty((len(self._beliefs), _SHAPES.size))
        for i in range(_SHAPES.size):
            cells = _log_evidence(i, self._seen, self._prior)
            found[:, i] = [cells[a:b].sum() for a, b in self._spans]
        return found

    def means(self, weights: np.ndarray) -> list[np.ndarray]:
        """Of each E(mu | seen) cell by cell, for shapes of its row of weights; 0 where its prior
        is 0."""
        kept = np.where(weights < 1e-3 * weights.sum(axis=1, keepdims=True), 0.0, weights)
        kept /= kept.sum(axis=1, keepdims=True)
        mean = np.zeros_like(self._seen)
        for i, weight in enumerate(kept.T):
            each = np.repeat(weight, self._sizes)
            told = np.flatnonzero(each)
            z = self._seen[told] - _SHAPES[i] / self._prior[told]
            mean[told] += each[told] * _mean(i, z)
        found = []
        for belief, (a, b) in zip(self._beliefs, self._spans, strict=True):
            table = np.zeros_like(belief.prior)
            table[belief.prior > 0] = mean[a:b] * belief.tau
            found.append(table)
        return found


def _both(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[list[np.ndarray], ...]:
    return [one for one, _ in pairs], [two for _, two in pairs]


def shape_weights(
    evidence: np.ndarray, centre: np.ndarray, around: float, given: float
) -> np.ndarray:
    """Of each table (row) the posterior weights of its shapes, but for a factor.

    `evidence`: log p(table | shape). The centres of all tables are `centre` times one factor whose
    log has the precision `around`; that of log k around a table's centre is `given`.
    """
    offsets = _OFFSETS if math.isfinite(around) else np.zeros(1)
    centres = np.log(centre)[:, None] + offsets / math.sqrt(around)
    prior = np.exp(-given / 2 * (np.log(_SHAPES) - centres[:, :, None]) ** 2)
    prior /= prior.sum(axis=2, keepdims=True)  # table by centre by shape
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    of_table = np.einsum("ts,tcs->tc", likelihood, prior)  # p(table | centre)
    log_weight = np.log(of_table).sum(axis=0) - offsets**2 / 2
    weight = np.exp(log_weight - log_weight.max())
    return likelihood * np.einsum("tc,tcs->ts", weight / of_table, prior)


def _log_evidence(i: int, y: np.ndarray, m: np.ndarray) -> np.ndarray:
    """log p(y) for shape `_SHAPES[i]` and means m, in units of tau, but for log sqrt(2π)."""
    k = float(_SHAPES[i])
    b = k / m
    z = y - b
    known = k * np.log(b) - math.lgamma(k)
    # log I_k(z) is kept without -z²/2 where z < 0, and b²/2 - b y - z²/2 = -y²/2.
    return known + np.where(z < 0, -y * y / 2, b * (b / 2 - y)) + _log_integral(i, z)


def _log_integral(i: int, z: np.ndarray) -> np.ndarray:
    """log I_k(z), plus z²/2 where z < 0."""
    k = float(_SHAPES[i])
    found = _interpolated(_integrals()[0][i], z)
    high, low = z > _REACH, z < -_REACH
    if high.any():  # Laplace's method, at distances where it is exact to many digits
        x, spread = _peak(k, z[high])
        laplace = (k - 1) * np.log(x) - (x - z[high]) ** 2 / 2
        found[high] = laplace + 0.5 * np.log(2 * math.pi * spread)
    if low.any():
        found[low] = math.lgamma(k) - k * np.log(-z[low]) - k * (k + 1) / (2 * z[low] ** 2)
    return found


def _mean(i: int, z: np.ndarray) -> np.ndarray:
    """I_{k+1}(z) / I_k(z): the posterior mean."""
    k = float(_SHAPES[i])
    found = _interpolated(_integrals()[1][i], z)
    high, low = z > _REACH, z < -_REACH
    if high.any():
        x, spread = _peak(k, z[high])
        found[high] = x + (k - 1) / x**3 * spread**2
    if low.any():  # the first steps of a continued fraction
        far = -z[low]
        found[low] = k / (far + (k + 1) / (far + (k + 2) / far))
    return found


def _peak(k: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where mu^(k-1) exp(-(mu - z)²/2) is largest, and the variance of a normal law there."""
    x = (z + np.sqrt(z * z + 4 * (k - 1))) / 2
    return x, 1 / (1 + (k - 1) / x**2)


def _interpolated(values: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Linear between the points of the grid, constant beyond."""
    place = (np.clip(z, -_REACH, _REACH) + _REACH) / _STEP
    below = np.minimum(place.astype(np.int64), values.size - 2)
    start = values[below]
    return start + (place - below) * (values[below + 1] - start)


@lru_cache(maxsize=1)
def _integrals() -> tuple[np.ndarray, np.ndarray]:
    """log I_k (plus z²/2 where z < 0) and I_{k+1} / I_k, for each shape on a grid of z.

    Gauss-Legendre on pieces, those below 1 in log mu; what is left below 1e-8 is mu^(k-1) alone.
    """
    nodes, weights = np.polynomial.legendre.leggauss(10)
    nodes, weights = (nodes + 1) / 2, weights / 2
    logs = np.linspace(math.log(1e-8), 0.0, 25)
    small = np.exp((logs[:-1, None] + np.diff(logs)[:, None] * nodes).reshape(-1))
    x = np.concatenate([small, (np.arange(1, _REACH + 12)[:, None] + nodes).reshape(-1)])
    wide = np.concatenate(
        [
            small * (np.diff(logs)[:, None] * weights).reshape(-1),
            np.tile(weights, int(_REACH) + 11),
        ]
    )
    z = np.linspace(-_REACH, _REACH, round(2 * _REACH / _STEP) + 1)
    powers = x[:, None] ** (_SHAPES - 1) * wide[:, None]
    zeroth, first = np.empty((2, z.size, _SHAPES.size))
    for part in np.array_split(np.arange(z.size), 16):
        at = z[part, None]
        kernel = np.exp(-((x - np.maximum(at, 0)) ** 2) / 2 + x * np.minimum(at, 0))
        left = np.exp(-(np.maximum(at, 0) ** 2) / 2) * 1e-8**_SHAPES / _SHAPES
        zeroth[part] = kernel @ powers + left
        first[part] = (kernel * x) @ powers
    return np.log(zeroth).T.copy(), (first / zeroth).T.copy()
