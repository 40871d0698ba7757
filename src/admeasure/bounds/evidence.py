"""How far the release may be from the table, at a stated confidence, from released facts alone.

McKenna, Mullins, Sheldon and Miklau (AIM, 2022), section 5 and appendix B, with the corrections and
improvements that docs/bounds.md proves. Letters: M_r(D) the true marginal on r with n cells, p the
model of the release, y a noisy measurement, σ its scale, 1 - beta the confidence.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from admeasure.bounds.noise import (
    EstimateNoise,
    error_behind,
    paper_noise_norm,
    rounded_up,
    sum_tail,
    variance,
)
from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import UsageError
from admeasure.families import Model
from admeasure.measurement import Measurement
from admeasure.privacy.scores.score import GRID
from admeasure.queries import Marginal, Query
from admeasure.schema import Zero
from admeasure.selectors.evidence import Selection
from admeasure.workload import Question

Kind = Literal["supported", "unsupported", "trivial"]


@dataclass(frozen=True)
class Bound:
    """`error` >= ||M_r(D) - M_r(model)||_1, in rows, at the asked confidence.

    `paper` is the bound as the paper prints it, for comparison; see docs/bounds.md for what it
    leaves out.
    """

    error: float
    kind: Kind
    paper: float


@dataclass(frozen=True)
class Answer:
    """A question, the model's answer, and an interval for the true one (all in rows)."""

    name: str
    query: Query
    value: float
    low: float
    high: float
    confidence: float
    kind: Kind


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the run released that speaks about its errors.

    `adaptive`: whether what was measured may depend on earlier noise; false only where the whole
    list of measurements was fixed in advance. `zeros`: what cannot occur, which is known exactly.
    """

    domain: Domain
    model: Model
    measurements: tuple[Measurement, ...]
    selections: tuple[Selection, ...]
    adaptive: bool = True
    zeros: Sequence[Zero] = ()

    def bounds(self, marginals: Sequence[Columns], confidence: float) -> dict[Columns, Bound]:
        beta = _beta(confidence)
        believed = self.model.marginals(marginals)
        return {c: self._bound(c, p, beta) for c, p in zip(marginals, believed, strict=True)}

    def answers(self, questions: Sequence[Question], confidence: float) -> list[Answer]:
        beta = _beta(confidence)
        believed = self.model.marginals([q.query.columns for q in questions])
        return [
            self._answer(question, table, beta)
            for question, table in zip(questions, believed, strict=True)
        ]

    def estimate(self, columns: Columns) -> tuple[np.ndarray, EstimateNoise] | None:
        """ȳ_r of Theorem 2 and its noise, or None where r is not supported."""
        if columns not in self._estimates:
            self._estimates[columns] = self._estimate(columns)
        return self._estimates[columns]

    def _estimate(self, columns: Columns) -> tuple[np.ndarray, EstimateNoise] | None:
        tables, weights = [], []
        for m in self._measured:
            inside = m.query.columns
            if set(columns) <= set(inside):
                drop = tuple(i for i, c in enumerate(inside) if c not in columns)
                table = m.values.sum(axis=drop, dtype=float)
                if m.sigma == 0:
                    return table, EstimateNoise(0.0, 0.0)
                tables.append(table)
                weights.append(table.size / m.values.size / variance(m.sigma))
        if not tables:
            return None
        precision = math.fsum(weights)
        scale = precision**-0.5
        noise = rounded_up(precision, self._first) if self.adaptive else EstimateNoise(scale, scale)
        if len(tables) == 1:  # exactly, so that whole numbers stay whole
            return tables[0], noise
        mean = np.sum([w * t for w, t in zip(weights, tables, strict=True)], axis=0) / precision
        return mean, noise

    @cached_property
    def _estimates(self) -> dict[Columns, tuple[np.ndarray, EstimateNoise] | None]:
        return {}

    @cached_property
    def _measured(self) -> list[Measurement]:
        return [m for m in self.measurements if isinstance(m.query, Marginal)]

    @cached_property
    def _first(self) -> float:
        """The variance of the first noise, which no earlier noise can have influenced."""
        return next(variance(m.sigma) for m in self._measured if m.sigma > 0)

    @cached_property
    def _candidates(self) -> dict[Columns, Selection]:
        """For each unsupported marginal the round that was kept for it."""
        return {c: s for s in self.selections for c in s.distances}

    @property
    def _hard(self) -> float:
        """The part of beta that is kept for what selections say."""
        return 0.5 if self.selections else 0.0

    def _possible(self, columns: Columns) -> np.ndarray:
        """The cells of a marginal that no structural zero inside it rules out."""
        possible = np.ones(self.domain.shape(columns), dtype=bool)
        for zero in self.zeros:
            if set(zero.columns) <= set(columns):
                shape = [self.domain[c] if c in zero.columns else 1 for c in columns]
                possible &= ~zero.mask.reshape(shape)
        return possible

    def most_rows(self, beta: float) -> float:
        """The number of rows is at most this, with probability 1 - beta."""
        found = self.estimate(())
        if found is None:
            return math.inf
        return max(0.0, float(found[0]) + self.tail((), np.ones(()), beta))

    def tail(self, columns: Columns, weights: np.ndarray, beta: float) -> float:
        """A sum over cells of the estimate of these columns, so weighted, passes the true one by
        this with probability at most beta, and falls short of it by this as seldom.

        Noise is symmetric, so that cells which are taken off are like cells which are added: where
        all weigh alike, and the noise is that of one measurement, its law is known.
        """
        found = self.estimate(columns)
        assert found is not None
        sizes = np.unique(np.abs(weights[weights != 0]))
        inside = [m for m in self._measured if set(columns) <= set(m.query.columns)]
        if len(inside) == 1 and not self.adaptive and len(sizes) == 1:
            (m,) = inside
            draws = np.count_nonzero(weights) * (m.values.size // found[0].size)
            return float(sizes[0]) * sum_tail(draws, m.sigma, beta)
        return found[1].tail(beta) * float(np.linalg.norm(weights))

    def _bound(self, columns: Columns, believed: np.ndarray, beta: float) -> Bound:
        """All that may be used for one marginal holds together with probability 1 - beta, so that
        it does not matter which of it is used, nor that this depends on the noise."""
        rows = 0.05 * beta
        own = (0.7 - self._hard) * beta
        part = 0.25 * beta / max(1, 2 ** len(columns) - 2)
        most = self.most_rows(rows)
        gap = max(0.0, most - float(believed.sum()))
        tables, errors = {columns: believed}, {}
        for s in _subsets(columns):
            tables[s] = believed.sum(axis=tuple(i for i, c in enumerate(columns) if c not in s))
            known = [
                most + float(believed.sum()),
                self._direct(s, tables[s], own if s == columns else part),
                self._passed_over(s, beta),
                *(gap + e for e in _nearly_determined(s, tables, errors)),
            ]
            errors[s] = min(known)
        error = errors[columns]
        if self.estimate(columns) is not None:
            return Bound(error, "supported", self._paper_direct(columns, believed, beta))
        kind: Kind = "unsupported" if error < most + float(believed.sum()) else "trivial"
        return Bound(error, kind, self._paper_passed_over(columns, beta))

    def _direct(self, columns: Columns, believed: np.ndarray, beta: float) -> float:
        """From what was measured of it: Corollary 1, for counts that are not negative."""
        found = self.estimate(columns)
        if found is None:
            return math.inf
        estimate, noise = found
        positive = np.maximum(estimate, 0.0)
        spent = float((positive - estimate).sum())
        left = max(0.0, noise.norm(estimate.size, beta) - spent)
        return float(np.abs(believed - positive).sum()) + left

    def _passed_over(self, r: Columns, beta: float) -> float:
        """From a round that could have chosen this marginal: Theorem 4 and Corollary 2.

        The round's part of beta is split evenly, as the paper's λ_1 = 2.7, λ_2 = 3.7 do.
        """
        s = self._candidates.get(r)
        if s is None:
            return math.inf
        half = self._hard * s.share * beta / 2
        n_t, n_r = self.domain.cells(s.chosen), self.domain.cells(r)
        # Scores were computed from answers that were rounded to the grid.
        rounding = (n_r + s.weights[s.chosen] / s.weights[r] * n_t) / (2 * GRID)
        chosen = error_behind(s.estimated, s.sigma, n_t, half)
        return self._theorem_4(r, s, chosen, half) + rounding

    def _theorem_4(self, r: Columns, s: Selection, chosen: float, beta: float) -> float:
        n_t, n_r = self.domain.cells(s.chosen), self.domain.cells(r)
        w_t, w_r = s.weights[s.chosen], s.weights[r]
        relation = s.penalty * (w_r * n_r - w_t * n_t)
        passed_over = 2 * s.sensitivity / s.epsilon * math.log(s.candidates / beta)
        return s.distances[r] + max(0.0, w_t * chosen + relation + passed_over) / w_r

    def _paper_direct(self, columns: Columns, believed: np.ndarray, beta: float) -> float:
        """Corollary 1 as printed."""
        found = self.estimate(columns)
        assert found is not None
        estimate, noise = found
        far = float(np.abs(believed - estimate).sum())
        return far + paper_noise_norm(noise.sigma_mean, estimate.size, beta)

    def _paper_passed_over(self, r: Columns, beta: float) -> float:
        """Corollary 2 as printed."""
        s = self._candidates.get(r)
        if s is None:
            return math.inf
        lam = math.sqrt(2 * math.log(2 / beta))
        chosen = s.estimated + lam * s.sigma * math.sqrt(self.domain.cells(s.chosen))
        return self._theorem_4(r, s, chosen, beta / 2)

    def _answer(self, question: Question, believed: np.ndarray, beta: float) -> Answer:
        query = question.query
        value = np.asarray(query.answer(believed), dtype=float)
        if value.shape:
            raise UsageError(f"{question.name}: a question has one number as its answer.")
        if not np.any(query.spread(np.ones(()), self.domain)[self._possible(query.columns)]):
            return Answer(question.name, query, 0.0, 0.0, 0.0, 1 - beta, "supported")
        # beta is divided: a tenth for the most rows, a tenth for the number of rows, the rest for
        # the marginal, of which selections keep their part whether they are used or not.
        most = self.most_rows(beta / 10)
        found = self.estimate(query.columns)
        if found is not None:
            counted = np.asarray(query.spread(np.ones(()), self.domain))
            half = self.tail(query.columns, counted, (1 - self._hard) * 0.4 * beta)
            centre, kind = float(query.answer(found[0])), "supported"
        else:
            bound = self._bound(query.columns, believed, 0.8 * beta)
            # A sum over cells moves by the positive part of the difference, which is half of its
            # L1 norm and half of what the totals differ by.
            gap, rows = 0.0, self.estimate(())
            if rows is not None:
                gap = self.tail((), np.ones(()), beta / 20)
                gap += abs(float(rows[0]) - float(believed.sum()))
            half, centre, kind = (bound.error + gap) / 2, float(value), bound.kind
        low = min(max(0.0, centre - half), float(value))
        high = max(min(most, centre + half), float(value))
        return Answer(question.name, query, float(value), low, high, 1 - beta, kind)


def _subsets(columns: Columns) -> list[Columns]:
    """All but the empty one, smaller ones first."""
    return [s for size in range(1, len(columns) + 1) for s in combinations(columns, size)]


def _nearly_determined(
    s: Columns, tables: dict[Columns, np.ndarray], errors: dict[Columns, float]
) -> Iterator[float]:
    """Bounds from smaller marginals, for a column c of s that others almost decide.

    Let x = s - c, y = z + c with z inside x, and δ the rows of the model's y outside the most
    frequent value of c for each value of z. Then E_s <= E_x + E_y + 4 δ + (N - model's total)^+.
    """
    for c in s if len(s) > 1 else ():
        x = tuple(k for k in s if k != c)
        for z in [(), *_subsets(x)[:-1]]:
            y = canonical((*z, c))
            table = tables[y]
            outside = float(table.sum() - table.max(axis=y.index(c)).sum())
            yield errors[x] + errors[y] + 4 * outside


def _beta(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1; it is {confidence}.")
    return 1 - confidence
