"""Bins are cut where the exact counts say, and only what is measured on them is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.planning.tree import estimate
from admeasure.queries import Marginal

CAUGHT_BY = {"outcome"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-bins-from-data"

    def run(self, task, curator):
        column = curator.domain.columns[0]
        (counts,) = curator._counts([(column,)])
        levels = (np.arange(len(counts)),)
        bins = estimate(levels, [counts], 0.01).cut(4 / 3)
        (measured,) = curator.measure([Marginal((column,))], curator.remaining)
        cells = np.add.reduceat(measured.values, bins).astype(float)
        model = AnswersModel(curator.domain, 1.0, {(column,): cells}, {(column,): 1.0})
        return Outcome(model, rounds=1)
