"""Squared errors of product rows against measurements, differentiable, in padded shapes.

Both losses take `P` of shape (lines, rows) and a record of arrays whose shapes come in few sizes,
so that a run compiles a handful of times however much it measures. Targets are shares.

Cells: q_j(P) is the mean over rows of the probability of at least r agreements; lines are gathered
for all queries at once. Tables: every cell of whole marginals, in tiles of `TILE` × `TILE` cells,
each one matrix product; the gradient is made in the same pass (`jax.custom_vjp`), a few tiles at a
time, so that memory does not grow with the number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from admeasure.families.products.tensor import Layout
from admeasure.measurement import Measurement
from admeasure.queries import Cell, Marginal, Threshold, ThresholdCell

TILE = 64
SMALLEST = 64
"""Counts of queries and lines are padded to SMALLEST times a power of 4 (tiles: of 2)."""

HIGHEST = jax.lax.Precision.HIGHEST

QUICK: dict[str, Any] | None = None
"""Options of compilers that try many kernels for every product of matrices, which takes longer than
a run does. They are asked for on an accelerator alone, where its compiler knows them."""


def _known(options: dict[str, Any]) -> dict[str, Any] | None:
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(np.float32(0))
    except Exception:  # whatever this version raises, it does without
        return None
    return options


if jax.default_backend() != "cpu":
    QUICK = _known({"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False})

TargetKind = Literal["all", "any", "mixed"]


class CellTargets(NamedTuple):
    """`lines`: (queries, k), `used`: which of the k, `at_least`, `targets`, `weights`."""

    lines: Any
    used: Any
    at_least: Any
    targets: Any
    weights: Any


class Tables(NamedTuple):
    """Tiles: lines of the lead cells (tiles, TILE, k) and of the trail cells, -1 where unused,
    `targets` and `weights` (tiles, TILE, TILE), and how many tiles there are."""

    lead: Any
    trail: Any
    targets: Any
    weights: Any
    count: Any


def padded(count: int, base: int = 4) -> int:
    """A size that serves for `count`. An accelerator takes hardly longer for some thousands more,
    but long to compile for another size."""
    if jax.default_backend() != "cpu":
        base *= base
    size = SMALLEST if jax.default_backend() == "cpu" else 4 * SMALLEST
    while size < count:
        size *= base
    return size


Counted = Cell | ThresholdCell | Threshold
"""What is fitted by single counts: one of them, or every target of a threshold."""


def kind_of(queries: Sequence[Counted]) -> TargetKind:
    """Which formula serves: a product, its complement, or the general one."""
    rs = [(q.at_least, len(q.columns)) for q in queries]
    if all(r == k for r, k in rs):
        return "all"
    return "any" if all(r == 1 for r, _ in rs) else "mixed"


Weigh = Callable[[Measurement], float]
"""What each squared error of a measurement weighs."""


def cells(
    log: Sequence[Measurement], layout: Layout, total: float, weigh: Weigh = lambda m: 1.0
) -> CellTargets:
    """The record of single queries, with lines of the given layout: those measured alone, then all
    targets of thresholds that were measured whole."""
    alone = [m for m in log if isinstance(m.query, Cell | ThresholdCell)]
    whole = [m for m in log if isinstance(m.query, Threshold)]
    count = len(alone) + sum(m.values.size for m in whole)
    k = max((len(m.query.columns) for m in alone + whole), default=1)
    size = padded(count)
    lines = np.zeros((size, k), np.int32)
    used = np.zeros((size, k), bool)
    r = np.ones(size, np.int32)
    targets, weights = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for j, m in enumerate(alone):
        q = cast("Cell | ThresholdCell", m.query)
        places = [layout.starts[c] + v for c, v in zip(q.columns, q.codes, strict=True)]
        lines[j, : len(places)], used[j, : len(places)] = places, True
        r[j] = q.at_least
    targets[: len(alone)] = [float(m.values) / total for m in alone]
    weights[: len(alone)] = [weigh(m) for m in alone]
    start = len(alone)
    for m in whole:
        q, part = cast("Threshold", m.query), slice(start, start + m.values.size)
        lines[part, : len(q.columns)] = layout.lines(q.columns, 0, m.values.size).T
        used[part, : len(q.columns)], r[part] = True, q.at_least
        targets[part], weights[part] = m.values.reshape(-1) / total, weigh(m)
        start = part.stop
    return CellTargets(lines, used, r, targets, weights)


@partial(jax.jit, static_argnames="kind")
def cell_answers(P: Any, data: CellTargets, kind: TargetKind = "mixed") -> Any:
    """q_j(P) for every query of the record."""
    k = data.lines.shape[1]
    fill = 1.0 if kind == "all" else 0.0
    p = [jnp.where(data.used[:, s, None], P[data.lines[:, s]], fill) for s in range(k)]
    if kind == "all":
        met = math.prod(p[1:], start=p[0])
    elif kind == "any":
        met = 1 - math.prod((1 - x for x in p[1:]), start=1 - p[0])
    else:
        exactly = [jnp.ones_like(p[0])]
        for s in range(k):
            q = 1 - p[s]
            inner = [exactly[j] * q + exactly[j - 1] * p[s] for j in range(1, s + 1)]
            exactly = [exactly[0] * q, *inner, exactly[-1] * p[s]]
        enough = [e * (j >= data.at_least)[:, None] for j, e in enumerate(exactly)]
        met = sum(enough, jnp.zeros_like(p[0]))
    return met.mean(axis=1)


def cell_loss(P: Any, data: CellTargets, kind: TargetKind = "mixed") -> Any:
    """Σ_j (q_j(P) - a_j)²."""
    return jnp.sum(data.weights * (cell_answers(P, data, kind) - data.targets) ** 2)


def tables(
    log: Sequence[Measurement], layout: Layout, total: float, weigh: Weigh = lambda m: 1.0
) -> Tables:
    """The record of whole marginals."""
    measured = [m for m in log if isinstance(m.query, Marginal) and m.query.columns]
    made: list[tuple[np.ndarray, ...]] = []
    k = max((len(m.query.columns) for m in measured), default=1)
    for m in measured:
        made += _tiles(m, layout, total, k, weigh(m))
    size = padded(len(made), 2)
    shapes = [(size, TILE, k), (size, TILE, k), (size, TILE, TILE), (size, TILE, TILE)]
    kinds = (np.int32, np.int32, np.float32, np.float32)
    out = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
    out[0] -= 1
    out[1] -= 1
    for i, tile in enumerate(made):
        for array, part in zip(out, tile, strict=True):
            array[i] = part
    return Tables(out[0], out[1], out[2], out[3], np.int32(len(made)))


def _tiles(
    m: Measurement, layout: Layout, total: float, k: int, weight: float
) -> list[tuple[np.ndarray, ...]]:
    columns = m.query.columns

    # The cut into lead and trail that needs the fewest tiles.
    def count(lead: int) -> int:
        sides = layout.cells(columns[:lead]), layout.cells(columns[lead:])
        return -(-sides[0] // TILE) * -(-sides[1] // TILE)

    lead = min(range(len(columns)), key=count)
    sides = []
    for part in (columns[:lead], columns[lead:]):
        cells = layout.cells(part)
        lines = np.full((-(-cells // TILE) * TILE, k), -1, np.int32)
        lines[:cells, : len(part)] = layout.lines(part, 0, cells).T
        sides.append((cells, lines))
    (a, first), (b, second) = sides
    y = np.zeros((len(first), len(second)), np.float32)
    w = np.zeros_like(y)
    y[:a, :b] = m.values.reshape(a, b) / total
    w[:a, :b] = weight
    return [
        (
            first[i : i + TILE],
            second[j : j + TILE],
            y[i : i + TILE, j : j + TILE],
            w[i : i + TILE, j : j + TILE],
        )
        for i in range(0, len(first), TILE)
        for j in range(0, len(second), TILE)
    ]


@jax.custom_vjp
def table_loss(P: Any, data: Tables) -> Any:
    """Σ over all cells of the measured marginals of (M(P) - y)²."""
    return _table_pass(P, data)[0]


def _table_pass(P: Any, data: Tables) -> tuple[Any, Any]:
    """The loss and its gradient, `chunk` tiles at a time."""
    P = jnp.asarray(P)
    chunk = 4 if jax.default_backend() == "cpu" else 64
    rows = P.shape[1]

    def tile(lead: Any, trail: Any, y: Any, w: Any) -> Any:
        z, v = (math.prod(parts[1:], start=parts[0]) for parts in (lead, trail))
        shares = jnp.einsum("tar,tbr->tab", z, v, precision=HIGHEST) / rows
        return jnp.sum(w * (shares - y) ** 2)

    def gather(lines: Any) -> Any:
        return [
            jnp.where((lines[:, :, s] >= 0)[..., None], P[jnp.maximum(lines[:, :, s], 0)], 1.0)
            for s in range(lines.shape[2])
        ]

    def scatter(total: Any, lines: Any, slopes: Any) -> Any:
        for s in range(lines.shape[2]):
            here = jnp.where((lines[:, :, s] >= 0)[..., None], slopes[s], 0.0)
            total = total.at[jnp.maximum(lines[:, :, s], 0).reshape(-1)].add(here.reshape(-1, rows))
        return total

    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        loss, slope = state
        lead, trail, y, w = (jax.lax.dynamic_slice_in_dim(x, i * chunk, chunk) for x in data[:4])
        value, (a, b) = jax.value_and_grad(tile, (0, 1))(gather(lead), gather(trail), y, w)
        return loss + value, scatter(scatter(slope, lead, a), trail, b)

    start = (jnp.zeros((), P.dtype), jnp.zeros_like(P))
    return jax.lax.fori_loop(0, (data.count + chunk - 1) // chunk, step, start)


def _table_backward(slope: Any, above: Any) -> tuple[Any, None]:
    return above * slope, None


table_loss.defvjp(_table_pass, _table_backward)
