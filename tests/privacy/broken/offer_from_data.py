"""Choices in turn where what is left on offer depends on the table: which marginals are even worth
scoring is not paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.scores.whole import MarginalError
from admeasure.queries import Marginal

CAUGHT_BY = {"path"}


class NotEmpty:
    """On offer is what the table has a row in every cell of."""

    def __init__(self, tables):
        self._full = np.array([bool((table > 0).all()) for table in tables])

    def left(self):
        return self._full

    def take(self, place):
        self._full[place] = False


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-offer-from-data"

    def run(self, task, curator):
        candidates = [Marginal((column,)) for column in curator.domain.columns]
        answers = {q.columns: np.zeros(curator.domain.shape(q.columns)) for q in candidates}
        score = MarginalError(answers, dict.fromkeys(answers, 0.0))
        offer = NotEmpty(curator._counts([q.columns for q in candidates]))
        curator.in_turn(score, candidates, 2, curator.remaining, offer)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
