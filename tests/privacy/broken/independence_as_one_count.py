"""PrivSyn's InDif with the sensitivity of one count, where a row moves every pair by up to 4."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.independence import IndependenceErrors

CAUGHT_BY = {"sensitivity"}


class OneCount(IndependenceErrors):
    def l2_squared(self, unit):
        return unit.max_rows**2


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-independence-as-one-count"

    def run(self, task, curator):
        pairs = tuple(combinations(sorted(curator.domain.columns), 2))
        curator.statistic(OneCount(pairs), curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
