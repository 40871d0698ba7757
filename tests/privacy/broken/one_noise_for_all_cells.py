"""One noise for a whole marginal, added to every cell: the differences of its cells are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.journal import pack
from admeasure.queries import Marginal, to_record

CAUGHT_BY = {"draw"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-one-noise-for-all-cells"

    def run(self, curator, workload, zeros):
        query, cost = Marginal(curator.domain.columns), curator.remaining
        l2_squared = query.sensitivity(curator.domain, curator.unit).l2_squared
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
        noise = curator._noise.discrete_gaussian(sigma, 1)
        curator.journal.record(asked, {"values": pack(np.asarray(counts) + noise)})
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
