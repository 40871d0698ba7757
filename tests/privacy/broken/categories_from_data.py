"""Only the levels that occur in the table are measured: which ones occur is not paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.queries import Cell

CAUGHT_BY = {"path"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-categories-from-data"

    def run(self, task, curator):
        column = curator.domain.columns[0]
        (counts,) = curator._counts([(column,)])
        cells = [Cell((column,), [int(code)]) for code in np.flatnonzero(counts)]
        curator.measure(cells, curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
