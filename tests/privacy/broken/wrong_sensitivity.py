"""A whole threshold measured with the noise of a marginal: one row moves several of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.journal import pack
from admeasure.queries import Marginal, Threshold, to_record

CAUGHT_BY = {"sensitivity"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-wrong-sensitivity"

    def run(self, curator, workload, zeros):
        cost = curator.remaining
        query = Threshold(curator.domain.columns[:2], 1)
        l2_squared = Marginal(query.columns).sensitivity(curator.domain, curator.unit).l2_squared
        sigma = cost.sigma(l2_squared)
        asked = {
            "event": "measure",
            "query": to_record(query),
            **cost.to_record(),
            "sigma": sigma,
            "l2_squared": l2_squared,
        }
        curator.ledger.charge(cost, "measurement")
        curator.journal.intend(asked)
        (counts,) = curator._counts([query.columns])
        exact = np.asarray(query.answer(counts))
        noise = curator._noise.discrete_gaussian(sigma, exact.size).reshape(exact.shape)
        curator.journal.record(asked, {"values": pack(exact + noise)})
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
