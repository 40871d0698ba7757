"""Workloads of what was asked, distributions of what will be, and a small history made larger.

A history is written `history:zipf:1of3:64:seed=0` wherever a workload is: 64 thresholds (at least 1
of 3 columns) drawn independently from the historical distribution; one drawn twice weighs two. The
future is written `zipf:1of3:drift=0.2:draws=200:seed=0`. Both take `order=0`, the seed of the order
in which columns are popular, and `ratio=0.8`, how much less often the next column of a geometric
distribution is asked for; history and future must share them. `seed` is that of the draws (and of
the drift). Where r = k the queries are marginals.

A feature distribution gives each column a probability (Avent and Korolova 2023, 5.1). A threshold
(or marginal) of k columns is drawn by drawing k columns one after the other without replacement.
Definition 5.2: with the columns in descending order of their probability p_1 >= … >= p_d and a
drift γ in [0, 1], give p_i the key

    k_i = (1 - 2γ) (d - i) / (d - 1) + (1 - |1 - 2γ|) u_i,    u_i uniform on [0, 1],

and hand the probabilities out again in descending order of their keys, the columns staying where
they are. γ = 0 changes nothing, γ = 1/2 shuffles, γ = 1 reverses. All of this is public.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import WorkloadError
from admeasure.queries import Marginal, Threshold, WorkloadQuery
from admeasure.workload.workload import Workload

FORM = "history:zipf:1of3:64:seed=0"
MOST_DRAWS = 9_999_999
FUTURE_FORM = "zipf:1of3:drift=0.2:draws=200:seed=0"
_KIND = r"(?P<shape>[a-z]+):(?P<r>\d{1,2})of(?P<k>\d{1,2})"
_HISTORY = re.compile(rf"history:{_KIND}:(?P<n>\d{{1,7}})(?P<more>(:[a-z]+=[\d.]{{1,20}})*)")
_FUTURE = re.compile(rf"{_KIND}(?P<more>(:[a-z]+=[\d.]{{1,20}})*)")


@dataclass(frozen=True)
class Future:
    """A distribution over thresholds (Definition 5.1: T_F) and how many are drawn of it."""

    features: Features
    at_least: int
    k: int
    draws: int
    seed: int

    def counts(self) -> Counter[WorkloadQuery]:
        """`draws` independent queries, each with how often it was drawn."""
        random = Random(self.seed)
        return Counter(
            _query(self.features.draw(self.k, random), self.at_least) for _ in range(self.draws)
        )


def parse_history(text: str, domain: Domain) -> Workload:
    """The workload of a text of the form `FORM`."""
    match = _HISTORY.fullmatch(text)
    if match is None:
        raise WorkloadError(f"A history is written like {FORM}, not {text!r}.")
    more = _options(match["more"], ("seed", "order", "ratio"), text)
    features, r, k = _parts(match, domain, more)
    n = int(match["n"])
    if n < 1:
        raise WorkloadError(f"A history of {n} queries is empty. Ask for at least 1.")
    return draw_history(features, r, k, n, int(more.get("seed", 0)))


def draw_history(features: Features, r: int, k: int, size: int, seed: int) -> Workload:
    """W_H: `size` independent draws."""
    random = Random(f"history {seed}")
    drawn = Counter(_query(features.draw(k, random), r) for _ in range(size))
    return Workload({query: float(times) for query, times in drawn.items()})


def parse_future(text: str, domain: Domain) -> Future:
    """The future of a text of the form `FUTURE_FORM`."""
    match = _FUTURE.fullmatch(text)
    if match is None:
        raise WorkloadError(f"A future is written like {FUTURE_FORM}, not {text!r}.")
    more = _options(match["more"], ("drift", "draws", "seed", "order", "ratio"), text)
    features, r, k = _parts(match, domain, more)
    seed, draws = int(more.get("seed", 0)), int(more.get("draws", 200))
    if not 2 <= draws <= MOST_DRAWS:
        raise WorkloadError(f"draws must be at least 2 and at most {MOST_DRAWS:,}; it is {draws}.")
    drifted = features.drifted(float(more.get("drift", 0.0)), Random(f"drift {seed}"))
    return Future(drifted, r, k, draws, seed)


def augmented(workload: Workload, count: int, domain: Domain, seed: int) -> Workload:
    """The workload and `count` random queries more, none of them in it already.

    Avent and Korolova, 5.3.1: where the history is small, queries drawn uniformly from all that
    could be asked lower the error on future ones, and never raise it by much. Each is of the kind
    (marginal or threshold, r, k) of a query of the history drawn at random. They weigh 1.
    """
    if count < 0:
        raise WorkloadError(f"The number of queries to add must not be negative; it is {count}.")
    kinds = [(q.at_least, len(q.columns)) for q in workload.targets]
    room = {
        kind: math.comb(len(domain.columns), kind[1]) - kinds.count(kind) for kind in set(kinds)
    }
    if count > sum(room.values()):
        raise WorkloadError(
            f"{count} queries are to be added, but only {sum(room.values())} of the workload's "
            "kinds are left. Add fewer."
        )
    random, names = Random(f"augment {seed}"), canonical(domain.columns)
    even = Features(names, tuple(1 / len(names) for _ in names))
    entries: dict[WorkloadQuery, float] = dict(workload.entries)
    known = {(q.columns, q.at_least) for q in workload.targets}
    while count:
        r, k = kinds[int(random.random() * len(kinds))]
        if not room[r, k]:
            continue
        columns = even.draw(k, random)
        if (columns, r) in known:
            continue
        known.add((columns, r))
        entries[_query(columns, r)] = 1.0
        room[r, k] -= 1
        count -= 1
    return Workload(entries)


def _parts(
    match: re.Match[str], domain: Domain, more: Mapping[str, str]
) -> tuple[Features, int, int]:
    shape, r, k = match["shape"], int(match["r"]), int(match["k"])
    if shape not in SHAPES:
        raise no_such_shape(shape)
    if not 1 <= k <= len(domain.columns):
        raise WorkloadError(
            f"Queries of {k} columns are asked for, but the schema has {len(domain.columns)}."
        )
    if not 1 <= r <= k:
        raise WorkloadError(f"{r} of {k}: the first number must be from 1 to {k}.")
    if "ratio" in more and shape != "geometric":
        raise WorkloadError(f"A ratio belongs to a geometric distribution, not to {shape}.")
    features = historical(domain, shape, int(more.get("order", 0)), float(more.get("ratio", RATIO)))
    return features, r, k


def _options(text: str, allowed: tuple[str, ...], whole: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(":")[1:]:
        key, _, value = part.partition("=")
        if key not in allowed or key in found:
            raise WorkloadError(
                f"{whole!r}: {key}= does not belong there once. Use {', '.join(allowed)}."
            )
        if key not in ("drift", "ratio") and not value.isdecimal():
            raise WorkloadError(f"{whole!r}: {key} is a whole number.")
        if value.count(".") > 1 or value == ".":
            raise WorkloadError(f"{whole!r}: {key} is a number.")
        found[key] = value
    return found


def _query(columns: tuple[str, ...], r: int) -> WorkloadQuery:
    return Marginal(columns) if r == len(columns) else Threshold(columns, r)


Shape = Literal["uniform", "zipf", "geometric"]
SHAPES: tuple[Shape, ...] = ("uniform", "zipf", "geometric")
RATIO = 0.8
"""Of the geometric distribution: each column is asked for 0.8 times as often as the one before.
The paper does not print its own. Over 14 columns the first four hold 62% of the probability."""


@dataclass(frozen=True)
class Features:
    """Columns in the order of the historical distribution, and their probabilities now."""

    columns: Columns
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.columns) == len(self.probabilities)

    def drifted(self, gamma: float, random: Random) -> Features:
        """F_F of Definition 5.2."""
        if not 0 <= gamma <= 1:
            raise WorkloadError(f"A drift lies from 0 to 1; it is {gamma:g}.")
        d = len(self.columns)
        keys = [
            (1 - 2 * gamma) * ((d - i) / (d - 1) if d > 1 else 0.0)
            + (1 - abs(1 - 2 * gamma)) * random.random()
            for i in range(1, d + 1)
        ]
        order = sorted(range(d), key=lambda i: -keys[i])
        return Features(self.columns, tuple(self.probabilities[i] for i in order))

    def distance(self, other: Features) -> float:
        """Total variation distance to another distribution over the same columns."""
        mine = dict(zip(self.columns, self.probabilities, strict=True))
        return (
            sum(abs(mine[c] - p) for c, p in zip(other.columns, other.probabilities, strict=True))
            / 2
        )

    def draw(self, k: int, random: Random) -> Columns:
        """k columns without replacement."""
        columns, weights = list(self.columns), list(self.probabilities)
        found = []
        for _ in range(k):
            point, i = random.random() * sum(weights), 0
            while i < len(weights) - 1 and point >= weights[i]:
                point -= weights[i]
                i += 1
            found.append(columns.pop(i))
            weights.pop(i)
        return canonical(found)


def historical(domain: Domain, shape: Shape, order: int = 0, ratio: float = RATIO) -> Features:
    """F_H: uniform, 1/i (Zipf) or `ratio`^i over the columns, in a random order of the seed
    `order`."""
    if not 0 < ratio < 1:
        raise WorkloadError(f"A geometric distribution's ratio is between 0 and 1, not {ratio:g}.")
    if shape not in SHAPES:
        raise no_such_shape(shape)
    columns, random = list(canonical(domain.columns)), Random(order)
    for i in range(len(columns) - 1, 0, -1):
        j = int(random.random() * (i + 1))
        columns[i], columns[j] = columns[j], columns[i]
    d = len(columns)
    weights = {
        "uniform": [1.0] * d,
        "zipf": [1 / i for i in range(1, d + 1)],
        "geometric": [ratio**i for i in range(d)],
    }[shape]
    return Features(tuple(columns), tuple(w / sum(weights) for w in weights))


def no_such_shape(shape: str) -> WorkloadError:
    return WorkloadError(
        f"There is no distribution of columns {shape!r}. There are: {', '.join(SHAPES)}."
    )
