"""The only reader of the private table inside a mechanism.

Its verbs, each charged to the ledger before noise is drawn and on record before its result is
used:

- `measure`: the exact integer answer of a query plus discrete Gaussian noise of scale sigma in
  every cell. With Δ² the squared L2 sensitivity of the query under the schema's neighbouring
  relation, the release is Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 14, which
  covers vectors). Charged: the cost asked for; sigma is rounded up so that Δ²/(2σ²) <= rho holds
  exactly for the double that is used and published.
- `choose`: the exponential mechanism with exponent ε·score/(2Δ), Δ the score's sensitivity. No
  score here is monotone, hence the factor 1/2. It is ε-bounded-range and so ε²/8-zCDP (Cesar and
  Rogers 2021, Lemma 3.4). Charged: rho, with ε = sqrt(8 rho) rounded down.
- `top_k`: k such choices without replacement, which is the law of one-shot Gumbel noise and
  top-k (Durfee and Rogers 2019, Lemma 4.2). Charged: rho, each choice with rho/k. The order of
  the result is not released.
- `in_turn`: at most k choices, each by the exponential mechanism with rho/k, by one score, among
  what a public rule leaves on offer: a function of the candidates and of earlier choices, all of
  them released. So the k choices are an adaptive composition of k mechanisms, each rho/k-zCDP (Bun
  and Steinke 2016, Lemma 2.3). Charged: rho/k for each choice that is made.
- `flip`: one choice by permute and flip with the same exponent. It is ε-DP but not ε-bounded-range,
  so no more than ε²/2-zCDP is known of it (Bun and Steinke 2016, Proposition 1.4). Charged: rho,
  with ε = sqrt(2 rho) rounded down; for the same rho `choose` may use twice that ε.
- `statistic`: integers that are no linear map of one marginal, plus discrete Gaussian noise. Their
  L2 sensitivity is proved where the statistic is defined. Charged as `measure` is.
- `find`: which texts of a column so many units hold that their noisy number passes a threshold.
  Sensitivity and threshold are proved in `found_levels`. Charged: rho, and a share of delta for the
  chance that a text is found which one unit alone holds.

Under add/remove the number of rows is private, and `rows` charges for it. Under replace with one
row for each person it is public by definition and `rows` gives it exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import UsageError
from admeasure.measurement import Measurement
from admeasure.privacy.cost import Cost, Number, as_cost
from admeasure.privacy.counts import KeptCounts, StepCounts
from admeasure.privacy.found_levels import FoundLevels
from admeasure.privacy.journal import Event, Journal, longest_packed, pack, unpack
from admeasure.privacy.ledger import Ledger
from admeasure.privacy.memory import USUAL, Memory
from admeasure.privacy.noise import Noise
from admeasure.privacy.offer import Among, OnOffer
from admeasure.privacy.reading import AnswerReader
from admeasure.privacy.scores import grouped
from admeasure.privacy.scores.score import Block, Score, StreamedScore
from admeasure.privacy.statistic import NoisyStatistic, Statistic
from admeasure.privacy.truth import ExactAnswers, of_cells
from admeasure.queries import (
    Cell,
    Marginal,
    Predicate,
    Query,
    ThresholdCell,
    from_record,
    to_record,
)
from admeasure.schema import Schema
from admeasure.sparse import TextCounts
from admeasure.unit import Unit

if TYPE_CHECKING:
    from admeasure.sources import Source
    from admeasure.sources.texts import OpenTable


class Curator:
    """Holds the table, the ledger, the source of noise and the journal together.

    `memory` says how much of exact counts, and of the answers of queries that are streamed, is kept
    between calls.
    """

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        noise: Noise,
        journal: Journal | None = None,
        *,
        memory: Memory = USUAL,
        known: Sequence[Measurement] = (),
    ) -> None:
        self.domain: Domain = source.schema.domain
        self.unit: Unit = source.schema.unit
        self.ledger = ledger
        self.budget: Cost = ledger.remaining  # what may be spent here, all told
        self.journal = Journal() if journal is None else journal
        self._source = source
        self._noise = noise
        self._memory = memory
        self._known = {measurement.query: measurement for measurement in known}
        self._kept = KeptCounts(source, memory)
        self._streaming = self._kept.of_step([])
        self._reader = AnswerReader(source, lambda columns: self._streaming.of(columns), memory)
        self._answers = ExactAnswers(self._reader, memory.keep_bytes)

    @property
    def remaining(self) -> Cost:
        """The budget that is left."""
        return self.ledger.remaining

    def recoded(self, schema: Schema, known: Sequence[Measurement] = ()) -> Curator:
        """A curator of the same table by `schema`, for what is left of the budget (`Source.by`).
        Releases nothing; the schema and what is `known` follow from what was released.

        Each of the latter is joined to the first measurement of its query that a mechanism gets,
        unless something was chosen before: bounds rest on the noise of measurements after choices,
        and the levels were found by the noise of what is known.
        """
        shared = {"memory": self._memory, "known": known}
        return Curator(self._source.by(schema), self.ledger, self._noise, self.journal, **shared)

    def within(self, budget: Cost) -> Curator:
        """The same curator for a part of the budget; what is charged to it is charged here."""
        ledger = self.ledger.part(budget)
        part = Curator(self._source, ledger, self._noise, self.journal, memory=self._memory)
        part._kept = self._kept  # counts that one has read serve the other
        part._known = self._known  # joined once, whoever measures
        return part

    def measure(
        self,
        queries: Sequence[Query],
        cost: Cost | Number,
        shares: Sequence[Number] | None = None,
    ) -> tuple[Measurement, ...]:
        """Answer queries with noise; together they cost `cost`, divided evenly or by `shares`."""
        weights = [Fraction(s) for s in (shares or [1] * len(queries))]
        each = as_cost(cost) / (sum(weights) or 1)
        counts = self._kept.of_step([query.columns for query in queries])
        return tuple(
            self._measure(query, each * weight, counts)
            for query, weight in zip(queries, weights, strict=True)
        )

    def rows(self, cost: Cost | Number) -> Measurement:
        """The number of rows: exact and free where it is public, else measured for `cost`."""
        if self.unit.rows_are_public:
            return Measurement(Marginal(()), self._kept.of_step([()]).of(()), sigma=0.0)
        return self._measure(Marginal(()), as_cost(cost), self._kept.of_step([()]))

    def choose(
        self, score: Score | StreamedScore, candidates: Sequence[Query], cost: Cost | Number
    ) -> Query:
        """Choose one of what the candidates offer, the worse answered the likelier."""
        (chosen,) = self.top_k(score, candidates, 1, cost)
        return chosen

    def top_k(
        self,
        score: Score | StreamedScore,
        candidates: Sequence[Query],
        k: int,
        cost: Cost | Number,
    ) -> tuple[Query, ...]:
        """Choose k different things of what the candidates offer."""
        cost = as_cost(cost)
        epsilon = (cost / k).epsilon_of_choice()
        delta = score.sensitivity(self.unit)
        asked: Event = {
            "event": "choose",
            "k": k,
            **cost.to_record(),
            "epsilon": epsilon,
            "sensitivity": delta,
            "candidates": len(candidates),
            "among": Among(candidates).all,
        }
        event = self._chosen_before(asked, cost)
        if event is None:
            with self.journal.drawing(asked, room=k * _longest_record(self.domain)):
                found = self._race(score, candidates, k, Fraction(epsilon) / (2 * delta))
                chosen = [to_record(query) for query in found]
            event = self.journal.record(asked, {"chosen": chosen})
        return tuple(from_record(record) for record in event["chosen"])

    def in_turn(
        self, score: Score, candidates: Sequence[Query], k: int, cost: Cost | Number, offer: OnOffer
    ) -> tuple[Query, ...]:
        """Choose up to k of the candidates one after another, while any is on offer. The score has
        one integer for each of them; the table is read once for all choices."""
        each = as_cost(cost) / k
        epsilon, delta = each.epsilon_of_choice(), score.sensitivity(self.unit)
        place = {query: i for i, query in enumerate(candidates)}
        among, blocks = Among(candidates), list[Block]()
        chosen: list[Query] = []
        while len(chosen) < k and (on_offer := np.asarray(offer.left(), dtype=bool)).any():
            asked: Event = {
                "event": "choose",
                "k": 1,
                **each.to_record(),
                "epsilon": epsilon,
                "sensitivity": delta,
                "candidates": int(on_offer.sum()),
                "among": among.part(on_offer),
            }
            event = self._chosen_before(asked, each)
            if event is None:
                with self.journal.drawing(asked, room=_longest_record(self.domain)):
                    blocks = blocks or list(self._blocks(score, candidates))
                    race, start = self._noise.race(Fraction(epsilon) / (2 * delta), 1), 0
                    for block in blocks:
                        end = start + block.scores.size
                        race.add(block.scores, np.flatnonzero(~on_offer[start:end]))
                        start = end
                    (pick,) = race.result()
                    found = [to_record(candidates[pick])]
                event = self.journal.record(asked, {"chosen": found})
            chosen.append(from_record(event["chosen"][0]))
            offer.take(place[chosen[-1]])
        return tuple(chosen)

    def _chosen_before(self, asked: Event, cost: Cost) -> Event | None:
        """Charge for a choice; what it came to where it is replayed."""
        what = f"choice of {asked['k']} among {asked['candidates']} candidates"
        self.ledger.charge(cost, what)
        self._known.clear()
        return self.journal.next_recorded(asked)

    def flip(self, score: Score, candidates: Sequence[Query], cost: Cost | Number) -> Query:
        """Choose one of what the candidates offer, by permute and flip."""
        cost = as_cost(cost)
        epsilon = cost.epsilon_of_flip()
        delta = score.sensitivity(self.unit)
        asked: Event = {
            "event": "flip",
            **cost.to_record(),
            "epsilon": epsilon,
            "sensitivity": delta,
            "candidates": len(candidates),
            "among": Among(candidates).all,
        }
        self.ledger.charge(cost, f"choice of 1 among {len(candidates)} candidates, by coins")
        self._known.clear()
        event = self.journal.next_recorded(asked)
        if event is None:
            counts = self._counts([q.columns for q in candidates])
            scores = [np.ravel(score.of(q, t)) for q, t in zip(candidates, counts, strict=True)]
            starts = np.cumsum([0] + [len(s) for s in scores])
            step = Fraction(epsilon) / (2 * delta)
            with self.journal.drawing(asked, room=_longest_record(self.domain)):
                pick = self._noise.permute_and_flip(np.concatenate(scores), step)
                which = int(np.searchsorted(starts, pick, side="right")) - 1
                found = score.chosen(candidates[which], int(pick - starts[which]))
                chosen = [to_record(found)]
            event = self.journal.record(asked, {"chosen": chosen})
        return from_record(event["chosen"][0])

    def statistic(self, statistic: Statistic, cost: Cost | Number) -> NoisyStatistic:
        """The statistic's integers with noise."""
        cost = as_cost(cost)
        l2_squared = statistic.l2_squared(self.unit)
        sigma = cost.sigma(l2_squared)
        asked: Event = {
            "event": "statistic",
            "what": str(statistic),
            **cost.to_record(),
            "sigma": sigma,
            "l2_squared": l2_squared,
        }
        self.ledger.charge(cost, str(statistic))
        event = self.journal.next_recorded(asked)
        if event is None:
            counts = self._kept.of_step(statistic.marginals)
            # One after the other: all of them may be too many.
            exact = np.asarray(statistic.of(map(counts.of, statistic.marginals)), dtype=np.int64)
            event = self._noised(asked, exact, sigma)
        return NoisyStatistic(unpack(event["values"]), sigma)

    def find(self, levels: FoundLevels, cost: Cost) -> tuple[str, ...]:
        """Texts of a column that many units hold, in alphabetical order."""
        sigma, least = levels.sigma(self.unit, cost), levels.threshold(self.unit, cost)
        asked: Event = {
            "event": "find",
            "column": levels.column,
            **cost.to_record(),
            "sigma": sigma,
            "l2_squared": levels.l2_squared(self.unit),
            "threshold": least,
        }
        self.ledger.charge(cost, str(levels))
        event = self.journal.next_recorded(asked)
        if event is None:
            with self.journal.drawing(asked, room=levels.longest_record):
                blocks = map(levels.fit, self._texts(levels.column))
                found = self._noise.passing(blocks, sigma, least, levels.most)
            event = self.journal.record(asked, {"found": found})
        return tuple(event["found"])

    def _texts(self, column: str) -> Iterator[TextCounts]:
        if not _holds_texts(self._source):
            raise UsageError("Levels cannot be found in this table: give the column an `enum`.")
        return self._source.texts(column)

    def _race(
        self,
        score: Score | StreamedScore,
        candidates: Sequence[Query],
        k: int,
        step: Fraction,
    ) -> list[Query]:
        """The winners among everything on offer, of which one block is held at a time."""
        race = self._noise.race(step, k)
        ends, places = [0], []
        for block in self._blocks(score, candidates):
            race.add(block.scores, block.without)
            ends.append(ends[-1] + block.scores.size)
            places.append(block.place)
        found = []
        for pick in race.result():
            which = int(np.searchsorted(ends, pick, side="right")) - 1
            found.append(score.chosen(*places[which](pick - ends[which])))
        return found

    def _blocks(self, score: Score | StreamedScore, candidates: Sequence[Query]) -> Iterator[Block]:
        if isinstance(score, StreamedScore):
            self._streaming = self._kept.of_step(self._reader.expect(candidates))
            return score.blocks(candidates, self._answers)
        counts = self._kept.of_step([query.columns for query in candidates])
        return grouped.blocks(score, candidates, counts)

    def expect(self, marginals: Sequence[Columns]) -> None:
        """Say which marginals later steps may need, so that the first step that reads the table
        counts them in the same pass. Releases nothing, and reads nothing yet."""
        self._kept.expect(marginals)

    def read(self, marginals: Sequence[Columns]) -> None:
        """Count these marginals now, in one pass over the table, and with them what is expected, as
        far as they may be kept. Releases nothing."""
        self._kept.read(marginals)

    def _measure(self, query: Query, cost: Cost, counts: StepCounts) -> Measurement:
        l2_squared = query.sensitivity(self.domain, self.unit).l2_squared
        sigma = cost.sigma(l2_squared)
        asked: Event = {
            "event": "measure",
            "query": to_record(query),
            **cost.to_record(),
            "sigma": sigma,
            "l2_squared": l2_squared,
        }
        self.ledger.charge(cost, f"measurement of {query}")
        event = self.journal.next_recorded(asked)
        if event is None:
            event = self._noised(asked, self._exact(query, counts), sigma)
        measured = Measurement(query, unpack(event["values"]), sigma)
        known = self._known.pop(query, None)
        return measured if known is None else measured.joined(known)

    def _noised(self, asked: Event, exact: np.ndarray, sigma: float) -> Event:
        with self.journal.drawing(asked, room=longest_packed(exact.shape)):
            noise = self._noise.discrete_gaussian(sigma, exact.size).reshape(exact.shape)
            values = pack(exact + noise)
        return self.journal.record(asked, {"values": values})

    def _exact(self, query: Query, counts: StepCounts) -> np.ndarray:
        if isinstance(query, Predicate):
            return query.of_sparse(self._reader.sparse(query.columns))
        large = self.domain.cells(query.columns) > self._kept.batch_cells
        if large and isinstance(query, Cell | ThresholdCell):
            return of_cells(query, self._reader.sparse(query.columns))
        return np.asarray(query.answer(counts.of(query.columns)), dtype=np.int64)

    def _counts(self, marginals: Sequence[Columns]) -> list[np.ndarray]:
        counts = self._kept.of_step(marginals)
        return [counts.of(columns) for columns in marginals]


def _holds_texts(source: Source) -> TypeGuard[OpenTable]:
    return hasattr(source, "texts")


def _longest_record(domain: Domain) -> int:
    """Bytes that no record of one chosen query passes: every column, each with a code."""
    return 128 + sum(len(json.dumps(column)) + 32 for column in domain.columns)
