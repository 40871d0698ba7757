"""What was measured, as arrays of padded shapes, and the losses of product rows against it.

Records, each present or not:

- pairs: all one- and two-way marginals at once. With a line of ones below P, P Pᵀ / B holds every
  one of them, so a single small product serves however many were measured;
- tables: marginals of more columns, in the tiles of `families.products.loss`;
- cells: single counts and thresholds, as there;
- arbitrary: a user's predicates (`arbitrary`), which are drawn for, not recorded here.

Measurements of one query are merged first: the mean weighted by precision, of the variance of that
mean. Squared errors are divided by the variance of their noise and summed, so that a model that
fits exactly has an expected loss of one for each number measured (χ²).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from admeasure.families.network import arbitrary
from admeasure.families.network.arbitrary import Samples
from admeasure.families.products import loss
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Cell, Marginal, Predicate, Query, ThresholdCell

WIDEST = 512
"""Levels of all columns together up to which all pairs are made at once."""


class PairTables(NamedTuple):
    """`targets` and `weights` for every pair of lines, (width + 1)²; line `width` is all ones."""

    targets: Any
    weights: Any


class Measured(NamedTuple):
    """Shares and precisions (1/variance of a share); `numbers`: how many numbers there are."""

    pairs: PairTables | None
    tables: loss.Tables | None
    cells: loss.CellTargets | None
    numbers: Any
    arbitrary: Samples | None = None


def merged(log: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for each query; those of the number of rows are left out."""
    found: dict[Query, list[Measurement]] = {}
    for m in log:
        if m.query.columns:
            found.setdefault(m.query, []).append(m)
    out = []
    for query, parts in found.items():
        # An exact answer would weigh infinitely; a thousandth of a row is as good.
        precision = [1 / max(m.sigma, 1e-3) ** 2 for m in parts]
        total = math.fsum(precision)
        mean = sum(
            (p / total * m.values for p, m in zip(precision, parts, strict=True)),
            np.zeros(np.shape(parts[0].values)),
        )
        out.append(Measurement(query, np.asarray(mean), 1 / math.sqrt(total)))
    return out


def record(log: Sequence[Measurement], layout: Layout, total: float) -> Measured:
    """The arrays of everything measured; `total` is the believed number of rows."""
    found = [m for m in merged(log) if not isinstance(m.query, Predicate)]
    singles = [m for m in found if isinstance(m.query, Cell | ThresholdCell)]
    wholes = [m for m in found if isinstance(m.query, Marginal)]
    if len(singles) + len(wholes) < len(found):
        raise TypeError("a network learns from marginals, their cells and threshold cells")
    narrow = layout.width <= WIDEST
    small = [m for m in wholes if len(m.query.columns) <= 2 and narrow]
    large = [m for m in wholes if len(m.query.columns) > 2 or not narrow]
    numbers = sum(np.size(m.values) for m in found)

    def precision(m: Measurement) -> float:
        return (total / m.sigma) ** 2

    return Measured(
        _pairs(small, layout, total, precision) if wholes and narrow else None,
        loss.tables(large, layout, total, precision) if wholes else None,
        loss.cells(singles, layout, total, precision) if singles else None,
        np.float32(numbers),
    )


def _pairs(
    log: Sequence[Measurement], layout: Layout, total: float, weigh: loss.Weigh
) -> PairTables:
    lines = layout.width + 1
    targets, weights = np.zeros((lines, lines), np.float32), np.zeros((lines, lines), np.float32)
    for m in log:
        first, *rest = (layout.span(c) for c in m.query.columns)
        where = first, rest[0] if rest else slice(layout.width, lines)
        targets[where] = np.reshape(m.values / total, (first.stop - first.start, -1))
        weights[where] = weigh(m)
    return PairTables(targets, weights)


def squared(P: Any, data: Measured) -> Any:
    """χ² for each number measured: Σ ((q(P) - a) / σ)² / numbers."""
    value = jnp.zeros((), P.dtype)
    if data.pairs is not None:
        lines = jnp.concatenate([P, jnp.ones((1, P.shape[1]), P.dtype)])
        shares = jnp.matmul(lines, lines.T, precision=loss.HIGHEST) / P.shape[1]
        value += jnp.sum(data.pairs.weights * (shares - data.pairs.targets) ** 2)
    if data.tables is not None:
        value += loss.table_loss(P, data.tables)
    if data.cells is not None:
        value += loss.cell_loss(P, data.cells)
    if data.arbitrary is not None:
        apart = arbitrary.answers(P, data.arbitrary) - data.arbitrary.targets
        value += jnp.sum(data.arbitrary.weights * apart**2)
    return value / data.numbers


def absolute(P: Any, data: loss.CellTargets, gamma: Any) -> tuple[Any, Any]:
    """Algorithm 3's loss, (1/|J|) Σ_J |c_j| with J = {j : |c_j| >= γ}, and the largest |c_j|.

    c = ã - q(P) in shares. Where J is empty the loss is zero.
    """
    used = data.weights > 0
    c = jnp.where(used, jnp.abs(data.targets - loss.cell_answers(P, data)), 0.0)
    chosen = used & (c >= gamma)
    return jnp.sum(jnp.where(chosen, c, 0.0)) / jnp.maximum(chosen.sum(), 1), c.max()
