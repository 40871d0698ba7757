"""How far the release may be from the table, at a stated confidence, from released facts alone.

McKenna, Mullins, Sheldon and Miklau (AIM, 2022), section 5 and appendix B, with the corrections and
improvements that docs/explanations/bounds.md proves. Letters: M_r(D) the true marginal on r with n
cells, p the model of the release, y a noisy measurement, σ its scale, 1 - beta the confidence.

- *Supported* marginals, r inside a measured one. The weighted average ȳ_r of what was measured is
  M_r(D) plus noise (Theorem 2), so ||M_r(D) - p_r|| <= ||p_r - ȳ_r|| + ||noise|| in L1. The norm
  of the noise is bounded by Chernoff's inequality with the exact moments of |z|, where the paper's
  Theorem 3 bounds these moments, and true counts are not negative. Where a run decides by what it
  has seen what to measure next, the precision of ȳ_r is random; `Evidence.adaptive` pays for that.
- *Unsupported* marginals, which were candidates and not chosen. What was chosen instead is known,
  and the exponential mechanism seldom passes over a much worse answered marginal (Theorem 4). The
  error of the chosen one is bounded by inverting E|x + z|, which is sharper than Theorem 6. beta
  is divided among the rounds by their share of the budget, so that the bounds of all rounds hold
  together, and the selector may keep for each marginal the round that says most.
- A marginal of which one column is almost decided by others is bounded through smaller ones.
- Everything else has only the trivial bound: no table of N rows is further than N + p's total.

A bound holds for one marginal at the stated confidence; it is not simultaneous over all of them.
Noise is taken as what it is, discrete Gaussian (`noise`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import TypeVar, TypeVarTuple

import numpy as np

from admeasure.bounds.errors import error_bounds, of_one, paper_bound
from admeasure.bounds.found import Answer, Bound, IntervalKind, MeanError
from admeasure.bounds.intervals import KnownMarginals, Tails
from admeasure.bounds.noise import EstimateNoise, rounded_up, sum_tail, sum_tails, variance
from admeasure.domain import Columns, Domain, closure
from admeasure.errors import UsageError
from admeasure.families import Model
from admeasure.families.residuals import Residuals
from admeasure.measurement import Measurement, NoisyErrors, mean_factor
from admeasure.privacy.scores.score import rounding
from admeasure.queries import Marginal, Query
from admeasure.schema import Zero
from admeasure.schema.zeros import possible_cells
from admeasure.selectors.evidence import Selection
from admeasure.workload import Question

NONE: frozenset[int] = frozenset()
S = TypeVar("S")
R = TypeVar("R")
A = TypeVarTuple("A")


def remembered(method: Callable[[S, *A], R]) -> Callable[[S, *A], R]:
    """A method of a frozen object that works each answer out once."""

    @wraps(method)
    def asked(self: S, *given: *A) -> R:
        known = self.__dict__.setdefault(f"answers of {method.__name__}", {})
        if given not in known:
            known[given] = method(self, *given)
        return known[given]

    return asked


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the run released that speaks about its errors.

    `adaptive`: whether what was measured may depend on earlier noise; false only where the whole
    list of measurements was fixed in advance. `zeros`: what cannot occur, which is known exactly.
    `errors`: the certificate of accuracy, if one was bought. `shares`: what each measurement cost,
    of the whole budget of the run.
    """

    domain: Domain
    model: Model
    measurements: tuple[Measurement, ...]
    selections: tuple[Selection, ...]
    adaptive: bool = True
    zeros: Sequence[Zero] = ()
    errors: NoisyErrors | None = None
    shares: Sequence[float] | None = None

    def bounds(self, marginals: Sequence[Columns], confidence: float) -> dict[Columns, Bound]:
        """For each set of columns, by itself."""
        beta = error_probability(confidence)
        believed = self.model.marginals(marginals)
        return {c: self._bound(c, p, beta) for c, p in zip(marginals, believed, strict=True)}

    def answers(self, questions: Sequence[Question], confidence: float) -> list[Answer]:
        """For each question an interval, by itself; no two of them contradict each other."""
        beta = error_probability(confidence)
        sets = list(dict.fromkeys(q.query.columns for q in questions))
        known = {
            columns: KnownMarginals(self, columns, np.asarray(table, dtype=float), beta)
            for columns, table in zip(sets, self.model.marginals(sets), strict=True)
        }
        return [self._answer(q, known[q.query.columns], beta) for q in questions]

    def bound_of(self, query: Query, confidence: float) -> Bound:
        """How far all numbers of a query may be off together, in L1: for a marginal its own bound;
        for a single count what its interval allows; for other queries the bound of their marginal,
        times the numbers that one row counts in at the most."""
        if not query.shape(self.domain):
            (a,) = self.answers([Question(str(query), query)], confidence)
            return Bound(max(a.high - a.value, a.value - a.low), a.kind, math.inf)
        known = self.bounds([query.columns], confidence)[query.columns]
        if isinstance(query, Marginal):
            return known
        times = float(query.spread(np.ones(query.shape(self.domain)), self.domain).max())
        return Bound(times * known.error, known.kind, times * known.paper)

    def mean_error(self, confidence: float) -> MeanError | None:
        """The mean error of the workload, weighted, where a certificate was bought: as it was
        bought, or as the mean of the errors of single marginals, whichever has less noise. Which
        one that is depends on public numbers alone."""
        if self.errors is None:
            return None
        m, half = len(self.errors.marginals), error_probability(confidence) / 2
        # What is summed, how many draws of noise are in it, and how many means it is.
        ways = [(self.errors.values[:1], 1, mean_factor(m))]
        if self.errors.weighs_alike:
            ways.append((self.errors.values[1:], m, m))
        tails = [sum_tail(draws, self.errors.sigma, half) / times for _, draws, times in ways]
        off, (values, draws, times) = min(zip(tails, ways, strict=True), key=lambda way: way[0])
        slack = max(map(self._rounding, self.errors.marginals))
        value = int(values.sum()) / times
        low, high = value - off - slack, value + off + draws / times + slack
        return MeanError(max(0.0, value), max(0.0, low), max(0.0, high), confidence)

    @remembered
    def estimate(self, columns: Columns) -> tuple[np.ndarray, EstimateNoise] | None:
        """ȳ_r of Theorem 2 and its noise, or None where r is not supported."""
        tables, weights = [], []
        for i in self._containing(columns):
            m, table = self._measured[i], self._summed(i, columns)
            if m.sigma == 0:
                return table, EstimateNoise(0.0, 0.0)
            tables.append(table)
            weights.append(table.size / m.values.size / variance(m.sigma))
        if not tables:
            return self._from_residuals(columns)
        precision = math.fsum(weights)
        scale = precision**-0.5
        noise = rounded_up(precision, self._first) if self.adaptive else EstimateNoise(scale, scale)
        if len(tables) == 1:  # exactly, so that whole numbers stay whole
            return tables[0], noise
        mean = np.sum([w * t for w, t in zip(weights, tables, strict=True)], axis=0) / precision
        return mean, noise

    def _from_residuals(self, columns: Columns) -> tuple[np.ndarray, EstimateNoise] | None:
        """What residuals say of a marginal. Its noise is of different size in different directions;
        what has the largest of them in all lies above it in the convex order."""
        if not self._residuals.hold(columns):
            return None
        scale = self._residuals.largest_variance(columns, variance) ** 0.5
        mean = self._residuals.variance(columns) ** 0.5
        return self._residuals.table(columns), EstimateNoise(scale, mean)

    @cached_property
    def _residuals(self) -> Residuals:
        return Residuals.of(self.domain, self.measurements)

    @remembered
    def _summed(self, i: int, columns: Columns) -> np.ndarray:
        measured = self._measured[i]
        drop = tuple(i for i, c in enumerate(measured.query.columns) if c not in columns)
        return measured.values.sum(axis=drop, dtype=float)

    @cached_property
    def _measured(self) -> list[Measurement]:
        return [m for m in self.measurements if isinstance(m.query, Marginal)]

    def _containing(self, columns: Columns) -> Sequence[int]:
        """The places of the measured marginals that have these columns, in order."""
        if not columns:
            return range(len(self._measured))
        return sorted(frozenset.intersection(*(self._having.get(c, NONE) for c in columns)))

    @cached_property
    def _having(self) -> dict[str, frozenset[int]]:
        return _places(m.query.columns for m in self._measured)

    @cached_property
    def _parts(self) -> list[float]:
        """The part of a probability that each of the measured marginals has, adding up to no more
        than 1. In an adaptive run it was known before the measurement: what it cost of the whole
        budget, else its place."""
        if not self.adaptive:
            return [1 / len(self._measured)] * len(self._measured)
        if self.shares is not None:
            shares = zip(self.measurements, self.shares, strict=True)
            return [share for m, share in shares if isinstance(m.query, Marginal)]
        return [6 / (math.pi * (i + 1)) ** 2 for i in range(len(self._measured))]

    @cached_property
    def _first(self) -> float:
        """The variance of the first noise, which no earlier noise can have influenced."""
        return next(variance(m.sigma) for m in self._measured if m.sigma > 0)

    @cached_property
    def candidates(self) -> dict[Columns, Selection]:
        """For each unsupported marginal the round that was kept for it."""
        return {c: s for s in self.selections for c in s.distances}

    def possible(self, columns: Columns) -> np.ndarray:
        """The cells of a marginal that no structural zero inside it rules out."""
        return possible_cells(columns, self.domain.shape(columns), self.zeros)

    def speaks_of(self, columns: Columns) -> bool:
        """Whether these columns lie together in what was measured, certified or on offer."""
        known = columns in self.candidates or self.estimate(columns) is not None
        return known or self.certified_errors(columns)[0] > 0

    def part(self, columns: Columns) -> float:
        """The part of a probability that statements about these columns have; the parts of all
        sets add up to no more than 1. Sizes have 1/2, 1/6, 1/12, …, and sets of one size share
        evenly; where all that was measured was fixed beforehand, only its subsets take part."""
        j = len(columns)
        if self.adaptive or j not in self._sizes:
            return 1 / (j * (j + 1) * math.comb(len(self.domain.columns), j))
        return 1 / (len(self._sizes) * self._sizes[j])

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """How many different sets of each size lie inside what was measured."""
        return Counter(map(len, closure(m.query.columns for m in self._measured)))

    @remembered
    def certified_errors(self, columns: Columns) -> tuple[int, float]:
        """How many certified marginals contain these columns, and the smallest of their noisy
        errors, raised by what rounding may have taken off."""
        within = [self._by_column.get(c, NONE) for c in columns]
        found = frozenset.intersection(*within) if within else frozenset()
        if self.errors is not None and not self.model.adds_up:
            found = frozenset(i for i in found if self.errors.marginals[i] == columns)
        return len(found), min((self._raised[i] for i in found), default=math.inf)

    @cached_property
    def _raised(self) -> list[float]:
        assert self.errors is not None
        pairs = zip(self.errors.marginals, self.errors.values[1:].tolist(), strict=True)
        return [value + 1 + self._rounding(r) for r, value in pairs]

    def _rounding(self, columns: Columns) -> float:
        """Rows by which an error on the grid may differ from that of the model. Answers that do not
        add up may be negative."""
        total = self.model.total if self.model.adds_up else math.inf
        return rounding(self.domain.cells(columns), total)

    @cached_property
    def _by_column(self) -> dict[str, frozenset[int]]:
        return _places(self.errors.marginals if self.errors else ())

    def most_rows(self, beta: float) -> float:
        """The number of rows is at most this, with probability 1 - beta."""
        return self.rows_between(beta)[1]

    @remembered
    def rows_between(self, beta: float) -> tuple[float, float]:
        """The number of rows is beyond each of these with probability at most beta."""
        found = self.estimate(())
        if found is None:
            return 0.0, math.inf
        off = self.tail((), np.ones(()), beta)
        return max(0.0, float(found[0]) - off), max(0.0, float(found[0]) + off)

    def tail(self, columns: Columns, weights: np.ndarray, beta: float) -> float:
        """A sum over cells of the estimate of these columns, so weighted, passes the true one by
        this with probability at most beta, and falls short of it by this as seldom.

        Noise is symmetric, so that cells which are taken off are like cells which are added.
        """
        found = self.estimate(columns)
        assert found is not None
        sizes = np.unique(np.abs(weights[weights != 0]))
        if len(sizes) == 1:
            cells = np.array([np.count_nonzero(weights)])
            return float(sizes[0] * self.tails(columns, beta)(cells)[0])
        return found[1].tail(beta) * float(np.linalg.norm(weights))

    def tails(self, columns: Columns, beta: float) -> Tails:
        """The same for sums of cells, by their number. Where the noise is that of one measurement,
        and no other could have been made, its law is known."""
        found = self.estimate(columns)
        assert found is not None
        estimate, noise = found
        inside = self._containing(columns)
        if len(inside) == 1 and not self.adaptive:
            m = self._measured[inside[0]]
            summed = m.values.size // estimate.size
            return _tails(summed, m.sigma, 1.0, beta)
        return lambda cells: noise.tail(beta) * np.sqrt(cells)

    def singles(self, columns: Columns) -> Iterator[tuple[np.ndarray, Callable[[float], Tails]]]:
        """Each measurement by itself, summed to these columns, and its tails for a probability: its
        part of that is divided among the sizes of sets inside it, and there evenly."""
        for i in self._containing(columns):
            m, inside = self._measured[i], self._measured[i].query.columns
            table = self._summed(i, columns)
            part = self._parts[i] / (len(inside) * math.comb(len(inside), len(columns)))
            yield table, partial(_tails, m.values.size // table.size, m.sigma, part)

    def _bound(self, columns: Columns, believed: np.ndarray, beta: float) -> Bound:
        errors = error_bounds(self, columns, believed, of_one(self, columns, beta))
        error, paper = errors[columns], paper_bound(self, columns, believed, beta)
        trivial = self.most_rows(0.05 * beta) + float(believed.sum())
        return Bound(error, self._kind(columns, error < trivial), paper, self._least(columns, beta))

    def _least(self, columns: Columns, beta: float) -> float:
        """A certified marginal is at least so far off."""
        place = self._certificates.get(columns)
        if self.errors is None or place is None:
            return 0.0
        value = int(self.errors.values[1 + place])
        off = sum_tail(1, self.errors.sigma, 0.05 * beta)
        return max(0.0, value - off - self._rounding(columns))

    @cached_property
    def _certificates(self) -> dict[Columns, int]:
        """Where the error of each certified marginal stands."""
        marginals = self.errors.marginals if self.errors else ()
        return {columns: i for i, columns in enumerate(marginals)}

    def _kind(self, columns: Columns, known: bool) -> IntervalKind:  # noqa: FBT001 - what is left
        if self.estimate(columns) is not None:
            return "supported"
        if not known:
            return "trivial"
        return "certified" if self.certified_errors(columns)[0] else "unsupported"

    def _answer(self, question: Question, known: KnownMarginals, beta: float) -> Answer:
        query = question.query
        counted = np.asarray(query.spread(np.ones(()), self.domain))
        if query.shape(self.domain):
            raise UsageError(f"{question.name}: this asks for a whole table. Ask for one count.")
        low, value, high = known.interval(counted != 0)
        said = high < self.most_rows(0.05 * beta) or low > 0
        kind = "supported" if high == 0 else self._kind(query.columns, said)
        return Answer(question.name, query, value, low, high, 1 - beta, kind)


def _places(sets: Iterable[Columns]) -> dict[str, frozenset[int]]:
    """For each column the places of the sets that have it."""
    found: dict[str, set[int]] = {}
    for i, columns in enumerate(sets):
        for c in columns:
            found.setdefault(c, set()).add(i)
    return {c: frozenset(places) for c, places in found.items()}


def _tails(summed: int, sigma: float, part: float, beta: float) -> Tails:
    return lambda cells: sum_tails(cells * summed, sigma, part * beta)


def error_probability(confidence: float) -> float:
    """1 - confidence, which must lie between 0 and 1."""
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1; it is {confidence}.")
    return 1 - confidence
