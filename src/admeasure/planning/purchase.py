"""What a run buys of one column, and how a plan counts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from admeasure.measurement import Measurement
from admeasure.schema import Column
from admeasure.schema.inside import Inside


@dataclass(frozen=True, eq=False)
class Purchase:
    """A column with its levels, and what else follows from what was paid for it: how values lie
    inside its bins, and noisy counts of its levels."""

    column: Column
    inside: Inside | None = None
    known: Measurement | None = None


NAMED = 8


def in_words(likely: Mapping[str, int]) -> str:
    """About how many levels each column will have.

    >>> in_words({"age": 19, "cost": 16})
    'age: 19, cost: 16'
    >>> in_words({f"c{i}": 5 + i % 2 for i in range(60)})[-38:]
    'c7: 6 and 52 more, from 5 to 6 of each'
    """
    names = list(likely)[:NAMED]
    named = ", ".join(f"{name}: {likely[name]}" for name in names)
    if len(likely) == len(names):
        return named
    least, most = min(likely.values()), max(likely.values())
    return f"{named} and {len(likely) - NAMED} more, from {least} to {most} of each"
