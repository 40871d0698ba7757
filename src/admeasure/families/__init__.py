"""Classes of distributions, each with `init` and `update`.

A model is a belief about the table: it answers marginals as expected counts and samples rows.
It is a function of measurements alone, so everything about it may be published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.measurement import Measurement

HALF_NORMAL = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z: the expected L1 norm of noise is HALF_NORMAL σ n."""

Codes = dict[str, np.ndarray]
"""Rows by column, as codes."""


class Model(Protocol):
    """What is believed of the table."""

    kind: ClassVar[str]
    """The name under which the release stores it."""

    @property
    def domain(self) -> Domain: ...

    @property
    def total(self) -> float:
        """The believed number of rows."""
        ...

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        """Expected counts; axes in the order of the (canonical) columns."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Synthetic rows."""
        ...

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Everything `load` needs besides the domain, as plain arrays."""
        ...


M = TypeVar("M", bound=Model)


class Family(Protocol[M]):
    """How to update a belief with everything measured so far."""

    def update(self, model: M, log: Sequence[Measurement]) -> M: ...
