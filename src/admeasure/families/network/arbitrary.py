"""Answers of product rows to a user's predicate, by the score-function estimator (B.3).

A function that is only known by calling it has no gradient. With x₁ … x_m drawn from the rows P₀ as
they are and b the mean of φ over them (the baseline),

    q(P) ≈ b + (1/m) Σ_i (φ(x_i) - b) P(x_i) / P₀(x_i),

whose gradient at P₀ is REINFORCE's, (1/m) Σ (φ(x_i) - b) ∇ log P(x_i). It is used for a few steps,
then drawn anew. Its variance is that of a sample of m rows: an answer below about 1/m cannot be
learned from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from admeasure.families.products.sampling import rounded
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Predicate

SAMPLES = 1024
SMALLEST = 1e-12


class Samples(NamedTuple):
    """For every predicate: `lines` (samples, k) of the drawn rows, -1 where it has fewer columns;
    `gains` φ - b, `base` b, `density` P₀(x); `targets` and `weights` of the answers."""

    lines: Any
    gains: Any
    base: Any
    density: Any
    targets: Any
    weights: Any


def drawn(
    P: np.ndarray,
    layout: Layout,
    log: Sequence[Measurement],
    total: float,
    rng: np.random.Generator,
    samples: int = SAMPLES,
) -> Samples:
    """Rows drawn from `P` for each measured predicate."""
    P = P.astype(np.float64)
    for column in layout.columns:
        P[layout.span(column)] /= P[layout.span(column)].sum(axis=0)
    k = max(len(m.query.columns) for m in log)
    lines = np.full((len(log), samples, k), -1, np.int32)
    gains, base = np.zeros((len(log), samples), np.float32), np.zeros(len(log), np.float32)
    for j, m in enumerate(log):
        assert isinstance(m.query, Predicate)
        rows = rounded(P, layout, samples, (), rng)
        codes = np.stack([rows[c] for c in m.query.columns], axis=1).astype(np.int64)
        held = m.query.holds(codes)
        base[j] = held.mean()
        gains[j] = held - base[j]
        starts = [layout.starts[c] for c in m.query.columns]
        lines[j, :, : len(starts)] = codes + np.asarray(starts)
    density = np.asarray(_density(jnp.asarray(P, jnp.float32), jnp.asarray(lines)))
    targets = np.asarray([float(m.values) / total for m in log], np.float32)
    weights = np.asarray([(total / m.sigma) ** 2 for m in log], np.float32)
    return Samples(lines, gains, base, np.maximum(density, SMALLEST), targets, weights)


def answers(P: Any, data: Samples) -> Any:
    """q_j(P) for every predicate, differentiable in P."""
    ratio = _density(P, data.lines) / data.density
    return data.base + (data.gains * ratio).mean(axis=1)


def _density(P: Any, lines: Any) -> Any:
    """The probability of each drawn row under the mixture of product rows."""
    met = jnp.ones((*lines.shape[:2], P.shape[1]), P.dtype)
    for c in range(lines.shape[2]):
        here = lines[:, :, c]
        met = met * jnp.where((here >= 0)[..., None], P[jnp.maximum(here, 0)], 1.0)
    return met.mean(axis=2)
