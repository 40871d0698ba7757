"""The only reader of the private table inside a mechanism.

Three verbs, each charged to the ledger before noise is drawn and on record before its result is
used:

- `measure`: the exact integer answer of a query plus discrete Gaussian noise of scale sigma in
  every cell. With Δ² the squared L2 sensitivity of the query under the schema's neighbouring
  relation, the release is Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 14, which
  covers vectors). Charged: the rho asked for; sigma is rounded up so that Δ²/(2σ²) <= rho holds
  exactly for the double that is used and published.
- `choose`: the exponential mechanism with exponent ε·score/(2Δ), Δ the score's sensitivity. No
  score here is monotone, hence the factor 1/2. It is ε-bounded-range and so ε²/8-zCDP (Cesar and
  Rogers 2021, Lemma 3.4). Charged: rho, with ε = sqrt(8 rho) rounded down.
- `top_k`: k such choices without replacement, which is the law of one-shot Gumbel noise and
  top-k (Durfee and Rogers 2019, Lemma 4.2). Charged: rho, each choice with rho/k. The order of
  the result is not released.

Under add/remove the number of rows is private, and `rows` charges for it. Under replace with one
row for each person it is public by definition and `rows` gives it exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import BudgetError
from admeasure.privacy.journal import Event, Journal, longest_packed, pack, unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.measurement import Measurement
from admeasure.privacy.noise import Noise
from admeasure.privacy.score import Score
from admeasure.privacy.unit import Unit
from admeasure.queries import Marginal, Query, from_record, to_record

if TYPE_CHECKING:
    from admeasure.sources import Source


def sigma_for(rho: Fraction, l2_squared: int) -> float:
    """The smallest double σ with l2_squared / (2 σ²) <= rho, checked in exact arithmetic."""
    if rho <= 0:
        raise BudgetError(f"A measurement needs a positive rho; it is {float(rho)}.")
    sigma = math.sqrt(l2_squared / (2 * rho))
    while Fraction(sigma) ** 2 * 2 * rho < l2_squared:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def epsilon_for(rho: Fraction) -> float:
    """The largest double ε, up to rounding, with ε²/8 <= rho."""
    if rho <= 0:
        raise BudgetError(f"A choice needs a positive rho; it is {float(rho)}.")
    epsilon = math.sqrt(8 * rho)
    while Fraction(epsilon) ** 2 > 8 * rho:
        epsilon = math.nextafter(epsilon, 0.0)
    return epsilon


class Curator:
    """Holds the table, the ledger, the source of noise and the journal together."""

    def __init__(
        self, source: Source, ledger: Ledger, noise: Noise, journal: Journal | None = None
    ) -> None:
        self.domain: Domain = source.schema.domain
        self.unit: Unit = source.schema.unit
        self.ledger = ledger
        self.journal = Journal() if journal is None else journal
        self._source = source
        self._noise = noise
        self._cache: dict[Columns, np.ndarray] = {}

    @property
    def remaining(self) -> Fraction:
        """The budget that is left, in rho."""
        return self.ledger.remaining

    def measure(
        self,
        queries: Sequence[Query],
        rho: Fraction | float,
        shares: Sequence[Fraction | float] | None = None,
    ) -> tuple[Measurement, ...]:
        """Answer queries with noise; together they cost `rho`, divided evenly or by `shares`."""
        weights = [Fraction(s) for s in (shares or [1] * len(queries))]
        total = sum(weights)
        self.read([query.columns for query in queries])
        return tuple(
            self._measure(query, Fraction(rho) * weight / total)
            for query, weight in zip(queries, weights, strict=True)
        )

    def rows(self, rho: Fraction | float) -> Measurement:
        """The number of rows: exact and free where it is public, else measured for `rho`."""
        if self.unit.rows_are_public:
            (exact,) = self._counts([()])
            return Measurement(Marginal(()), exact, sigma=0.0)
        return self._measure(Marginal(()), Fraction(rho))

    def choose(self, score: Score, candidates: Sequence[Query], rho: Fraction | float) -> Query:
        """Choose one of what the candidates offer, the worse answered the likelier."""
        (chosen,) = self.top_k(score, candidates, 1, rho)
        return chosen

    def top_k(
        self, score: Score, candidates: Sequence[Query], k: int, rho: Fraction | float
    ) -> tuple[Query, ...]:
        """Choose k different things of what the candidates offer."""
        rho = Fraction(rho)
        epsilon = epsilon_for(rho / k)
        delta = score.sensitivity(self.unit)
        asked = {
            "event": "choose",
            "k": k,
            "rho": str(rho),
            "epsilon": epsilon,
            "sensitivity": delta,
            "candidates": len(candidates),
            "among": _digest(candidates),
        }
        self.ledger.charge(rho, f"choice of {k} among {len(candidates)} candidates")
        event = self.journal.next_recorded(asked)
        if event is None:
            self.journal.intend(asked, room=k * _longest_record(self.domain))
            counts = self._counts([q.columns for q in candidates])
            scores = [
                np.ravel(score.of(query, table))
                for query, table in zip(candidates, counts, strict=True)
            ]
            starts = np.cumsum([0] + [len(s) for s in scores])
            picks = self._noise.top(np.concatenate(scores), Fraction(epsilon) / (2 * delta), k)
            found = []
            for pick in picks:
                which = int(np.searchsorted(starts, pick, side="right")) - 1
                found.append(score.chosen(candidates[which], int(pick - starts[which])))
            event = self.journal.record(asked, {"chosen": [to_record(q) for q in found]})
        return tuple(from_record(record) for record in event["chosen"])

    def read(self, marginals: Sequence[Columns]) -> None:
        """Count these marginals now, in one pass over the table. Releases nothing."""
        missing = [c for c in dict.fromkeys(marginals) if c not in self._cache]
        if missing:
            tables = self._source.counts(missing)
            self._cache.update(zip(missing, tables, strict=True))

    def _measure(self, query: Query, rho: Fraction) -> Measurement:
        l2_squared = query.sensitivity(self.domain, self.unit).l2_squared
        sigma = sigma_for(rho, l2_squared)
        asked: Event = {
            "event": "measure",
            "query": to_record(query),
            "rho": str(rho),
            "sigma": sigma,
            "l2_squared": l2_squared,
        }
        self.ledger.charge(rho, f"measurement of {query}")
        event = self.journal.next_recorded(asked)
        if event is None:
            (counts,) = self._counts([query.columns])
            exact = np.asarray(query.answer(counts), dtype=np.int64)
            self.journal.intend(asked, room=longest_packed(exact.shape))
            noise = self._noise.discrete_gaussian(sigma, exact.size).reshape(exact.shape)
            event = self.journal.record(asked, {"values": pack(exact + noise)})
        return Measurement(query, unpack(event["values"]), sigma)

    def _counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        self.read(marginals)
        return [self._cache[columns] for columns in marginals]


def _longest_record(domain: Domain) -> int:
    """Bytes that no record of one chosen query passes: every column, each with a code."""
    return 128 + sum(len(json.dumps(column)) + 32 for column in domain.columns)


def _digest(candidates: Sequence[Query]) -> str:
    text = "\n".join(map(repr, candidates))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
