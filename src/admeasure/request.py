"""What a run is asked for, and what it ends with. `run` says what happens between the two."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from admeasure.errors import BudgetError
from admeasure.privacy.book import refuse_unless_private
from admeasure.privacy.bookserver import BookAddress, place_of
from admeasure.privacy.cost import Cost, budget_of
from admeasure.privacy.events import Event
from admeasure.privacy.noise import LARGEST_SCALE, ExactNoise, Noise, SeededNoise
from admeasure.schema import Schema
from admeasure.unit import Unit
from admeasure.workload import Workload

MOST_NOISE = LARGEST_SCALE / 2**20
"""Rows. A run divides its budget further (to a ten-thousandth at least: 2^8 times the noise) and
measures on grids finer than a row (2^12), of which not all can be told before."""


@dataclass(frozen=True)
class ChargeTo:
    """The data set of a budget book that a run is charged to."""

    book: str | Path | BookAddress
    dataset: str

    def __post_init__(self) -> None:
        place = place_of(self.book)
        if isinstance(place, BookAddress):  # which shows no password, wherever it is printed
            object.__setattr__(self, "book", place)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a steward asks a run for; complete but for the table. A verb has its own kind."""

    schema: Schema
    workload: Workload
    epsilon: float
    delta: float
    seed: int | None = None
    charge_to: ChargeTo | None = None

    gives_back: ClassVar[bool] = True
    """Whether a run that stops at a limit is charged for no more than it drew."""

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        self.workload.validate(self.schema.domain)
        if self.charge_to is not None:
            refuse_unless_private(self.seed is None)
        check_worth(self.budget, self.schema.unit)

    @property
    def name(self) -> str:
        """What runs, as the budget book calls it."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, Any]:
        """What else decides what is drawn; plain data."""
        raise NotImplementedError

    @property
    def budget(self) -> Cost:
        return budget_of(self.epsilon, self.delta)

    def noise(self) -> Noise:
        return ExactNoise() if self.seed is None else SeededNoise(self.seed)

    def planned(self) -> dict[str, Any]:
        """What the run will be charged, before anything is read."""
        return {
            "mechanism": self.name,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "neighbours": self.schema.unit.neighbours.value,
            "rho": float(self.budget),
            "delta_share": float(self.budget.delta_share),
            "dataset": None if self.charge_to is None else self.charge_to.dataset,
            "private": self.seed is None,
        }

    def settings(self) -> dict[str, Any]:
        """What must be the same when a run is resumed."""
        charged = self.charge_to and [str(self.charge_to.book), self.charge_to.dataset]
        return {
            "mechanism": self.name,
            "options": self.options,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "seed": self.seed,
            "schema": hashlib.sha256(self.schema.dumps().encode()).hexdigest(),
            "workload": hashlib.sha256(self.workload.dumps().encode()).hexdigest(),
            "ledger": charged,
        }


def check_worth(budget: Cost, unit: Unit) -> None:
    """Refuse a budget that buys nothing: a run's smallest parts could ask for more noise than is
    drawn, when it is charged already."""
    scale = budget.sigma(unit.marginal_l2_squared)
    if scale > MOST_NOISE:
        raise BudgetError(
            f"The budget is too small: all of it on one count buys noise of scale {scale:.3g} "
            f"rows, and beyond {MOST_NOISE:.3g} nothing is measured. Raise epsilon or delta. "
            "Nothing is charged."
        )


class Result(Protocol):
    """What a run ends with, and a folder keeps."""

    @property
    def log(self) -> Sequence[Event]:
        """The journal without what other files hold."""
        ...

    def save(self, path: Path, /, *, scratch: Path | None = None) -> Path: ...
