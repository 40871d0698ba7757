"""What a private choice is made among."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from admeasure.queries import Query


class OnOffer(Protocol):
    """A public rule: what may be chosen next, of a list of candidates, after what was chosen."""

    def left(self) -> np.ndarray:
        """For each candidate, whether it is on offer."""
        ...

    def take(self, place: int, /) -> None:
        """The candidate at this place was chosen."""
        ...


class Among:
    """Candidates by a name that says which they are."""

    def __init__(self, candidates: Sequence[Query]) -> None:
        text = "\n".join(map(_name, candidates))
        self.all = _short(text.encode())

    def part(self, on_offer: np.ndarray) -> str:
        """The name of those that are on offer."""
        if on_offer.all():
            return self.all
        return _short(self.all.encode() + np.packbits(on_offer).tobytes())


def _short(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


_name = lru_cache(maxsize=1 << 18)(repr)  # the same candidates are asked about round by round
