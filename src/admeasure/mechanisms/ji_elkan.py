"""Importance weights for public records (Ji and Elkan 2013), a baseline of Liu et al. (2021, A.5).

A logistic regression tells private from public rows; the odds exp(β·φ(x)) that it gives a record
are the weight by which the public record is multiplied. Privacy comes from noise on β (output
perturbation; the paper adds Laplace noise, here it is Gaussian, under zCDP). It knows nothing of
the workload.

What is released, its sensitivity and its proof are in `privacy.regression`.

The regression reads whole records, so the joint table of all columns is counted, and the mechanism
is refused where that has more than `MAX_CELLS` cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from admeasure.domain import about
from admeasure.errors import ResourceError, UsageError
from admeasure.parts.reweighting import needed
from admeasure.planning import counting, room
from admeasure.planning.division import ASSUMED_ROWS, Division, Item, Task
from admeasure.planning.mechanism import NOT_AN_OPTION, Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.privacy.regression import Regression, one_hot
from admeasure.public.table import PublicTable

COEFFICIENTS = "coefficients of the regression"
MAX_CELLS = 1 << 23


@dataclass(frozen=True)
class JiElkan:
    """Public records weighted by a private logistic regression.

    `strength`: λ, the weight of ||β||²/2 for each row. More of it means less noise and less to say.
    `initial`: public frequencies, or equal weights, as what is reweighted.
    """

    strength: float = 0.05
    initial: Literal["frequencies", "uniform"] = "frequencies"
    public: PublicTable | None = field(default=None, repr=False, metadata=NOT_AN_OPTION)

    name: ClassVar[str] = "ji-elkan"
    summary: ClassVar[str] = "a public table's records, weighted by a private logistic regression"
    measures_all_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.strength > 0 and math.isfinite(self.strength)):
            raise UsageError(f"ji-elkan: strength must be positive; it is {self.strength}.")

    def with_public(self, public: PublicTable) -> Self:
        return replace(self, public=public)

    def check(self, task: Task) -> None:
        needed(self.public, self.name).check(task.domain, task.zeros)
        cells = task.domain.cells()
        if cells > MAX_CELLS:
            raise ResourceError(
                f"ji-elkan counts whole records, and the domain has {about(cells)} of them; "
                f"{about(MAX_CELLS)} is its limit. Use pmw-pub, or fewer columns."
            )

    def needs(self, task: Task) -> float:
        """The counts of all records."""
        return room.megabytes(task.domain, [task.domain.columns], each=2 * room.COUNTS)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        counted, left = counting.divide(task.unit, budget)
        return Division((*counted, Item(COEFFICIENTS, left)))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        items = self.divide(task, budget, rows or ASSUMED_ROWS).items
        cells = task.domain.cells()
        return Plan(items, "1", None, cells * 8 / 2**20, 1 + cells * 1e-7)

    def run(self, task: Task, curator: Curator) -> Outcome:
        public = needed(self.public, self.name)
        notes = public.check(task.domain, task.zeros)
        total = counting.believed(counting.rows(curator))
        division = self.divide(task, curator.budget, total)
        start = public.start(total, task.zeros, self.initial)
        regression = Regression(start, self.strength * total, task.unit)
        noisy = curator.statistic(regression, division.total(COEFFICIENTS))
        exponent = one_hot(start.records.codes, task.domain) @ (noisy.values / regression.grid)
        weights = start.weights * np.exp(exponent - exponent.max())
        return Outcome(start.reweighted(weights / weights.sum()), rounds=1, notes=notes)
