"""What `device` computes on the accelerator: scores of many tiles in one call.

Every tile has the same padded shape; what differs between tiles (columns, levels, where its
rectangle lies) arrives as a few numbers, from which the lines of `P` are made on the device. So one
compilation serves all queries of the same k and r.

Floating point and private numbers never meet in one compilation. `answered` makes whole numbers of
the model's answers, from public numbers and in shapes that are public; `compared` and `put` bring
in exact counts, in integers. So the answers are the same bits whatever the table is, and a score
moves between neighbours by what its count moves, on the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from admeasure.families.products.loss import HIGHEST, QUICK
from admeasure.privacy.scores.score import GRID

AT_ONCE = 8
"""Tiles that are worked on together."""


class Tiles(NamedTuple):
    """For each tile: its rectangle in the matrix of its query (`corner`: lead from, to, trail
    from, to), `levels` and `starts` of the columns, how many of them lead (`leads`), the `width` of
    the matrix, and where the rectangle's first answer stands in the array of exact answers."""

    corner: Any
    levels: Any
    starts: Any
    leads: Any
    width: Any
    origin: Any


class Cells(NamedTuple):
    """Some of the cells that occur: `places` among the scores (beyond them where unused), and
    `counts`."""

    places: Any
    counts: Any


class Truth(NamedTuple):
    """Exact answers of a batch: `values`, flat; or the cells that occur, so many at a time."""

    values: Any
    cells: tuple[Cells, ...] = ()


@dataclass(frozen=True)
class Static:
    """What a compilation is for."""

    k: int
    r: int
    tile: tuple[int, int]
    group: int
    groups: int


def scored(
    P: Any, tiles: Tiles, truth: Truth, scale: Any, *, static: Static
) -> tuple[Any, tuple[Any, Any, Any, Any]]:
    """|exact - answers| on the grid for every cell of every tile, -1 where a tile is not in use;
    and the `best` groups of cells."""
    flat = answered(P, tiles, scale, static=static)
    if truth.values is not None:
        flat = compared(flat, tiles, truth.values, static=static)
    for cells in truth.cells:
        flat = put(flat, cells)
    return flat, best(flat, group=static.group, groups=static.groups)


@partial(jax.jit, static_argnames="static", compiler_options=QUICK)
def answered(P: Any, tiles: Tiles, scale: Any, *, static: Static) -> Any:
    """The model's answers on the grid, whole numbers from 0 to `scale` whatever `P` holds; -1 where
    a tile is not in use."""
    # A column that is not on this side of a tile reads the last line, which changes nothing: it
    # always agrees for a marginal, else it never does.
    fill = 1.0 if static.r == static.k else 0.0
    P = jnp.concatenate([P, jnp.full((1, P.shape[1]), fill, P.dtype)])
    one = partial(_tile, P, scale, static=static)
    return jax.lax.map(one, tiles, batch_size=AT_ONCE).reshape(-1)


@partial(jax.jit, static_argnames="static", donate_argnames="flat")
def compared(flat: Any, tiles: Tiles, values: Any, *, static: Static) -> Any:
    """|exact - answers| for all cells, of all exact answers."""
    rows, width = static.tile

    def one(of: tuple[Any, Tiles]) -> Any:
        answers, tile = of
        i, j = jnp.arange(rows)[:, None], jnp.arange(width)[None, :]
        inside = jnp.clip(tile.origin + i * tile.width + j, 0, values.shape[0] - 1)
        return jnp.where(answers < 0, -1, jnp.abs(values[inside] * GRID - answers))

    parts = flat.reshape(-1, rows, width), tiles
    return jax.lax.map(one, parts, batch_size=AT_ONCE).reshape(-1)


@partial(jax.jit, donate_argnames="flat")
def put(flat: Any, cells: Cells) -> Any:
    """|exact - answers| for some cells that occur. Where none does, the answer is the score."""
    there = flat.at[cells.places].get(mode="fill", fill_value=0)
    return flat.at[cells.places].set(jnp.abs(cells.counts * GRID - there), mode="drop")


@partial(jax.jit, static_argnames=("group", "groups"))
def best(flat: Any, *, group: int, groups: int) -> tuple[Any, Any, Any, Any]:
    """The lowest score above which at most so many groups reach; how many do, which, and all of
    their scores. By halving: to compile a sort takes seconds."""
    parts = flat.reshape(-1, group)
    top = parts.max(axis=1)

    def halve(_: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = ends
        middle = low + (high - low) // 2
        few = (top > middle).sum() <= groups
        return jnp.where(few, low, middle), jnp.where(few, middle, high)

    _, lowest = jax.lax.fori_loop(0, 31, halve, (jnp.int32(-1), jnp.int32(2**31 - 2)))
    lowest = jnp.where((top > -1).sum() <= groups, -1, lowest)
    over = top > lowest
    place = jnp.where(over, jnp.cumsum(over) - 1, groups)
    which = jnp.zeros(groups, jnp.int32)
    which = which.at[place].set(jnp.arange(len(top), dtype=jnp.int32), mode="drop")
    return lowest, over.sum(), which, parts[which]


@partial(jax.jit, static_argnames="group")
def groups_above(flat: Any, cut: Any, *, group: int) -> Any:
    return (flat.reshape(-1, group).max(axis=1) > cut).sum()


@jax.jit
def at(flat: Any, places: Any) -> Any:
    return flat[places]


def _tile(P: Any, scale: Any, tile: Tiles, *, static: Static) -> Any:
    rows, width = static.tile
    low, high, left, right = (tile.corner[i] for i in range(4))
    lead = jnp.minimum(low + jnp.arange(rows), high - 1)
    trail = jnp.minimum(left + jnp.arange(width), right - 1)
    a, b = _lines(tile, lead, trail, static.k, P.shape[0] - 1)
    shares = _shares(P, a, b, static.r)
    grid = jnp.rint(jnp.clip(jnp.nan_to_num(shares), 0.0, 1.0) * scale).astype(jnp.int32)
    used = (low + jnp.arange(rows) < high)[:, None] & (left + jnp.arange(width) < right)
    return jnp.where(used, grid, -1)


def _lines(tile: Tiles, lead: Any, trail: Any, k: int, other: int) -> tuple[list[Any], list[Any]]:
    """For each column the lines of the lead cells and of the trail cells."""
    first, second = [], []
    a = b = jnp.ones((), jnp.int32)
    for s in reversed(range(k)):
        leads, levels = s < tile.leads, tile.levels[s]
        first.append(jnp.where(leads, tile.starts[s] + lead // a % levels, other))
        second.append(jnp.where(leads, other, tile.starts[s] + trail // b % levels))
        a, b = jnp.where(leads, a * levels, a), jnp.where(leads, b, b * levels)
    return first, second


def _shares(P: Any, lead: list[Any], trail: list[Any], r: int) -> Any:
    """Mean over rows of the probability of at least r agreements: (lead cells, trail cells)."""
    k, n = len(lead), P.shape[1]

    def met(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b.T, precision=HIGHEST) / n

    def all_of(Q: Any, lines: list[Any]) -> Any:
        out = Q[lines[0]]
        for line in lines[1:]:
            out = out * Q[line]
        return out

    def exactly(lines: list[Any]) -> list[Any]:
        found = [jnp.ones((lines[0].shape[0], n), P.dtype)]
        for line in lines:
            p = P[line]
            inner = [found[j] * (1 - p) + found[j - 1] * p for j in range(1, len(found))]
            found = [found[0] * (1 - p), *inner, found[-1] * p]
        return found

    if r == k:
        return met(all_of(P, lead), all_of(P, trail))
    if r == 1:
        return 1 - met(all_of(1 - P, lead), all_of(1 - P, trail))
    a, b = exactly(lead), exactly(trail)
    shares = sum((x.sum(axis=1) for x in a[r:]), jnp.zeros(lead[0].shape[0]))[:, None] / n
    for j in range(r):
        shares = shares + met(a[j], sum(b[r - j :]))
    return shares
