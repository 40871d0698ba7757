"""Scores of product rows on an accelerator, a tile of cells at a time.

The same integers as on the host: the model's answers are rounded to the grid of `privacy.score` (a
public number), from there on arithmetic is in 32-bit integers, which hold them exactly as long as
`serves` says so. Exact counts are copied to the device and never come back; of a tile's scores the
host asks for those above a cut and those at a few positions, which is all that a race needs.

Tiles come in three shapes of equal size, so that few compilations serve every query.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from admeasure.families.products.loss import HIGHEST, padded
from admeasure.families.products.tensor import Layout, at_least_of
from admeasure.privacy.race import Ints
from admeasure.privacy.score import GRID, Exact
from admeasure.queries import Marginal, Threshold

SHAPES = ((512, 8192), (4096, 1024), (32768, 128))
"""Lead cells × trail cells of a tile."""

MOST = 8192
"""The most scores above a cut that are handed over."""

CLIP = 2**30 // GRID
"""Rows. A count on the grid, and a model answer of a total that `serves`, stay below 2**30."""


def serves(total: float) -> bool:
    """Whether there is an accelerator, and scores of so many rows fit 32 bits."""
    return jax.default_backend() != "cpu" and 2 * total * GRID < 2**31


def scores(
    P: Any, layout: Layout, total: float, query: Marginal | Threshold, exact: Exact
) -> Iterator[DeviceScores]:
    """|exact - answers| for all cells of a query, tile by tile; the cells of a tile in C order.

    A tile covers whole lines of trail cells, so tiles follow each other in C order; where the
    trail is longer than a tile, a tile covers one lead cell at a time and a part of its trail.
    """
    columns, r = query.columns, at_least_of(query)
    plan = _plan(layout, columns)
    placed = exact.copied(lambda values: [jnp.asarray(part) for part in plan.parts(values)])
    for (lead, trail, rows, width), truth in zip(plan.tiles, placed, strict=True):
        made = _tile(P, lead, trail, truth, total * GRID, rows, width, r=r, k=len(columns))
        yield DeviceScores(made, rows, width)


@lru_cache(maxsize=256)
def _plan(layout: Layout, columns: tuple[str, ...]) -> _Plan:
    return _Plan(layout, columns)


@final
class DeviceScores:
    """The scores of one tile, `rows` × `width` of its cells in use."""

    def __init__(self, tile: Any, rows: int, width: int) -> None:
        self._tile, self._rows, self._width = tile, rows, width

    @property
    def size(self) -> int:
        return self._rows * self._width

    def above(self, cut: int, most: int) -> tuple[Ints, Ints] | None:
        low = int(np.clip(cut, -1, 2**31 - 1))
        count, places, values = jax.device_get(_above(self._tile, low))
        if count > min(most, MOST):
            return None
        row, column = np.divmod(places[:count].astype(np.int64), self._tile.shape[1])
        return row * self._width + column, values[:count].astype(np.int64)

    def at(self, positions: Ints) -> Ints:
        row, column = np.divmod(positions, self._width)
        places = np.zeros(padded(len(positions)), np.int32)
        places[: len(positions)] = row * self._tile.shape[1] + column
        return np.asarray(_at(self._tile, places))[: len(positions)].astype(np.int64)


class _Plan:
    """How a query is cut into tiles."""

    def __init__(self, layout: Layout, columns: tuple[str, ...]) -> None:
        self._layout, self._columns = layout, columns
        options = []
        for lead in range(len(columns)):
            a, b = layout.cells(columns[:lead]), layout.cells(columns[lead:])
            for shape in SHAPES:
                if b <= shape[1] or lead == len(columns) - 1:
                    options.append((-(-a // shape[0]) * -(-b // shape[1]), lead, shape))
        _, self._lead, self._shape = min(options)
        self._a, self._b = layout.cells(columns[: self._lead]), layout.cells(columns[self._lead :])

    def _spans(self) -> Iterator[tuple[int, int, int, int]]:
        rows, width = self._shape if self._b <= self._shape[1] else (1, self._shape[1])
        for low in range(0, self._a, rows):
            for left in range(0, self._b, width):
                yield low, min(low + rows, self._a), left, min(left + width, self._b)

    def parts(self, values: np.ndarray) -> Iterator[np.ndarray]:
        table = values.reshape(self._a, self._b)
        for low, high, left, right in self._spans():
            out = np.zeros(self._shape, np.int32)
            # Clipped, counts stay exact in 32 bits even where the believed total is far too low;
            # clipping moves no two counts further apart, so the sensitivity stands.
            out[: high - low, : right - left] = np.minimum(table[low:high, left:right], CLIP)
            yield out

    @cached_property
    def tiles(self) -> list[tuple[Any, Any, int, int]]:
        """Lines of lead and trail, on the device, and how many of them are in use."""
        k, found = len(self._columns), []
        for low, high, left, right in self._spans():
            lead = np.full((k, self._shape[0]), -1, np.int32)
            trail = np.full((k, self._shape[1]), -1, np.int32)
            first, second = self._columns[: self._lead], self._columns[self._lead :]
            lead[: len(first), : high - low] = self._layout.lines(first, low, high)
            trail[: len(second), : right - left] = self._layout.lines(second, left, right)
            found.append((jnp.asarray(lead), jnp.asarray(trail), high - low, right - left))
        return found


@partial(jax.jit, static_argnames=("r", "k"))
def _tile(
    P: Any, lead: Any, trail: Any, truth: Any, scale: Any, rows: Any, width: Any, *, r: int, k: int
) -> Any:
    """Scores, -1 where the tile is not in use. An unused line counts as one that always agrees for
    a marginal, else as one that never does: neither changes the number of agreements."""
    n = P.shape[1]

    def gathered(lines: Any, fill: float) -> list[Any]:
        return [
            jnp.where((lines[s] >= 0)[:, None], P[jnp.maximum(lines[s], 0)], fill) for s in range(k)
        ]

    def exactly(lines: Any) -> list[Any]:
        found = [jnp.ones((lines.shape[1], n), P.dtype)]
        for p in gathered(lines, 0.0):
            inner = [found[j] * (1 - p) + found[j - 1] * p for j in range(1, len(found))]
            found = [found[0] * (1 - p), *inner, found[-1] * p]
        return found

    def met(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b.T, precision=HIGHEST)

    def all_of(lines: Any, fill: float) -> Any:
        parts = gathered(lines, fill) if fill else [1 - p for p in gathered(lines, fill)]
        out = parts[0]
        for part in parts[1:]:
            out = out * part
        return out

    if r == k:
        shares = met(all_of(lead, 1.0), all_of(trail, 1.0)) / n
    elif r == 1:
        shares = 1 - met(all_of(lead, 0.0), all_of(trail, 0.0)) / n
    else:
        a, b = exactly(lead), exactly(trail)
        shares = sum((x.sum(axis=1) for x in a[r:]), jnp.zeros(lead.shape[1]))[:, None] / n
        for j in range(r):
            shares = shares + met(a[j], sum(b[r - j :])) / n
    grid = jnp.rint(jnp.clip(shares, 0.0, 1.0) * scale).astype(jnp.int32)
    score = jnp.abs(truth * GRID - grid)
    used = (jnp.arange(truth.shape[0]) < rows)[:, None] & (jnp.arange(truth.shape[1]) < width)
    return jnp.where(used, score, -1)


@jax.jit
def _above(tile: Any, cut: Any) -> tuple[Any, Any, Any]:
    flat = tile.reshape(-1)
    over = flat > cut
    (places,) = jnp.nonzero(over, size=MOST, fill_value=0)
    return over.sum(), places, flat[places]


@jax.jit
def _at(tile: Any, places: Any) -> Any:
    return tile.reshape(-1)[places]
