"""The certificate of accuracy with the sensitivity of one error, where a row moves all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.workload_errors import WorkloadErrors

CAUGHT_BY = {"sensitivity"}


class OnePerson:
    """A model that believes in one kind of people alone, so that the person who is replaced takes
    the table away from it in every marginal."""

    def __init__(self, domain):
        self.domain = domain

    def marginals(self, columns):
        tables = [np.zeros(self.domain.shape(c)) for c in columns]
        for table, names in zip(tables, columns, strict=True):
            table[tuple({"a": 1, "b": 1, "c": 0}[c] for c in names)] = 1000.0
        return tables


class OneError(WorkloadErrors):
    def l2_squared(self, unit):
        return unit.rows_changed**2


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-errors-as-one-count"

    def run(self, task, curator):
        errors = OneError(OnePerson(curator.domain), task.workload, curator.domain)
        curator.statistic(errors, curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
