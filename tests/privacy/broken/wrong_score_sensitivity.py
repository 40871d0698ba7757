"""A score that declares the sensitivity of one row whatever a person may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.scores.score import GRID
from admeasure.privacy.scores.whole import MarginalError
from admeasure.queries import Marginal

CAUGHT_BY = {"score"}


class OneRow(MarginalError):
    def sensitivity(self, unit):
        return GRID // 2


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-wrong-score-sensitivity"

    def run(self, task, curator):
        candidates = [Marginal((column,)) for column in curator.domain.columns]
        answers = {q.columns: np.zeros(curator.domain.shape(q.columns)) for q in candidates}
        score = OneRow(answers, dict.fromkeys(answers, 0.0))
        curator.choose(score, candidates, curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
