"""Fitting product rows to measurements: Adam on the rows themselves or on their logits.

Avent and Korolova (2023), Algorithm 3 (relaxed projection): min ‖Q(P) - a‖² over rows whose blocks
lie on the simplex. Two parametrisations: `sparsemax` steps on P and projects every block back to
the simplex after each step (RAP); `softmax` steps on logits (RAP-softmax, Liu, Vietri and Wu 2021).

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
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from admeasure.families.products import loss
from admeasure.families.products.tensor import Layout
from admeasure.privacy.measurement import Measurement
from admeasure.queries import Cell, Marginal, ThresholdCell

NEWTON_STEPS = 4
"""Steps of the search for a block's threshold, from the support that it had; then rescaled."""

LARGEST_LOGIT = 60.0
SMALLEST_SHARE = 1e-7


@dataclass(frozen=True)
class How:
    """How rows are fitted."""

    shape: Literal["sparsemax", "softmax"]
    learning_rate: float
    steps: int = 1000
    patience: int = 25
    tolerance: float = 0.01
    floor: float = 1.0
    """In units of the expected squared noise of all measurements."""


class Blocks(NamedTuple):
    """Which line belongs to which column: `member` (columns, lines) of 0 and 1, `column`."""

    member: Any
    column: Any


def minimise(
    P: np.ndarray, layout: Layout, log: Sequence[Measurement], total: float, how: How
) -> np.ndarray:
    """Rows fitted to everything measured, starting from `P`."""
    singles = [m for m in log if isinstance(m.query, Cell | ThresholdCell)]
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
    coarse = _Coarse(P, layout, named)
    if cells is not None:
        cells = cells._replace(lines=coarse.where[cells.lines].astype(np.int32))
    if tables is not None:
        tables = tables._replace(lead=coarse.lines(tables.lead), trail=coarse.lines(tables.trail))
    fitted = _fit(
        jnp.asarray(coarse.start), coarse.blocks, cells, tables, how.floor * noise, kind, how
    )
    return coarse.spread(np.asarray(fitted))


class _Coarse:
    """The named lines and one rest for each column that has others, padded."""

    def __init__(self, P: np.ndarray, layout: Layout, named: np.ndarray) -> None:
        self._P, self._layout, self._named = P, layout, named
        columns = len(layout.columns)
        mine = layout.column_of[named]
        inside = np.bincount(mine, minlength=columns)
        self._resting = np.flatnonzero(inside < np.asarray(layout.levels)).tolist()
        used = len(named) + len(self._resting)
        size = loss.padded(used, 2)
        self.where = np.zeros(layout.width, np.int64)
        self.where[named] = np.arange(len(named))
        column = np.full(size, columns, np.int32)
        column[: len(named)] = mine
        column[len(named) : used] = self._resting
        member = (column[None, :] == np.arange(columns + 1)[:, None]).astype(np.float32)
        self.blocks = Blocks(member, column)
        self.start = np.zeros((size, P.shape[1]), np.float32)
        self.start[: len(named)] = P[named]
        self._others = np.ones(layout.width, bool)
        self._others[named] = False
        for i, c in enumerate(self._resting):
            self.start[len(named) + i] = self._rest(c).sum(axis=0)

    def lines(self, lines: np.ndarray) -> np.ndarray:
        return np.where(lines < 0, -1, self.where[np.maximum(lines, 0)]).astype(np.int32)

    def _lines_of_rest(self, column: int) -> np.ndarray:
        span = self._layout.span(self._layout.columns[column])
        return span.start + np.flatnonzero(self._others[span])

    def _rest(self, column: int) -> np.ndarray:
        return self._P[self._lines_of_rest(column)]

    def spread(self, fitted: np.ndarray) -> np.ndarray:
        """All lines again: the rest of a column is divided as it was, evenly where it was none."""
        out = self._P.copy()
        out[self._named] = fitted[: len(self._named)]
        for i, c in enumerate(self._resting):
            lines, before = self._lines_of_rest(c), self._rest(c)
            held = before.sum(axis=0)
            parts = np.where(
                held > SMALLEST_SHARE,
                before / np.maximum(held, SMALLEST_SHARE),
                np.float32(1 / len(lines)),
            )
            out[lines] = parts * fitted[len(self._named) + i]
        return out


@partial(jax.jit, static_argnames=("kind", "how"))
def _fit(
    P: Any, blocks: Blocks, cells: Any, tables: Any, floor: Any, kind: loss.Kind, how: How
) -> Any:
    real = (blocks.column < blocks.member.shape[0] - 1)[:, None]
    rows = jnp.where(real, jnp.maximum(P, SMALLEST_SHARE), 0.0)
    params = jnp.log(jnp.where(real, rows, 1.0)) if how.shape == "softmax" else P
    make = partial(softmax, blocks=blocks) if how.shape == "softmax" else lambda p: p
    adam = optax.adam(how.learning_rate)

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
        moved = optax.apply_updates(p, change)
        if how.shape == "sparsemax":
            moved = sparsemax(moved, p > 0, blocks)
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


def first_rows(layout: Layout, rows: int, shape: str) -> np.ndarray:
    """Where a fit begins: random rows of a fixed, public seed.

    RAP: uniform numbers, each block then made a distribution by sparsemax; RAP-softmax: normal
    logits.
    """
    rng = np.random.default_rng(0)
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
