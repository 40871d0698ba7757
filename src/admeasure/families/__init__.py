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
from admeasure.errors import UsageError
from admeasure.measurement import Measurement
from admeasure.schema import Zero

HALF_NORMAL = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z: the expected L1 norm of noise is HALF_NORMAL σ n."""

Codes = dict[str, np.ndarray]
"""Rows by column, as codes."""


def forbidden(codes: Mapping[str, np.ndarray], zeros: Sequence[Zero]) -> np.ndarray:
    """Which rows lie in one of these cells."""
    found = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for zero in zeros:
        found |= zero.mask[tuple(codes[c] for c in zero.columns)]
    return found


class ImpossibleError(UsageError):
    """Rows were asked for that the model holds impossible."""

    def __init__(self) -> None:
        super().__init__(
            "The model holds rows that meet these conditions impossible. Widen one of them, or "
            "leave it out."
        )


def no_rows() -> UsageError:
    """Rows were asked for of a model that answers questions only."""
    return UsageError(
        "This release answers questions and has no rows to sample. Fit with a mechanism that "
        "has a model, such as aim, mst or independent."
    )


class Sampler(Protocol):
    """Rows of one kind: how many there are believed to be, and rows like them."""

    @property
    def total(self) -> float:
        """The believed number of rows."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Synthetic rows."""
        ...


class Model(Sampler, Protocol):
    """What is believed of the table."""

    kind: ClassVar[str]
    """The name under which the release stores it."""

    adds_up: ClassVar[bool]
    """Whether its answers on fewer columns are sums of those on more."""

    @property
    def domain(self) -> Domain: ...

    def marginals(self, columns: Sequence[Columns]) -> list[np.ndarray]:
        """Expected counts; axes in the order of the (canonical) columns."""
        ...

    def without(self, cells: Sequence[Zero]) -> Sampler:
        """The rows that are in none of these cells: what a condition leaves, exactly as the model
        believes them. `ImpossibleError` where it leaves nothing."""
        ...

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Everything `load` needs besides the domain, as plain arrays."""
        ...


M = TypeVar("M", bound=Model)


class Family(Protocol[M]):
    """How to update a belief with everything measured so far."""

    def update(self, model: M, log: Sequence[Measurement]) -> M: ...
