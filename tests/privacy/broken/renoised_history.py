"""What was measured before is drawn again with fresh noise in each round, and charged once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel, to_simplex
from admeasure.mechanisms import Outcome
from admeasure.queries import Marginal

CAUGHT_BY = {"draw", "outcome"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-renoised-history"

    def run(self, task, curator):
        query = Marginal(curator.domain.columns[:1])
        (m,) = curator.measure([query], curator.remaining)
        (counts,) = curator._counts([query.columns])
        rounds = [m.values]
        for _ in range(3):
            rounds.append(counts + curator._noise.discrete_gaussian(m.sigma, counts.size))
        table = to_simplex(np.mean(rounds, axis=0), 10.0)
        model = AnswersModel(curator.domain, 10.0, {query.columns: table}, {query.columns: 1.0})
        return Outcome(model, rounds=1)
