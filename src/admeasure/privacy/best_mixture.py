"""How badly the best reweighting of a public table answers: a statistic that `screen` releases.

What is released, for a public table S: the smallest largest error, in rows, that a reweighting of S
could have (Liu et al. 2021; `families.mixture`), with discrete Gaussian noise:

    F_N(D) = min over distributions μ on S of max over queries q of |q(D) - N q(μ)|.

N, the believed number of rows, is fixed beforehand: public, or bought from the same budget.

Sensitivity (Lemma A.2). For a fixed μ each |q(D) - N q(μ)| moves by no more than q(D) does: at most
m, the rows of one person, under add/remove as well as replace, since every q counts rows. A maximum
and a minimum of functions that move by at most m move by at most m. What is computed is a value in
[F, F + τ], τ = `TOLERANCE` rows by the certificate of `best_mixture`, so it moves by at most m + τ;
rounding to the grid adds one unit. Nothing is released without that certificate: a value from a
computation that was cut short, by clock or by a number of steps, would have no such bound, since
how far it got depends on the table. A limit of time therefore ends the screening with an error, all
of the budget charged; that it was reached is a fact about the table that no budget covers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import LimitReached
from admeasure.families.mixture import best_mixture
from admeasure.families.support import SupportModel
from admeasure.privacy.scores.score import GRID
from admeasure.queries import Query
from admeasure.unit import Unit

TOLERANCE = 0.1
"""Rows by which a computed best-mixture error may be too high."""


@dataclass(frozen=True, eq=False)
class BestMixtureError:
    """F_N of one candidate, in units of 1/GRID rows."""

    name: str
    support: SupportModel
    queries: Sequence[Query]
    seconds: float = math.inf

    def __str__(self) -> str:
        return f"best-mixture error of {self.name}"

    @property
    def marginals(self) -> Sequence[Columns]:
        return [q.columns for q in self.queries]

    def l2_squared(self, unit: Unit) -> int:
        return math.ceil((unit.max_rows + TOLERANCE) * GRID + 1) ** 2

    def of(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        answers = [q.answer(t) for q, t in zip(self.queries, tables, strict=True)]
        found = best_mixture(
            self.support, self.queries, answers, gap=TOLERANCE, seconds=self.seconds
        )
        if found.gap > TOLERANCE:
            raise LimitReached(
                f"The {self} was not certified in {self.seconds:g} seconds. Nothing is released, "
                "and the whole budget of the screening is charged. Raise --time-limit, or lower "
                "--marginals."
            )
        return np.array(round(found.error * GRID), dtype=np.int64)
