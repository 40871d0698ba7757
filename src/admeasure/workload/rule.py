"""All k-way marginals, or those with a target among them: a workload that need not be a list.

500 columns have 20,708,500 triples. What a mechanism weighs by is in closed form then, from how
many of them there are; and where single marginals must be looked at (scores, errors, a
certificate), `looked_at` of them are, drawn without replacement, all alike, by a seed that follows
from the columns' names. Each stands for count / looked_at of them, so that a sum over the sample
has the sum over all as its mean, whatever is summed. The sample is public, fixed before anything
of the table is known, and the same for everybody who has the same columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import TypeVar

from admeasure.domain import Columns, canonical
from admeasure.errors import ResourceError, WorkloadError

T = TypeVar("T")

MOST_WRITTEN = 2**14
"""A rule of more marginals is kept as a rule, also in files."""

MOST_LISTED = 2**15
MOST_PAIRS = 2**17
"""A rule of more marginals is looked at by a sample: all triples of more than 59 columns, all pairs
of more than 512."""

LOOKED_AT = 2**14
"""How many marginals a sample has, one of pairs aside (`_sample_of`)."""

MOST = 10**15
"""Their number is computed with as a double."""


def most_listed(k: int) -> int:
    """The most marginals of k columns that are all looked at."""
    return MOST_PAIRS if k <= 2 else MOST_LISTED


@dataclass(frozen=True)
class KWay:
    """Every marginal of `k` of these columns, with `target` among them where one is named, of which
    `looked_at` are looked at one by one: all of them, or a sample.

    >>> rule = KWay.of([f"c{i}" for i in range(500)], 3)
    >>> rule.count, rule.looked_at, rule.reading(("c1",)), rule.reading(("c1", "c2"))
    (20708500, 16384, 124251.0, 498.0)
    """

    k: int
    columns: Columns
    target: str | None
    looked_at: int

    def __post_init__(self) -> None:
        if self.count > MOST:
            raise ResourceError(
                f"There are more than {MOST:,} marginals of {self.k} of {len(self.columns)} "
                "columns. Ask for marginals of fewer columns, such as all-3way."
            )
        most = min(self.count, max(most_listed(self.k), LOOKED_AT))
        if not 1 <= self.looked_at <= most:
            raise WorkloadError(
                f"looked_at must be from 1 to {most:,} of the {self.count:,} marginals; it is "
                f"{self.looked_at:,}."
            )

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        k: int,
        target: str | None = None,
        looked_at: int | None = None,
    ) -> KWay:
        """All of them are looked at, or as many as a sample has; `looked_at` says otherwise."""
        names = canonical(columns)
        if not 1 <= k <= len(names):
            raise WorkloadError(
                f"Marginals of {k} columns are asked for, but there are {len(names)} columns. "
                f"Choose a number from 1 to {len(names)}."
            )
        if target is not None and target not in names:
            raise WorkloadError(f"The target {target!r} is not among the columns.")
        if looked_at is None:
            count = _count(len(names), k, target)
            looked_at = count if count <= most_listed(k) else _sample_of(len(names), k)
        return cls(k, names, target, looked_at)

    @property
    def count(self) -> int:
        """How many marginals there are."""
        return _count(len(self.columns), self.k, self.target)

    @property
    def sampled(self) -> bool:
        return self.looked_at < self.count

    @property
    def each(self) -> float:
        """What each marginal that is looked at stands for."""
        return self.count / self.looked_at

    def __str__(self) -> str:
        having = "" if self.target is None else f" with {self.target}"
        return f"all {self.count:,} marginals of {self.k} columns{having}"

    def in_words(self) -> str:
        """What part is looked at, for a plan and a report; empty where it is all."""
        if not self.sampled:
            return ""
        part = _percent(self.looked_at / self.count)
        return (
            f"The workload is {self}. {self.looked_at:,} of them ({part}), a public "
            "sample drawn from the columns' names, are looked at one by one; each stands for "
            "as many as it was drawn from."
        )

    def marginals(self) -> list[Columns]:
        """Those that are looked at, by name."""
        return list(self._all()) if not self.sampled else sorted(self._sample())

    def closure(self) -> list[Columns]:
        """What is looked at of the downward closure, by size and then by name: sets of fewer
        columns too are all there, unless they are too many."""
        looked = self.marginals()
        found: list[Columns] = []
        for size in range(1, self.k):
            if math.comb(len(self.columns), size) <= most_listed(size):
                found += combinations(self.columns, size)
            else:
                found += sorted({s for c in looked for s in combinations(c, size)})
        return found + looked

    def candidates(self) -> list[Columns]:
        """What a mechanism chooses among: what is looked at of the closure; of a sample its smaller
        sets, where there are pairs among them and all are there. One in many of the largest would
        seldom be what a model lacks, and to answer them takes longest."""
        found, smaller = self.closure(), math.comb(len(self.columns), self.k - 1)
        if not self.sampled or self.k <= 2 or smaller > most_listed(self.k - 1):
            return found
        return [columns for columns in found if len(columns) < self.k]

    def reading(self, columns: Columns) -> float:
        """How many of all marginals contain these columns."""
        names = set(columns)
        if self.target is not None:
            names.add(self.target)
        left = self.k - len(names)
        if left < 0 or not names.issubset(self.columns):
            return 0.0
        return float(math.comb(len(self.columns) - len(names), left))

    def _all(self) -> Iterator[Columns]:
        if self.target is None:
            return combinations(self.columns, self.k)
        rest = [c for c in self.columns if c != self.target]
        return iter(sorted(canonical((self.target, *c)) for c in combinations(rest, self.k - 1)))

    def _sample(self) -> set[Columns]:
        facts = [str(self.k), self.target or "", *self.columns]
        digest = hashlib.sha256("\0".join(facts).encode()).digest()
        random = Random(int.from_bytes(digest, "big"))
        if self.target is None:
            return draw_sets(self.columns, self.looked_at, self.k, random)
        rest = tuple(c for c in self.columns if c != self.target)
        drawn = draw_sets(rest, self.looked_at, self.k - 1, random)
        return {canonical((self.target, *c)) for c in drawn}


def _count(columns: int, k: int, target: str | None) -> int:
    return math.comb(columns, k) if target is None else math.comb(columns - 1, k - 1)


def _sample_of(columns: int, k: int) -> int:
    """How many marginals a sample has. Pairs are what is chosen among, so there are more of them;
    each takes the longer to answer, the more columns there are.

    >>> _sample_of(513, 2), _sample_of(2000, 2), _sample_of(2000, 3)
    (130816, 33554, 16384)
    """
    return max(LOOKED_AT, MOST_PAIRS * 512 // columns) if k <= 2 else LOOKED_AT


def _percent(share: float) -> str:
    """With two digits after the point, or one that is not 0.

    >>> _percent(0.0759), _percent(0.0000123)
    ('7.59%', '0.001%')
    """
    return f"{share:.{max(2, -2 - math.floor(math.log10(share)))}%}"


def draw_sets(names: Columns, count: int, k: int, random: Random) -> set[Columns]:
    """`count` different sets of k names, every choice of them as likely as any other."""
    found: set[Columns] = set()
    while len(found) < count:
        found.add(canonical(draw(names, k, random)))
    return found


def draw(items: Sequence[T], count: int, random: Random) -> list[T]:
    """So many of the items, uniformly; the same for a seed on every machine and in years to come.

    By the first steps of a shuffle, of which only the places that it moved are held. Draws use
    nothing but `random.Random(seed).random()`, whose sequence Python promises to keep. A seed
    chooses public questions only; it has nothing to do with privacy.
    """
    moved: dict[int, int] = {}
    drawn: list[T] = []
    for i in range(count):
        j = i + int(random.random() * (len(items) - i))
        drawn.append(items[moved.get(j, j)])
        moved[j] = moved.get(i, i)
    return drawn
