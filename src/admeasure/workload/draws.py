"""Sets of columns drawn at random, the same for a seed on every machine and in years to come.

Draws use nothing but `random.Random(seed).random()`, whose sequence Python promises to keep. A seed
chooses public questions only; it has nothing to do with privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from admeasure.domain import Columns, canonical


def draw_sets(names: Columns, count: int, k: int, random: Random) -> set[Columns]:
    """`count` different sets of k names, every choice of them as likely as any other."""
    found: set[Columns] = set()
    while len(found) < count:
        found.add(_draw_set(names, k, random))
    return found


def _draw_set(names: Sequence[str], k: int, random: Random) -> Columns:
    """One set of k names, uniformly, by the first k steps of a shuffle, of which only the places
    that it moved are held."""
    moved: dict[int, int] = {}
    drawn: list[str] = []
    for i in range(k):
        j = i + int(random.random() * (len(names) - i))
        drawn.append(names[moved.get(j, j)])
        moved[j] = moved.get(i, i)
    return canonical(drawn)
