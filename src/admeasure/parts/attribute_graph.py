"""Which marginals a graph of dependent columns suggests, as in PrivMRF (Cai et al. 2021).

Post-processing: everything follows from noisy dependences of pairs and public facts. For each
pair these are the noisy total variation distance of its joint from the product of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from admeasure.domain import Columns, Domain, canonical

Dependences = Mapping[Columns, float]

MOST_PARENTS = 5
MOST_COLUMNS = 6
"""Of a marginal; the paper's settings for tables of mixed columns."""
LISTED = 20_000
"""Subsets of one clique that are listed; of larger cliques only smaller ones are."""


def merit(column: str, parents: Sequence[str], scores: Dependences) -> float:
    """Σ r(c, p) / sqrt(k + Σ r(p, p')): parents that say much of the column and little of each
    other (Hall's correlation-based feature selection, which the paper takes)."""
    near = sum(scores.get(canonical((column, p)), 0.0) for p in parents)
    among = sum(scores.get(canonical(pair), 0.0) for pair in combinations(parents, 2))
    return near / math.sqrt(max(1.0, len(parents) + among))


def first_marginals(
    cliques: Sequence[Columns], scores: Dependences, domain: Domain, most_cells: float
) -> list[Columns]:
    """For each column the joint with the parents of most merit in a network inside some clique, and
    the column alone where no useful joint was found. At most as many as there are columns."""
    best: dict[str, tuple[float, Columns]] = {}
    for clique in cliques:
        for column, parents, value in _network(clique, scores, domain, most_cells):
            if column not in best or value > best[column][0]:
                best[column] = value, canonical((column, *parents))
    joints = list(dict.fromkeys(joint for _, joint in best.values()))
    held = {column for joint in joints for column in joint}
    kept = [j for j in joints if not any(set(j) < set(other) for other in joints)]
    return [*kept, *((c,) for c in domain.columns if c not in held)]


def _network(
    clique: Columns, scores: Dependences, domain: Domain, most_cells: float
) -> list[tuple[str, tuple[str, ...], float]]:
    """Greedy: again and again the column and parents among those placed with the most merit."""
    if len(clique) < 2:
        return []
    weight = {c: sum(scores.get(canonical((c, o)), 0.0) for o in clique if o != c) for c in clique}
    placed = [max(clique, key=lambda c: (weight[c], c))]
    left, found = [c for c in clique if c != placed[0]], []
    while left:
        offers = [(c, *_parents(c, placed, scores, domain, most_cells)) for c in left]
        column, parents, value = max(offers, key=lambda offer: (offer[2], offer[0]))
        if not parents:
            break
        found.append((column, parents, value))
        placed.append(column)
        left.remove(column)
    return found


def _parents(
    column: str, placed: Sequence[str], scores: Dependences, domain: Domain, most_cells: float
) -> tuple[tuple[str, ...], float]:
    """Parents added one by one while that raises the merit and the joint stays useful."""
    chosen: tuple[str, ...] = ()
    value = -math.inf
    while len(chosen) < MOST_PARENTS:
        offers = [
            (merit(column, (*chosen, p), scores), p)
            for p in placed
            if p not in chosen and domain.cells((column, *chosen, p)) <= most_cells
        ]
        if not offers or max(offers)[0] <= value:
            break
        value, parent = max(offers)
        chosen = (*chosen, parent)
    return chosen, value


def useful_subsets(
    cliques: Sequence[Columns], domain: Domain, most_cells: float
) -> dict[Columns, float]:
    """Subsets of cliques with at most so many cells (single columns always), each with a weight:
    a clique's weight, the square of its columns, shared among its subsets."""
    found: dict[Columns, float] = {}
    for clique in cliques:
        sizes = range(1, min(MOST_COLUMNS, len(clique)) + 1)
        listed: list[Columns] = []
        for k in sizes:
            if len(listed) + math.comb(len(clique), k) > LISTED:
                break
            subsets = (canonical(s) for s in combinations(clique, k))
            listed += [s for s in subsets if k == 1 or domain.cells(s) <= most_cells]
        for subset in listed:
            found[subset] = found.get(subset, 0.0) + len(clique) ** 2 / len(listed)
    return found


def drawn(weights: Mapping[Columns, float], count: int, seed: int) -> list[Columns]:
    """At most `count` of them, drawn by weight with a public seed."""
    names = sorted(weights)
    if len(names) <= count:
        return names
    share = np.array([weights[name] for name in names])
    rng = np.random.default_rng(seed)
    places = rng.choice(len(names), size=count, replace=False, p=share / share.sum())
    return [names[i] for i in sorted(places)]
