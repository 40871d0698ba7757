"""Fitting product rows to measurements: Adam on the rows themselves or on their logits.

Avent and Korolova (2023), Algorithm 3 (relaxed projection): min ‖Q(P) - a‖² over rows whose blocks
lie on the simplex. Two parametrisations: `sparsemax` steps on P and projects every block back to
the simplex after each step (RAP); `softmax` steps on logits (RAP-softmax, Liu, Vietri and Wu 2021).
A third, `box`, has no simplex: it steps on P and clips every number to [-1, 1] (`box`).

Adam and projections. Adam divides every coordinate's step by the size of its own slopes, so where
all levels of a column have slopes of one sign, however different, all move alike, and the
projection takes the common move away: the fit stands still far from its aim, and did so on
thresholds, whose slopes often have one sign. So under sparsemax the levels of a column in a row
share one second moment (`moment = "block"`): a step there is the slope times one number, and the
projection after it is a step of projected gradient descent. `moment = "level"` is plain Adam.

What no measurement names does not enter the loss: single queries name few of the levels, and all
others of a column act as one. So only the named lines and one rest for each column are fitted; the
rest is divided afterwards as it was before. The optimum is the same, and for a table of thousands
of levels a step costs a fraction.

The whole fit is one compiled loop. Shapes are padded, and the padded sizes grow by doubling, so a
run compiles a handful of times. It stops when `patience` steps lowered the loss by less than the
part `tolerance`, when the loss is below what the noise alone explains (`floor`), or at the cap of
`steps`: never by the clock, so that a run can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from admeasure.families.products import loss
from admeasure.families.products.family import FitOptions, Shape
from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Marginal

NEWTON_STEPS = 4
"""Steps of the search for a block's threshold, from the support that it had; then rescaled."""

LARGEST_LOGIT = 60.0
SMALLEST_SHARE = 1e-7


class Blocks(NamedTuple):
    """Which line belongs to which column: `member` (columns, lines) of 0 and 1, `column`."""

    member: Any
    column: Any


class Coarse(NamedTuple):
    """Which lines are fitted: `of` says for each line of `P` on which fitted line it lies, alone
    where it is `named`, else with the rest of its column, which has `others` lines."""

    of: Any
    named: Any
    others: Any


def minimise(
    P: Any, layout: Layout, log: Sequence[Measurement], total: float, how: FitOptions
) -> Any:
    """Rows fitted to everything measured, starting from `P`, and where `P` is: in memory, or on a
    device."""
    singles = [m for m in log if isinstance(m.query, loss.Counted)]
    wholes = [m for m in log if isinstance(m.query, Marginal) and m.query.columns]
    if not singles and not wholes:
        return P
    kind = loss.kind_of([m.query for m in singles])  # pyright: ignore[reportArgumentType]
    cells = loss.cells(singles, layout, total) if singles else None
    tables = loss.tables(wholes, layout, total) if wholes else None
    noise = sum(m.values.size * (m.sigma / total) ** 2 for m in singles + wholes)
    named = np.arange(layout.width)
    if cells is not None and tables is None:
        named = np.unique(cells.lines[cells.used])
    room = len(named)
    if cells is not None and tables is None and jax.default_backend() != "cpu":
        room = min(cells.lines.size, layout.width)  # grows with the record's size alone
    coarse, blocks = coarsened(layout, named, room)
    if cells is not None:
        targets = _within(cells.targets, how)
        cells = cells._replace(lines=coarse.of[cells.lines], targets=targets)
    if tables is not None:
        lead, trail = (np.where(x < 0, -1, coarse.of[x]) for x in (tables.lead, tables.trail))
        targets = _within(tables.targets, how)
        tables = tables._replace(lead=lead, trail=trail, targets=targets)
    made = _fit(P, coarse, blocks, cells, tables, how.floor * noise, kind, how)
    return made if isinstance(P, jax.Array) else np.asarray(made)


def _within(targets: np.ndarray, how: FitOptions) -> np.ndarray:
    """What is fitted. Rows in a box could meet noisy shares that cannot be."""
    return np.clip(targets, 0.0, 1.0) if how.shape == "box" else targets


def coarsened(layout: Layout, named: np.ndarray, room: int) -> tuple[Coarse, Blocks]:
    """The named lines and one rest for each column that has others, padded; with room for so many
    named lines."""
    columns = len(layout.columns)
    mine, every = layout.column_of[named], layout.column_of
    others = np.asarray(layout.levels) - np.bincount(mine, minlength=columns)
    resting = np.flatnonzero(others)
    used = len(named) + len(resting)
    size = loss.padded(max(used, room + columns if room > len(named) else used))
    rest = np.zeros(columns, np.int32)
    rest[resting] = len(named) + np.arange(len(resting))
    of, alone = rest[every], np.zeros(layout.width, bool)
    of[named], alone[named] = np.arange(len(named)), True
    column = np.full(size, columns, np.int32)
    column[: len(named)], column[len(named) : used] = mine, resting
    member = (column[None, :] == np.arange(columns + 1)[:, None]).astype(np.float32)
    counts = np.maximum(others, 1).astype(np.float32)[every]
    return Coarse(of, alone, counts), Blocks(member, column)


@partial(jax.jit, static_argnames=("kind", "how"), compiler_options=loss.QUICK)
def _fit(
    P: Any,
    coarse: Coarse,
    blocks: Blocks,
    cells: Any,
    tables: Any,
    floor: Any,
    kind: loss.TargetKind,
    how: FitOptions,
) -> Any:
    """All lines of `P`, fitted. The rest of a column is divided as it was, evenly where it was
    none."""
    start = jax.ops.segment_sum(P, coarse.of, num_segments=blocks.column.shape[0])
    after = _fitted(start, blocks, cells, tables, floor, kind, how)[coarse.of]
    if how.shape == "box":  # levels say nothing of each other
        return jnp.where(coarse.named[:, None], after, P)
    held, named = start[coarse.of], coarse.named[:, None]
    even = 1 / coarse.others[:, None]
    parts = jnp.where(held > SMALLEST_SHARE, P / jnp.maximum(held, SMALLEST_SHARE), even)
    return jnp.where(named, after, parts * after)


def _fitted(
    P: Any,
    blocks: Blocks,
    cells: Any,
    tables: Any,
    floor: Any,
    kind: loss.TargetKind,
    how: FitOptions,
) -> Any:
    real = (blocks.column < blocks.member.shape[0] - 1)[:, None]
    rows = jnp.where(real, jnp.maximum(P, SMALLEST_SHARE), 0.0)
    params = jnp.log(jnp.where(real, rows, 1.0)) if how.shape == "softmax" else P
    make = partial(softmax, blocks=blocks) if how.shape == "softmax" else lambda p: p
    adam = optax.adam(how.learning_rate)
    if how.shape == "sparsemax" and how.moment == "block":
        adam = optax.chain(scale_by_blocks(blocks), optax.scale_by_learning_rate(how.learning_rate))

    def objective(p: Any) -> Any:
        made = jnp.where(real, make(p), 0.0)
        value = jnp.zeros(())
        if cells is not None:
            value += loss.cell_loss(made, cells, kind)
        if tables is not None:
            value += loss.table_loss(made, tables)
        return value

    def step(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        p, memory, _ = state
        value, slope = jax.value_and_grad(objective)(p)
        change, memory = adam.update(slope, memory)
        moved: Any = optax.apply_updates(p, change)
        if how.shape == "sparsemax":
            moved = sparsemax(moved, p > 0, blocks)
        if how.shape == "box":
            moved = jnp.clip(moved, -1.0, 1.0)
        return moved, memory, value

    def more(state: tuple[Any, ...]) -> Any:
        done, _, _, value, before = state
        falling = value < before * (1 - how.tolerance)
        return (done < how.steps) & ((done == 0) | (falling & (value > floor)))

    def several(state: tuple[Any, ...]) -> tuple[Any, ...]:
        done, p, memory, value, _ = state
        p, memory, now = jax.lax.fori_loop(0, how.patience, step, (p, memory, value))
        return done + how.patience, p, memory, now, value

    first = (0, params, adam.init(params), jnp.asarray(jnp.inf), jnp.asarray(jnp.inf))
    fitted = jax.lax.while_loop(more, several, first)[1]
    return jnp.where(real, make(fitted), 0.0)


class Moments(NamedTuple):
    """Adam's memory: `first` for each level, `second` for each block of each row."""

    count: Any
    first: Any
    second: Any


def scale_by_blocks(
    blocks: Blocks, b1: float = 0.9, b2: float = 0.999, small: float = 1e-8
) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) with one second moment, of the slopes' squared norm, a block."""

    def init(params: Any) -> Moments:
        second = jnp.zeros((blocks.member.shape[0], params.shape[1]), params.dtype)
        return Moments(jnp.zeros((), jnp.int32), jnp.zeros_like(params), second)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Moments]:
        del params
        count = state.count + 1
        first = b1 * state.first + (1 - b1) * updates
        second = b2 * state.second + (1 - b2) * _sums(updates * updates, blocks)
        size = jnp.sqrt(second / (1 - b2**count)) + small
        return first / (1 - b1**count) / size[blocks.column], Moments(count, first, second)

    return optax.GradientTransformation(init, update)


def softmax(logits: Any, blocks: Blocks) -> Any:
    """Every block of lines of every row as a distribution."""
    sizes = jnp.maximum(blocks.member.sum(axis=1, keepdims=True), 1.0)
    middle = jax.lax.stop_gradient(_sums(logits, blocks) / sizes)
    grown = jnp.exp(jnp.minimum(logits - middle[blocks.column], LARGEST_LOGIT))
    return grown / _sums(grown, blocks)[blocks.column]


def sparsemax(points: Any, support: Any, blocks: Blocks) -> Any:
    """The nearest distribution to every block (Martins and Astudillo 2016), by Newton's method.

    max(x - t, 0) sums to 1 at the threshold t. The sum is convex and falls in t, so after its
    first step Newton's method comes from below and does not pass t.
    """
    threshold = jnp.zeros(())
    for _ in range(NEWTON_STEPS):
        held = support.astype(points.dtype)
        size = jnp.maximum(_sums(held, blocks), 1.0)
        threshold = ((_sums(held * points, blocks) - 1) / size)[blocks.column]
        support = points > threshold
    left = jnp.maximum(points - threshold, 0.0)
    return left / jnp.maximum(_sums(left, blocks), SMALLEST_SHARE)[blocks.column]


def _sums(values: Any, blocks: Blocks) -> Any:
    return jnp.matmul(blocks.member, values, precision=loss.HIGHEST)


def first_rows(layout: Layout, rows: int, shape: Shape) -> np.ndarray:
    """Where a fit begins: random rows of a fixed, public seed.

    RAP: uniform numbers, each block then made a distribution by sparsemax; RAP-softmax: normal
    logits; a box: uniform numbers in it.
    """
    rng = np.random.default_rng(0)
    if shape == "box":
        return rng.uniform(-1, 1, (layout.width, rows)).astype(np.float32)
    made = np.empty((layout.width, rows), np.float32)
    for column in layout.columns:
        span = layout.span(column)
        size = (span.stop - span.start, rows)
        if shape == "softmax":
            grown = np.exp(rng.standard_normal(size))
        else:
            points = rng.random(size)
            ranked = -np.sort(-points, axis=0)
            excess = (np.cumsum(ranked, axis=0) - 1) / np.arange(1, size[0] + 1)[:, None]
            held = (ranked > excess).sum(axis=0)
            grown = np.maximum(points - excess[held - 1, np.arange(rows)], 0)
        made[span] = grown / grown.sum(axis=0)
    return made
