"""Product rows fitted to noisy pairs, all at once, begun from rows of another model. No JAX.

All pairs of K product rows `P` (`tensor`) are one product of matrices, P Pᵀ / K, and so is the
slope of their squared distance from a matrix of targets: a fit to thousands of pairs takes seconds.

Targets. With M the pair of the model at the start, y the mean by precision of all that was measured
of it, with variance τ² a cell, and E the effect of y - M (without its means along either column), a
cell with the share S under independence is believed beforehand to be M plus a normal effect of
variance c S N², N rows, alike for all pairs. E has noise of variance ν = τ² (a - 1)(b - 1) / (a b)
in each of its a b cells, so the effect's posterior mean is

    E c S N² / (c S N² + ν),   c N² = the mean over pairs of ||E||² - (a - 1)(b - 1) τ².

To it come M's own effect and what was measured of the single columns, by precision. Where nothing
was measured of a pair there is no target. Reads noisy measurements and public structure only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from admeasure.domain import Columns
from admeasure.families import Model
from admeasure.families.products.family import ProductModel
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement, Pooled, pooled

ROWS, STEPS = 512, 200
RATE, MEMORY, SLOW_MEMORY = 0.1, 0.9, 0.99
"""Adam (Kingma and Ba 2015) on the logits, with a rate that falls to 0."""
LEAN = 1.0
"""How far the logit of a level that a row begins with lies above the column's own."""
SMALLEST, TINY = 1e-6, 1e-300


def handed_over(
    start: Model, log: Sequence[Measurement], rows: int = ROWS, steps: int = STEPS
) -> ProductModel:
    """Product rows near to all pairs that were measured, shrunk towards those of `start`."""
    return mixture_of(start, pooled(log, (1, 2)), rows, steps)


def missed_by_products(model: Model, pairs: Sequence[Columns]) -> float:
    """The mean over pairs of the squared effect, in shares, that product rows fitted to the model's
    own miss of them: what they cannot hold, without any noise."""
    tables = model.marginals(pairs)
    known = {c: Pooled(table, 1.0) for c, table in zip(pairs, tables, strict=True)}
    fitted_to = mixture_of(model, known).marginals(pairs)
    off = [centred(a - b) / model.total for a, b in zip(fitted_to, tables, strict=True)]
    return float(np.mean([(effect**2).sum() for effect in off]))


def mixture_of(
    start: Model, known: dict[Columns, Pooled], rows: int = ROWS, steps: int = STEPS
) -> ProductModel:
    layout = Layout.of(start.domain)
    targets, read = pair_targets(start, known, layout)
    singles = single_targets(start, known, layout)
    codes = start.sample(rows, np.random.default_rng(0))
    logits = np.log(np.maximum(singles, SMALLEST))[:, None].repeat(rows, axis=1)
    for column in layout.columns:
        lines = layout.starts[column] + codes[column].astype(np.intp)  # codes may be bytes
        logits[lines, np.arange(rows)] += LEAN
    P = fitted(logits.astype(np.float32), layout, targets, read, singles, steps)
    return ProductModel(start.domain, P, start.total)


def single_targets(start: Model, known: dict[Columns, Pooled], layout: Layout) -> np.ndarray:
    """Shares of the levels, one line each; those of `start` of a column that was not measured."""
    found = np.empty(layout.width)
    sets = [(c,) for c in layout.columns]
    for columns, table in zip(sets, start.marginals(sets), strict=True):
        if columns in known:
            seen = known[columns].table
            table = np.maximum(seen + (start.total - seen.sum()) / seen.size, 0.0)
        found[layout.span(columns[0])] = table / table.sum()
    return found


def pair_targets(
    start: Model, known: dict[Columns, Pooled], layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the cells of measured pairs, as a symmetric matrix of lines, and where they are."""
    pairs = [c for c in known if len(c) == 2]
    believed = start.marginals(pairs)
    effects = [centred(known[c].table - m) for c, m in zip(pairs, believed, strict=True)]
    strength = sum(
        float((e**2).sum()) - freedom(e.shape) * known[c].variance
        for c, e in zip(pairs, effects, strict=True)
    ) / max(1, len(pairs))
    singles = single_targets(start, known, layout)
    targets = np.zeros((layout.width, layout.width), np.float32)
    read = np.zeros((layout.width, layout.width), bool)
    for c, m, e in zip(pairs, believed, effects, strict=True):
        one, two = (layout.span(column) for column in c)
        signal = max(0.0, strength) * np.outer(singles[one], singles[two])
        noise = known[c].variance * freedom(e.shape) / e.size
        # Nothing to shrink, and no noise, where a column has one level.
        kept = signal / np.maximum(signal + noise, TINY)
        effect = centred(m + e * kept) / start.total
        sides = singles[one][:, None] / e.shape[1] + singles[two] / e.shape[0]
        targets[one, two] = effect + sides - 1 / e.size
        targets[two, one] = targets[one, two].T
        read[one, two] = read[two, one] = True
    return targets, read


def centred(table: np.ndarray) -> np.ndarray:
    """The effect of both columns of a pair together."""
    return table - table.mean(0) - table.mean(1)[:, None] + table.mean()


def freedom(shape: tuple[int, ...]) -> int:
    """How many of a pair's cells its effect can have freely."""
    return (shape[0] - 1) * (shape[1] - 1)


def fitted(
    logits: np.ndarray,
    layout: Layout,
    targets: np.ndarray,
    read: np.ndarray,
    singles: np.ndarray,
    steps: int,
) -> np.ndarray:
    """Rows that make the squared distance from the pairs that are `read`, and from the single
    columns, small. The same arguments give the same rows."""
    rows = np.float32(logits.shape[1])
    weight, singles = read.astype(np.float32), singles.astype(np.float32)[:, None]
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    for step in range(1, steps + 1):
        P = softmax(logits, layout)
        off = (P @ P.T / rows - targets) * weight
        slope = off @ P + (P.mean(axis=1, keepdims=True) - singles)
        slope = P * (slope - _sums(P * slope, layout))
        first += np.float32(1 - MEMORY) * (slope - first)
        second += np.float32(1 - SLOW_MEMORY) * (slope * slope - second)
        size = np.sqrt(second / np.float32(1 - SLOW_MEMORY**step)) + np.float32(1e-12)
        rate = RATE * (1 - (step - 1) / steps) / (1 - MEMORY**step)
        logits = logits - np.float32(rate) * first / size
    return softmax(logits, layout)


def seconds_of(lines: int) -> float:
    """About what `fitted` takes on one processor, from public sizes."""
    return STEPS * ROWS * lines * (lines * 3.7e-11 + 2.2e-8)


def softmax(logits: np.ndarray, layout: Layout) -> np.ndarray:
    """Every column of every row as a distribution."""
    top = np.maximum.reduceat(logits, _starts(layout), axis=0)
    grown = np.exp(logits - top[layout.column_of])
    return grown / _sums(grown, layout)


def _sums(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Over the levels of each column, for each of its lines."""
    return np.add.reduceat(values, _starts(layout), axis=0)[layout.column_of]


def _starts(layout: Layout) -> list[int]:
    return list(layout.starts.values())
