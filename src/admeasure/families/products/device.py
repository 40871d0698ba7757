"""Scores of product rows on an accelerator, many tiles of cells in one call.

The same integers as on the host: the model's answers are rounded to the grid of `privacy.score` (a
public number), from there on arithmetic is in 32-bit integers, which hold them exactly as long as
`serves` says so. Exact counts are copied to the device and never come back.

Cut the columns of a query into `lead | trail` and its answers are a matrix, lead cells × trail
cells. It is covered by rectangles of at most `TILE`; `BATCH` of them, of one query or of several,
are scored by one call, which makes its lines of `P` from a few numbers for each tile. The scores
stay on the device. What comes back with the call are the `GROUPS` groups of `GROUP` neighbouring
cells with the largest scores: with them the host knows every score above the last group's largest,
which is nearly always all that a race asks, and waits once for a whole batch. The next batch is
sent to the device before the host looks at this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from admeasure.families.products import tiles
from admeasure.families.products.loss import padded
from admeasure.families.products.tensor import Layout, at_least_of
from admeasure.families.products.tiles import Static, Tiles, Truth
from admeasure.privacy.race import Ints
from admeasure.privacy.score import GRID
from admeasure.privacy.truth import Lent
from admeasure.queries import Marginal, Query, Threshold

TILE = (128, 4096)
"""The most lead cells × trail cells of a tile."""

BATCH = (16, 256)
"""Tiles of a call: few where all that is asked fits, else many."""

GROUP = 32
GROUPS = 1 << 14
MANY_GROUPS = 1 << 18
"""Groups that come back: with every call, and where a race asks for more."""

CLIP = 2**30 // GRID
"""Rows. A count on the grid, and a model answer of a total that `serves`, stay below 2**30."""

Asked = Marginal | Threshold


def serves(total: float) -> bool:
    """Whether there is an accelerator, and scores of so many rows fit 32 bits."""
    return jax.default_backend() != "cpu" and 2 * total * GRID < 2**31


def scores(
    P: Any, layout: Layout, total: float, queries: Sequence[Asked], exact: Lent
) -> Iterator[TileBatch]:
    """|exact - answers| for all cells of the queries, a batch of tiles at a time."""
    before = None
    for plan in _plans(layout, tuple(queries), TILE, BATCH, GROUPS):
        truth = exact.copied(plan, partial(_placed, plan, exact), _nbytes)
        made = tiles.scored(P, plan.tiles, truth, total * GRID, static=plan.static)
        if before is not None:
            yield before
        before = TileBatch(plan, DeviceScores(plan, *made))
    if before is not None:
        yield before


@dataclass(frozen=True)
class Span:
    """A rectangle: lead cells low … high - 1, trail cells left … right - 1, of `width`."""

    query: Asked
    lead: int
    low: int
    high: int
    left: int
    right: int
    width: int

    @property
    def size(self) -> int:
        return (self.high - self.low) * (self.right - self.left)


@dataclass(frozen=True, eq=False)
class Plan:
    """The rectangles of one batch. Compared by identity: a workload is planned once."""

    layout: Layout
    spans: tuple[Span, ...]
    count: int
    static: Static

    @cached_property
    def ends(self) -> Ints:
        return np.cumsum([0, *(s.size for s in self.spans)])

    @cached_property
    def ranges(self) -> dict[Asked, tuple[int, int]]:
        """Of each query, the range of its answers that the batch covers."""
        found: dict[Asked, tuple[int, int]] = {}
        for s in self.spans:
            low, high = found.get(s.query, (s.low * s.width, 0))
            found[s.query] = min(low, s.low * s.width), max(high, s.high * s.width)
        return found

    @cached_property
    def origins(self) -> dict[Asked, int]:
        """Where a query's answer 0 would stand if the ranges were put one after the other."""
        found, start = {}, 0
        for query, (low, high) in self.ranges.items():
            found[query] = start - low
            start += high - low
        return found

    @cached_property
    def tiles(self) -> Tiles:
        k, count = self.static.k, self.count
        corner, origin = np.zeros((count, 4), np.int32), np.zeros(count, np.int32)
        levels, starts = np.ones((count, k), np.int32), np.zeros((count, k), np.int32)
        leads, width = np.zeros(count, np.int32), np.ones(count, np.int32)
        for i, s in enumerate(self.spans):
            corner[i] = s.low, s.high, s.left, s.right
            levels[i] = self.layout.shape(s.query.columns)
            starts[i] = [self.layout.starts[c] for c in s.query.columns]
            leads[i], width[i] = s.lead, s.width
            if self.static.r < k:
                origin[i] = self.origins[s.query] + s.low * s.width + s.left
        return Tiles(corner, levels, starts, leads, width, origin)


@lru_cache(maxsize=4)
def _plans(
    layout: Layout,
    queries: tuple[Asked, ...],
    tile: tuple[int, int],
    batch: tuple[int, int],
    groups: int,
) -> tuple[Plan, ...]:
    """Batches of queries of one k and r each."""
    kinds: dict[tuple[int, int], list[Span]] = {}
    for query in queries:
        k, r = len(query.columns), at_least_of(query)
        kinds.setdefault((k, r), []).extend(_spans(layout, query, tile))
    plans = []
    for (k, r), spans in kinds.items():
        count = batch[0] if len(spans) <= batch[0] else batch[1]
        group = min(GROUP, tile[1])
        static = Static(k, r, tile, group, min(groups, count * tile[0] * tile[1] // group))
        start, kept = 0, 0
        for i, s in enumerate(spans):
            kept += s.size
            # A batch ends where it is full, or where its exact answers would pass 31 bits.
            full = i + 1 - start == count or kept + spans[i].width * tile[0] > 2**30
            if full or i + 1 == len(spans):
                plans.append(Plan(layout, tuple(spans[start : i + 1]), count, static))
                start, kept = i + 1, 0
    return tuple(plans)


def _spans(layout: Layout, query: Asked, tile: tuple[int, int]) -> Iterator[Span]:
    columns = query.columns

    def sides(lead: int) -> tuple[int, int]:
        return layout.cells(columns[:lead]), layout.cells(columns[lead:])

    def count(lead: int) -> int:
        a, b = sides(lead)
        return -(-a // tile[0]) * -(-b // tile[1])

    lead = min(range(len(columns)), key=count)
    a, b = sides(lead)
    for low in range(0, a, tile[0]):
        for left in range(0, b, tile[1]):
            high, right = min(low + tile[0], a), min(left + tile[1], b)
            yield Span(query, lead, low, high, left, right, b)


def _nbytes(truth: Truth) -> int:
    return sum(part.nbytes for part in truth if part is not None)


def _placed(plan: Plan, exact: Lent) -> Truth:
    # Clipped, counts stay exact in 32 bits even where the believed total is far too low; clipping
    # moves no two counts further apart, so the sensitivity stands.
    if plan.static.r == plan.static.k:
        return _sparse(plan, exact)
    values = np.zeros(_rounded_up(sum(h - low for low, h in plan.ranges.values())), np.int32)
    for query, (low, high) in plan.ranges.items():
        start = plan.origins[query] + low
        values[start : start + high - low] = np.minimum(exact.of(query).block(low, high), CLIP)
    return Truth(jnp.asarray(values), None, None)


def _sparse(plan: Plan, exact: Lent) -> Truth:
    places, counts = [], []
    cells = {query: exact.of(query).cells() for query in plan.ranges}
    size = plan.static.tile[0] * plan.static.tile[1]
    for i, s in enumerate(plan.spans):
        found, values = cells[s.query]
        first, last = np.searchsorted(found, [s.low * s.width, s.high * s.width])
        row, column = np.divmod(found[first:last].astype(np.int64), s.width)
        inside = (column >= s.left) & (column < s.right)
        row, column = row[inside] - s.low, column[inside] - s.left
        places.append(i * size + row * plan.static.tile[1] + column)
        counts.append(np.minimum(values[first:last][inside], CLIP))
    here = np.concatenate(places)
    padding = _rounded_up(max(len(here), 4096 * plan.count)) - len(here)
    return Truth(
        None,
        jnp.asarray(np.pad(here, (0, padding), constant_values=2**31 - 1).astype(np.int32)),
        jnp.asarray(np.pad(np.concatenate(counts), (0, padding)).astype(np.int32)),
    )


def _rounded_up(count: int) -> int:
    """One of few sizes, so that few compilations serve."""
    return 4 ** math.ceil(math.log(max(count, 4), 4) - 1e-12)


def fetched(found: tuple[Any, Any, Any, Any]) -> tuple[int, np.ndarray, np.ndarray]:
    """In memory: this waits for the device. The score above which all are there, the groups and
    their scores."""
    lowest, count, which, held = jax.device_get(found)
    return int(lowest), which[:count], held[:count]


@final
class DeviceScores:
    """The scores of one batch; a position counts the cells in use, tile after tile."""

    def __init__(self, plan: Plan, flat: Any, found: tuple[Any, Any, Any, Any]) -> None:
        self._plan, self._flat, self._found = plan, flat, found

    @property
    def size(self) -> int:
        return int(self._plan.ends[-1])

    def above(self, cut: int, most: int) -> tuple[Ints, Ints] | None:
        lowest, groups, held = self._fetched
        if cut < lowest:
            group = self._plan.static.group
            low = int(np.clip(cut, -1, 2**31 - 1))
            if int(tiles.groups_above(self._flat, low, group=group)) > min(most, MANY_GROUPS):
                return None
            many = min(MANY_GROUPS, self._flat.size // group)
            self._found = tiles.best(self._flat, group=group, groups=many)
            del self._fetched
            _, groups, held = self._fetched
        row, column = np.nonzero(held > cut)
        if len(row) > most:
            return None
        places = groups[row].astype(np.int64) * held.shape[1] + column
        positions = self._positions(places)
        order = np.argsort(positions)
        return positions[order], held[row, column].astype(np.int64)[order]

    def at(self, positions: Ints) -> Ints:
        places = np.zeros(padded(len(positions), 8), np.int32)
        places[: len(positions)] = self._places(positions)
        return np.asarray(tiles.at(self._flat, places))[: len(positions)].astype(np.int64)

    @cached_property
    def _fetched(self) -> tuple[int, np.ndarray, np.ndarray]:
        return fetched(self._found)

    def _places(self, positions: Ints) -> Ints:
        """Where on the device."""
        ends, (rows, width) = self._plan.ends, self._plan.static.tile
        which = np.searchsorted(ends, positions, side="right") - 1
        row, column = np.divmod(positions - ends[which], self._widths[which])
        return which * rows * width + row * width + column

    def _positions(self, places: Ints) -> Ints:
        rows, width = self._plan.static.tile
        which, inside = np.divmod(places, rows * width)
        row, column = np.divmod(inside, width)
        return self._plan.ends[which] + row * self._widths[which] + column

    @cached_property
    def _widths(self) -> Ints:
        return np.array([s.right - s.left for s in self._plan.spans])


@final
class TileBatch:
    """The scores of one batch, and which query each belongs to."""

    def __init__(self, plan: Plan, made: DeviceScores) -> None:
        self._plan, self.scores = plan, made

    @property
    def queries(self) -> Sequence[Query]:
        return list(self._plan.ranges)

    @property
    def place(self) -> _Place:
        return _Place(self._plan)

    def positions(self, query: Query, indices: np.ndarray) -> np.ndarray:
        """Where those of the query's cells stand that are in this batch."""
        found = [np.empty(0, np.int64)]
        for i, s in enumerate(self._plan.spans if len(indices) else ()):
            if s.query == query:
                row, column = np.divmod(indices, s.width)
                inside = (row >= s.low) & (row < s.high) & (column >= s.left) & (column < s.right)
                row, column = row[inside] - s.low, column[inside] - s.left
                found.append(self._plan.ends[i] + row * (s.right - s.left) + column)
        return np.concatenate(found)


@dataclass(frozen=True)
class _Place:
    """Holds the plan alone, so that the scores can go."""

    plan: Plan

    def __call__(self, position: int) -> tuple[Query, int]:
        i = int(np.searchsorted(self.plan.ends, position, side="right")) - 1
        s = self.plan.spans[i]
        row, column = divmod(int(position - self.plan.ends[i]), s.right - s.left)
        return s.query, (s.low + row) * s.width + s.left + column
