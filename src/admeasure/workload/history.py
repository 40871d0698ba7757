"""Workloads of what was asked, distributions of what will be, and a small history made larger.

A history is written `history:zipf:1of3:64:seed=0` wherever a workload is: 64 thresholds (at least 1
of 3 columns) drawn independently from the historical distribution; one drawn twice weighs two. The
future is written `zipf:1of3:drift=0.2:draws=200:seed=0`. Both take `order=0`, the seed of the order
in which columns are popular, and `ratio=0.8`, how much less often the next column of a geometric
distribution is asked for; history and future must share them. `seed` is that of the draws (and of
the drift). Where r = k the queries are marginals.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from admeasure.domain import Domain, canonical
from admeasure.errors import WorkloadError
from admeasure.queries import Marginal, Threshold, WorkloadQuery
from admeasure.workload.drift import RATIO, SHAPES, Features, Shape, historical
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


def is_history(text: str) -> bool:
    return text.startswith("history:")


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
        raise WorkloadError(
            f"There is no distribution of columns {shape!r}. There are: {', '.join(SHAPES)}."
        )
    if not 1 <= k <= len(domain.columns):
        raise WorkloadError(
            f"Queries of {k} columns are asked for, but the schema has {len(domain.columns)}."
        )
    if not 1 <= r <= k:
        raise WorkloadError(f"{r} of {k}: the first number must be from 1 to {k}.")
    known: Shape = next(s for s in SHAPES if s == shape)
    if "ratio" in more and known != "geometric":
        raise WorkloadError(f"A ratio belongs to a geometric distribution, not to {known}.")
    features = historical(domain, known, int(more.get("order", 0)), float(more.get("ratio", RATIO)))
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
