"""Integers computed from marginals that a curator adds noise to, and what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from admeasure.domain import Columns
from admeasure.unit import Unit


class Statistic(Protocol):
    """Integers computed from marginals, of a known sensitivity; `str` says what they are."""

    @property
    def marginals(self) -> Sequence[Columns]:
        """What is read of the table."""
        ...

    def l2_squared(self, unit: Unit) -> int:
        """A bound on the squared L2 distance of the integers of neighbours."""
        ...

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        """The integers, from the exact counts of these, each read when it is asked for."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyStatistic:
    """A statistic with noise of scale sigma in every number: safe to publish."""

    values: np.ndarray
    sigma: float
