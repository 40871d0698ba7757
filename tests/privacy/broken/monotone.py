"""Selection with the exponent of a monotone score, on a score that is not monotone.

The score ||M_r(D) - M_r(model)||_1 falls when an added row brings the table nearer to the model and
rises when it does not, so the factor 1/2 of the exponential mechanism is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.scores.whole import MarginalError
from admeasure.queries import Marginal, to_record

CAUGHT_BY = {"range", "cost"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-monotone"

    def run(self, task, curator):
        cost = curator.remaining
        candidates = [Marginal((column,)) for column in curator.domain.columns]
        # A model that is right in one cell and wrong in the others.
        answers = {}
        for query in candidates:
            answers[query.columns] = np.zeros(curator.domain.shape(query.columns))
            answers[query.columns].flat[0] = 100.0
        score = MarginalError(answers, dict.fromkeys(answers, 0.0))
        delta, epsilon = score.sensitivity(curator.unit), cost.epsilon_of_choice()
        asked = {
            "event": "choose",
            "k": 1,
            **cost.to_record(),
            "epsilon": epsilon,
            "sensitivity": delta,
        }
        curator.ledger.charge(cost, "choice")
        curator.journal.intend(asked)
        tables = curator._counts([q.columns for q in candidates])
        scores = np.concatenate(
            [score.of(q, table) for q, table in zip(candidates, tables, strict=True)]
        )
        (pick,) = curator._noise.top(scores, Fraction(epsilon) / delta, 1)  # the 2 is missing
        curator.journal.record(asked, {"chosen": [to_record(candidates[pick])]})
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
