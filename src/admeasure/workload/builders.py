"""Workloads by rule: all k-way marginals, those around a target, skewed, random, thresholds.

Column sets are drawn from the column names in alphabetical order, so a workload depends on the
names and the seed and not on the order of the schema. All k-way marginals, and those
around a target, are a rule and not a list where they are many (`rule.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, combinations
from random import Random

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import ResourceError, WorkloadError
from admeasure.queries import Marginal, Threshold
from admeasure.queries.query import unknown_column
from admeasure.workload.files import MOST_QUERIES
from admeasure.workload.rule import KWay, draw_sets
from admeasure.workload.workload import Workload


def all_kway(domain: Domain, k: int) -> Workload:
    """Every marginal of k columns (AIM, section 6.1: ALL-3WAY)."""
    return Workload.by_rule(KWay.of(_names(domain, k), k))


def target_kway(domain: Domain, target: str, k: int) -> Workload:
    """Every marginal of k columns that involves the target column (AIM, section 6.1: TARGET)."""
    names = _names(domain, k)
    if target not in domain:
        raise WorkloadError(unknown_column(target, domain.columns))
    return Workload.by_rule(KWay.of(names, k, target))


def regression(domain: Domain, of: str, on: Sequence[str], *, whole: bool) -> Workload:
    """What a regression of one column on others is computed from: every two of the columns (least
    squares needs no more than their sums of products), or all of them together (`whole`).

    >>> domain = Domain(("a", "b", "y"), (2, 3, 4))
    >>> [query.columns for query in regression(domain, "y", ["a", "b"], whole=False).queries]
    [('a', 'b'), ('a', 'y'), ('b', 'y')]
    """
    names = [of, *on]
    for name in names:
        if name not in domain:
            raise WorkloadError(unknown_column(name, domain.columns))
    if len(set(names)) < len(names):
        raise WorkloadError("A regression names each column once, like regression:y~a+b.")
    sets = [names] if whole else combinations(names, 2)
    return Workload(Marginal(columns) for columns in sets)


def skewed_kway(domain: Domain, draws: int, k: int, seed: int) -> Workload:
    """k-way marginals biased towards some columns (AIM, section 6.1: SKEWED).

    Every column gets a weight X² with X from the exponential distribution of mean 1. Then `draws`
    column sets are drawn, each with probability proportional to the product of its columns'
    weights. They are drawn with replacement, as the paper's 256 draws from the 84 triples of a
    table of nine columns must be; a set drawn c times is one query of weight c. A seed gives the
    columns the same weights whatever k and `draws` are.
    """
    names = _names(domain, k)
    _check_draws(draws)
    sets = math.comb(len(names), k)
    _check_size(sets)
    random = Random(seed)
    weight = {name: math.log1p(-random.random()) ** 2 for name in names}
    candidates = list(combinations(names, k))
    cumulative = list(accumulate(math.prod(weight[name] for name in c) for c in candidates))
    chosen = (
        candidates[min(bisect_right(cumulative, random.random() * cumulative[-1]), sets - 1)]
        for _ in range(draws)
    )
    return Workload(Marginal(columns) for columns in chosen)


def random_kway(domain: Domain, count: int, k: int, seed: int) -> Workload:
    """`count` different k-way marginals, every choice of them as likely as any other."""
    return Workload(Marginal(columns) for columns in _distinct(domain, count, k, seed))


def random_thresholds(domain: Domain, at_least: int, k: int, count: int, seed: int) -> Workload:
    """`at_least`-of-k thresholds (all targets) on `count` different random sets of k columns."""
    sets = _distinct(domain, count, k, seed)
    return Workload(Threshold(columns, at_least) for columns in sets)


def _distinct(domain: Domain, count: int, k: int, seed: int) -> list[Columns]:
    names = _names(domain, k)
    _check_draws(count)
    total = math.comb(len(names), k)
    if count > total:
        raise WorkloadError(
            f"{count} different sets of {k} columns are asked for, but {len(names)} columns have "
            f"only {total}. Ask for at most {total}, or for all-{k}way."
        )
    random = Random(seed)
    if 2 * count <= total:
        return sorted(draw_sets(names, count, k, random))
    # More than half of all sets: cheaper to draw the ones to leave out, and as uniform.
    _check_size(total)
    left_out = draw_sets(names, total - count, k, random)
    return [columns for columns in combinations(names, k) if columns not in left_out]


def _names(domain: Domain, k: int) -> Columns:
    names = canonical(domain.columns)
    if not 1 <= k <= len(names):
        raise WorkloadError(
            f"Marginals of {k} columns are asked for, but the schema has {len(names)} columns. "
            f"Choose a number from 1 to {len(names)}."
        )
    return names


def _check_draws(count: int) -> None:
    if count < 1:
        raise WorkloadError(f"A workload of {count} queries is empty. Ask for at least 1.")
    _check_size(count)


def _check_size(count: int) -> None:
    if count > MOST_QUERIES:
        raise ResourceError(
            f"That is a choice among {count:,} column sets; at most {MOST_QUERIES:,} are handled. "
            "Use fewer columns for each, a target, or random."
        )
