"""The exact number of rows, taken past the ledger, as the model's total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.answers import AnswersModel, to_simplex
from admeasure.mechanisms import Outcome
from admeasure.queries import Marginal

CAUGHT_BY = {"outcome"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-uncharged-rows"

    def run(self, task, curator):
        (rows,) = curator._counts([()])
        one_way = [Marginal((column,)) for column in curator.domain.columns]
        log = curator.measure(one_way, curator.remaining)
        tables = {m.query.columns: to_simplex(m.values, float(rows)) for m in log}
        variances = {m.query.columns: m.sigma**2 for m in log}
        return Outcome(AnswersModel(curator.domain, float(rows), tables, variances), rounds=1)
