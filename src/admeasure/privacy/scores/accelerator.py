"""Scores of product rows on an accelerator, many tiles of cells in one call.

The same integers as on the host: the model's answers are rounded to the grid of `scores.score` (a
public number), from there on arithmetic is in 32-bit integers, which hold them exactly as long as
`fits_32_bits` says so. Exact counts are copied to the device and never come back.

Cut the columns of a query into `lead | trail` and its answers are a matrix, lead cells × trail
cells. It is covered by rectangles of at most `tile`; a `batch` of them, of one query or of several,
is scored together, which makes its lines of `P` from a few numbers for each tile. The scores stay
on the device. What comes back are the `groups` groups of `group` neighbouring cells with the
largest scores: with them the host knows every score above the last group's largest, which is nearly
always all that a race asks, and waits once for a whole batch. The next batch is sent to the device
before the host looks at this one.

A tile that is larger than its rectangle has cells that no query asks about. On the device they hold
-1, less than any score, so that their groups come last. Here they do not exist: `above` gives out a
position only where a rectangle has one.

What a compilation is for, and so every shape of an array, follows from the queries and the tiling,
which are public. The cells that occur come in parts of a fixed size. How many parts there are, how
often the device is asked again, and so time and memory, depend on the table; no score does, but by
its own count (`tiles`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from admeasure.families.products.placement import Placed, Tiling
from admeasure.families.products.tensor import Layout
from admeasure.privacy.race import Ints
from admeasure.privacy.scores import tiles
from admeasure.privacy.scores.score import GRID
from admeasure.privacy.scores.tiles import Cells, Static, Tiles, Truth
from admeasure.privacy.truth import ExactAnswers
from admeasure.queries import Query, Targets

NOWHERE = 2**31 - 1
"""A place beyond all scores."""

CLIP = 2**30 // GRID
"""Rows. A count on the grid, and an answer of a total that `fits_32_bits` allows, < 2**30."""


def scored(placed: Placed, queries: Sequence[Targets], exact: ExactAnswers) -> Iterator[TileBatch]:
    """|exact - answers| for all cells of the queries, a batch of tiles at a time."""
    before = None
    for plan in plans(placed.layout, tuple(queries), placed.tiling):
        truth = exact.copied(plan, partial(_placed, plan, exact), _nbytes)
        made = tiles.scored(placed.P, plan.tiles, truth, placed.total * GRID, static=plan.static)
        if before is not None:
            yield before
        before = TileBatch(plan, DeviceScores(plan, *made))
    if before is not None:
        yield before


@dataclass(frozen=True)
class Span:
    """A rectangle: lead cells low … high - 1, trail cells left … right - 1, of `width`."""

    query: Targets
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
class BatchPlan:
    """The rectangles of one batch. Compared by identity: a workload is planned once."""

    layout: Layout
    spans: tuple[Span, ...]
    count: int
    static: Static
    tiling: Tiling

    @cached_property
    def ends(self) -> Ints:
        return np.cumsum([0, *(s.size for s in self.spans)])

    @cached_property
    def ranges(self) -> dict[Targets, tuple[int, int]]:
        """Of each query, the range of its answers that the batch covers."""
        found: dict[Targets, tuple[int, int]] = {}
        for s in self.spans:
            low, high = found.get(s.query, (s.low * s.width, 0))
            found[s.query] = min(low, s.low * s.width), max(high, s.high * s.width)
        return found

    @cached_property
    def origins(self) -> dict[Targets, int]:
        """Where a query's answer 0 would stand if the ranges were put one after the other."""
        found, start = {}, 0
        for query, (low, high) in self.ranges.items():
            found[query] = start - low
            start += high - low
        return found

    def place(self, position: int) -> tuple[Query, int]:
        """Which query a position belongs to, and as which of its answers."""
        i = int(np.searchsorted(self.ends, position, side="right")) - 1
        s = self.spans[i]
        row, column = divmod(int(position - self.ends[i]), s.right - s.left)
        return s.query, (s.low + row) * s.width + s.left + column

    @cached_property
    def heights(self) -> Ints:
        return np.array([s.high - s.low for s in self.spans])

    @cached_property
    def widths(self) -> Ints:
        return np.array([s.right - s.left for s in self.spans])

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
def plans(layout: Layout, queries: tuple[Targets, ...], tiling: Tiling) -> tuple[BatchPlan, ...]:
    """Batches of queries of one k and r each."""
    tile, batch = tiling.tile, tiling.batch
    kinds: dict[tuple[int, int], list[Span]] = {}
    for query in queries:
        k, r = len(query.columns), query.at_least
        kinds.setdefault((k, r), []).extend(_spans(layout, query, tile))
    made = []
    for (k, r), spans in kinds.items():
        count = batch[0] if len(spans) <= batch[0] else batch[1]
        group = min(tiling.group, tile[1])
        groups = min(tiling.groups, count * tile[0] * tile[1] // group)
        static = Static(k, r, tile, group, groups)
        start, kept = 0, 0
        for i, s in enumerate(spans):
            kept += s.size
            # A batch ends where it is full, or where its exact answers would pass 31 bits.
            full = i + 1 - start == count or kept + spans[i].width * tile[0] > 2**30
            if full or i + 1 == len(spans):
                made.append(BatchPlan(layout, tuple(spans[start : i + 1]), count, static, tiling))
                start, kept = i + 1, 0
    return tuple(made)


def _spans(layout: Layout, query: Targets, tile: tuple[int, int]) -> Iterator[Span]:
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
    return sum(array.nbytes for array in jax.tree.leaves(truth))


def _placed(plan: BatchPlan, exact: ExactAnswers) -> Truth:
    # Clipped, counts stay exact in 32 bits even where the believed total is far too low; clipping
    # moves no two counts further apart, so the sensitivity stands.
    if plan.static.r == plan.static.k:
        return _sparse(plan, exact)
    values = np.zeros(_rounded_up(sum(h - low for low, h in plan.ranges.values())), np.int32)
    for query, (low, high) in plan.ranges.items():
        start = plan.origins[query] + low
        values[start : start + high - low] = np.minimum(exact.of(query).block(low, high), CLIP)
    return Truth(jnp.asarray(values))


def _sparse(plan: BatchPlan, exact: ExactAnswers) -> Truth:
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
    part = plan.tiling.part * plan.count
    pairs = zip(
        _parts(np.concatenate(places), part, NOWHERE),
        _parts(np.concatenate(counts), part, 0),
        strict=True,
    )
    return Truth(None, tuple(Cells(jnp.asarray(p), jnp.asarray(c)) for p, c in pairs))


def _parts(values: np.ndarray, size: int, fill: int) -> Iterator[np.ndarray]:
    """Parts of one size, at least one, the last filled up."""
    for start in range(0, max(len(values), 1), size):
        made = np.full(size, fill, np.int32)
        held = values[start : start + size]
        made[: len(held)] = held
        yield made


def _rounded_up(count: int) -> int:
    """One of few sizes, so that few compilations serve."""
    size = 4
    while size < count:
        size *= 4
    return size


def fetched(found: tuple[Any, Any, Any, Any]) -> tuple[int, np.ndarray, np.ndarray]:
    """In memory: this waits for the device. The score above which all are there, the groups and
    their scores."""
    lowest, count, which, held = jax.device_get(found)
    return int(lowest), which[:count], held[:count]


@final
class DeviceScores:
    """The scores of one batch; a position counts the cells in use, tile after tile."""

    def __init__(self, plan: BatchPlan, flat: Any, found: tuple[Any, Any, Any, Any]) -> None:
        self._plan, self._flat, self._found = plan, flat, found

    @property
    def size(self) -> int:
        return int(self._plan.ends[-1])

    def above(self, cut: int, most: int) -> tuple[Ints, Ints] | None:
        cut = max(cut, -1)  # no score is below 0, and what is there is none
        lowest, groups, held = self._fetched
        if cut < lowest:
            group, many_groups = self._plan.static.group, self._plan.tiling.many_groups
            if int(tiles.groups_above(self._flat, cut, group=group)) > min(most, many_groups):
                return None
            many = min(many_groups, self._flat.size // group)
            self._found = tiles.best(self._flat, group=group, groups=many)
            del self._fetched
            _, groups, held = self._fetched
        row, column = np.nonzero(held > cut)
        positions, real = self._positions(groups[row].astype(np.int64) * held.shape[1] + column)
        if len(positions) > most:
            return None
        order = np.argsort(positions)
        return positions[order], held[row, column].astype(np.int64)[real][order]

    def at(self, positions: Ints) -> Ints:
        found = [np.empty(0, np.int64)]
        parts = _parts(self._places(positions), self._plan.tiling.asked, 0)
        for places in parts if len(positions) else ():
            found.append(np.asarray(tiles.at(self._flat, places)).astype(np.int64))
        return np.concatenate(found)[: len(positions)]

    @cached_property
    def _fetched(self) -> tuple[int, np.ndarray, np.ndarray]:
        return fetched(self._found)

    def _places(self, positions: Ints) -> Ints:
        """Where on the device."""
        ends, (rows, width) = self._plan.ends, self._plan.static.tile
        which = np.searchsorted(ends, positions, side="right") - 1
        row, column = np.divmod(positions - ends[which], self._plan.widths[which])
        return which * rows * width + row * width + column

    def _positions(self, places: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The positions of those places that a rectangle has, and which they are."""
        plan, (rows, width) = self._plan, self._plan.static.tile
        which, inside = np.divmod(places, rows * width)
        row, column = np.divmod(inside, width)
        real = which < len(plan.spans)
        which = np.where(real, which, 0)
        real &= (row < plan.heights[which]) & (column < plan.widths[which])
        found = plan.ends[which] + row * plan.widths[which] + column
        return found[real], real


@final
class TileBatch:
    """The scores of one batch, and which query each belongs to."""

    def __init__(self, plan: BatchPlan, made: DeviceScores) -> None:
        self._plan, self.scores = plan, made
        self.place = plan.place  # which holds the plan alone, so that the scores can go

    @property
    def queries(self) -> Sequence[Query]:
        return list(self._plan.ranges)

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
