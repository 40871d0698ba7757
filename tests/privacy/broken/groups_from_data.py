"""A hierarchy is cut where the exact counts say, and only what is measured on it is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.queries import Marginal
from admeasure.schema.hierarchy import Hierarchy

CAUGHT_BY = {"outcome"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-groups-from-data"

    def run(self, task, curator):
        column = curator.domain.columns[0]
        (counts,) = curator._counts([(column,)])
        tree = Hierarchy({str(code): "all" for code in range(len(counts))})
        levels = tree.cut(counts.astype(float), 1.0)
        (measured,) = curator.measure([Marginal((column,))], curator.remaining)
        cells = np.bincount(tree.of_leaves(levels), measured.values, len(levels))
        model = AnswersModel(curator.domain, 1.0, {(column,): cells}, {(column,): 1.0})
        return Outcome(model, rounds=1)
