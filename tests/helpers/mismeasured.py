"""A measurement that states the sensitivity of a marginal, whatever it is of."""

from __future__ import annotations

from typing import Any

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.journal import pack
from admeasure.queries import Marginal, to_record


def as_a_marginal(curator: Any, query: Any, draws: int | None = None) -> Outcome:
    """The whole budget for the query, with the noise of the marginal that it reads: a draw for each
    number, or so many for all."""
    cost = curator.remaining
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
    noise = np.resize(curator._noise.discrete_gaussian(sigma, draws or exact.size), exact.shape)
    curator.journal.record(asked, {"values": pack(exact + noise)})
    return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
