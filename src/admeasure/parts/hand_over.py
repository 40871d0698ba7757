"""What a tree cannot hold: when all pairs go to a mixture of products instead, and how.

Where every column depends on a few hidden ones, all pairs are dependent, and a junction tree holds
few of them. Then it is better to measure them all with what is left of the budget and to fit rows
of product distributions to them (`families/products/pairs.py`), begun from rows of the tree. Where
a tree does hold the table, it is much worse. So pairs that were drawn in public are measured before
the rounds, a look, and not fitted: how far the model is from them says without bias how far it is
from all pairs. When as many marginals were chosen as a tree has edges (before, what it says of
columns far from each other has no way to go), two errors are compared after each round, both of
pairs:

- after a hand-over now: where the model misses a squared effect c of each pair, as a share (c is
  from the look), and all pairs share what is left, with noise q on it, c q / (c + q) is missed. To
  it comes what product rows cannot hold, whatever is measured: a mixture is fitted to the model's
  own pairs, and what it misses of them is seen without noise. Of many rows, whose pairs have
  little noise, that is most of the error;
- of the tree in the end, if c falls on as c / (1 + k s), with s what rounds have spent since the
  look: the strongest come first, so what a further part of the budget takes off falls with the
  square of what is left. Noise in what the tree measures is not counted, which favours it.

Released: noisy marginals, the look and all pairs, each charged to the ledger; one row moves one
cell of each by one, so their sensitivity is that of any marginal under both relations. What is
looked at is drawn without the table; whether to look and when to hand over are functions of
released values and of public facts, and cost nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.families import HALF_NORMAL, Model
from admeasure.families.products.pairs import (
    ROWS,
    centred,
    freedom,
    missed_by_products,
    seconds_of,
)
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal
from admeasure.unit import Unit
from admeasure.workload import Workload

MAY = (
    "If pairs turn out to be dependent beyond what a tree can hold, all of them are measured with "
    "what is left of the budget and a mixture of products takes the tree's place, in about "
    "{seconds:.1g} s more. --hand-over never leaves it out."
)
HANDED = (
    "Pairs are dependent beyond what a tree can hold: all {pairs:,} were measured, and a mixture "
    "of products answers."
)
MOST_PAIRS = 2**14
"""Each is a line of the journal."""
MOST_LINES = 2_500
"""Levels of all columns together: the time of a fit grows with their square."""
HOPELESS = 0.5
"""The part of the table that noise on a pair may be, if all have the whole budget, for a look."""
LARGEST_LOOK = Fraction(1, 40)
QUIET = 10
"""How many times less noise there is in what a look says than if all pairs had the budget."""
STRONGEST = 0.1
"""The part of the pairs looked at, the worst answered, that is left out: a few strong pairs are for
the tree."""
SMALLEST = 1e-300
LEAST = 1e-4
"""The part of the largest share of a hand-over that every pair has: noise of what weighs nearly
nothing could not be drawn."""
HELD = 0.25
"""What product rows cannot hold of the model is to be at most this part of what it misses."""
GAIN = 0.9
"""The error after a hand-over is to be at most this part of the tree's: noise in what a look says
alone would make a difference where pairs can hardly be told from noise."""


@dataclass(frozen=True)
class AskedPairs:
    """The pairs that a workload reads, their cells and what they weigh."""

    sets: tuple[Columns, ...]
    cells: np.ndarray
    freedom: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, domain: Domain, workload: Workload) -> AskedPairs:
        sets = tuple(c for c in workload.closure() if len(c) == 2)
        shapes = [domain.shape(c) for c in sets]
        return cls(
            sets,
            np.array([domain.cells(c) for c in sets], float),
            np.array([freedom(shape) for shape in shapes], float),
            np.array(workload.reading(sets)),
        )

    @cached_property
    def shares(self) -> np.ndarray:
        """Of a budget for all of them, those that make Σ weight cells σ least, as far as each gets
        its `LEAST`."""
        found = (self.weights * self.cells) ** (2 / 3)
        found = np.maximum(found, LEAST * found.max())
        return found / found.sum()

    def sigmas(self, cost: Cost, l2_squared: int) -> np.ndarray:
        return cost.sigma(l2_squared) / np.sqrt(self.shares)

    def error(self, c: float, noise: np.ndarray | None = None) -> float:
        """Σ weight sqrt(cells c), about the L1 error of the pairs, where c is missed of each; with
        c q / (c + q) for c where effects are then measured with noise of variance q."""
        left = c if noise is None else c * noise / np.maximum(c + noise, SMALLEST)
        return float((self.weights * np.sqrt(self.cells * left)).sum())


@dataclass(frozen=True)
class Look:
    """Which pairs are looked at, what each costs and its noise."""

    sets: tuple[Columns, ...]
    each: Cost
    l2_squared: int

    @property
    def sigma(self) -> float:
        return self.each.sigma(self.l2_squared)


def look_of(
    domain: Domain, workload: Workload, unit: Unit, budget: Cost, rows: float
) -> Look | None:
    """A public rule: as many pairs as there are columns, if all of them could be measured, noise
    would leave something of a table of that many rows, and a tree cannot hold most of them."""
    count = sum(len(c) == 2 for c in workload.closure())
    columns = len(workload.columns)
    if not 2 * columns < count <= MOST_PAIRS or sum(domain.levels) > MOST_LINES:
        return None
    pairs, l2_squared = AskedPairs.of(domain, workload), unit.rows_changed * unit.max_rows
    noise = HALF_NORMAL * pairs.cells * pairs.sigmas(budget, l2_squared)
    if float(np.average(noise, weights=pairs.weights)) > HOPELESS * rows:
        return None
    # The mean of m squared effects, each of f free cells with noise of variance m / (2 part ρ), has
    # the standard deviation sqrt(2 f / m) m / (2 part ρ); each of P pairs has f P / (2 ρ) of noise.
    free = max(1.0, float(pairs.freedom.mean()))
    part = min(LARGEST_LOOK, Fraction(QUIET * math.sqrt(2 * columns / free) / count))
    each = budget * part / columns
    sets = random.Random(0).sample(pairs.sets, columns)
    return Look(tuple(sorted(sets)), each, l2_squared)


def takes(domain: Domain, workload: Workload) -> tuple[float, float]:
    """Seconds and megabytes of a hand-over, beside what the rounds took."""
    lines, count = sum(domain.levels), sum(len(c) == 2 for c in workload.closure())
    return 0.2 + count * 4e-4 + seconds_of(lines), 24 * lines * (lines + ROWS) / 2**20


@dataclass(eq=False)
class HandOver:
    """What a look showed, and what the model missed when `start` was left to spend.

    It remembers what product rows missed of the last model for which that was asked: a model only
    grows harder to hold, so later ones are asked about where that much would not keep them back.
    """

    looked: tuple[Measurement, ...]
    pairs: AskedPairs
    l2_squared: int
    begun: float
    start: Cost
    _asked: Model | None = None
    _unfit: float = 0.0

    def due(self, model: Model, remaining: Cost, for_rounds: Cost) -> bool:
        """Whether to hand over, where further rounds may spend so much of what remains."""
        if not remaining or self.start <= remaining:
            return False
        c = missed(model, self.looked)
        if not c:
            return False
        fallen = max(0.0, self.begun / c - 1)  # k s
        further = float(for_rounds.ratio(self.start - remaining))
        most = GAIN * self.pairs.error(c * (1 + fallen) / (1 + fallen * (1 + further)))
        noise = (self.pairs.sigmas(remaining, self.l2_squared) / model.total) ** 2
        handed = self.pairs.error(c, noise * self.pairs.freedom)
        held = HELD * self.pairs.error(c)
        if self._worth(handed, most, held) and model is not self._asked:
            missing = missed_by_products(model, self.pairs.sets)
            self._asked, self._unfit = model, self.pairs.error(missing)
        return self._worth(handed, most, held)

    def _worth(self, handed: float, most: float, held: float) -> bool:
        return math.hypot(handed, self._unfit) < most and self._unfit <= held

    def measured(self, curator: Curator) -> tuple[Measurement, ...]:
        """All pairs, with all that is left."""
        queries = [Marginal(c) for c in self.pairs.sets]
        shares = [Fraction(s) for s in self.pairs.shares.tolist()]
        return curator.measure(queries, curator.remaining, shares)

    @property
    def note(self) -> str:
        return HANDED.format(pairs=len(self.pairs.sets))


def watch(
    look: Look | None, curator: Curator, workload: Workload, model: Model, cost: Cost
) -> HandOver | None:
    """Measure what is looked at, if anything is, before the first round."""
    if look is None:
        return None
    looked = curator.measure([Marginal(c) for c in look.sets], cost)
    pairs, l2_squared = AskedPairs.of(curator.domain, workload), look.l2_squared
    return HandOver(looked, pairs, l2_squared, missed(model, looked), curator.remaining)


def missed(model: Model, looked: Sequence[Measurement]) -> float:
    """c: the mean over pairs of the squared effect, in shares, that the model misses.

    Noise is taken off each, and so is, from the mean, what leaving out the largest takes off noise
    that is about normal: else c would be too low, often 0, where noise is louder than effects.
    """
    believed = model.marginals([m.query.columns for m in looked])
    seen, spread = [], []
    for m, table in zip(looked, believed, strict=True):
        effect, noise = centred(m.values - table), m.sigma**2
        free = freedom(effect.shape) * noise
        seen.append(float((effect**2).sum()) - free)
        spread.append(math.sqrt(2 * noise * (free + 2 * max(0.0, seen[-1]))))
    few = math.ceil((1 - STRONGEST) * len(seen))
    kept = float(np.mean(sorted(seen)[:few]))
    if few < len(seen):
        part, normal = few / len(seen), NormalDist()
        kept += float(np.mean(spread)) * normal.pdf(normal.inv_cdf(part)) / part
    return max(0.0, kept) / model.total**2
