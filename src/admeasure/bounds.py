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
Noise is treated as Gaussian; the discrete Gaussian's E|x + z| differs from it by less than
0.07/σ rows a cell, and is the smaller one at x = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Literal, cast

import numpy as np

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL, Model
from admeasure.measurement import Measurement
from admeasure.privacy.scores.score import GRID
from admeasure.queries import Marginal, Query
from admeasure.schema import Zero
from admeasure.selectors.evidence import Selection
from admeasure.workload import Question

SQRT2 = math.sqrt(2)

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


@lru_cache(maxsize=4096)
def unit_norm(cells: int, beta: float) -> float:
    """x with P(||z||_1 >= x) <= beta for z standard normal in `cells` dimensions.

    Chernoff: E exp(θ|z|) = 2 exp(θ²/2) Φ(θ), so x = (log 1/beta + n log of that) / θ for any θ > 0.
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return (
            -math.log(beta) + cells * (theta**2 / 2 + math.log1p(math.erf(theta / SQRT2)))
        ) / theta

    # θ = sqrt(2 log(1/beta) / n) would be best for normal tails of variance 1; it is within a
    # factor of two of the best θ here, and any θ gives a valid bound.
    guess = math.log(math.sqrt(-2 * math.log(beta) / cells))
    from scipy.optimize import minimize_scalar  # takes long to import: who asks for it pays

    best = minimize_scalar(bound, bounds=(guess - 3, guess + 3), method="bounded")
    return min(bound(float(best.x)), bound(guess))


def paper_noise_norm(sigma: float, cells: int, beta: float) -> float:
    """Theorem 3 as printed."""
    lam = math.sqrt(math.log(1 / beta))
    return math.sqrt(2 * math.log(2)) * sigma * cells + lam * sigma * math.sqrt(2 * cells)


def folded_mean(x: float, sigma: float) -> float:
    """E|x + z| for z normal with scale sigma: the mean of a folded normal."""
    t = x / sigma
    return sigma * HALF_NORMAL * math.exp(-t * t / 2) + x * math.erf(t / SQRT2)


def error_behind(observed: float, sigma: float, cells: int, beta: float) -> float:
    """An upper bound on ||a - b||_1 from ||a - (b + z)||_1, a fixed before z was drawn.

    With probability 1 - beta the observed norm is at least its mean less λ σ sqrt(n), and its
    mean, a sum of convex folded means, is at least n g(||a - b||_1 / n): invert g.
    """
    lam = math.sqrt(2 * math.log(1 / beta))
    mean = (observed + lam * sigma * math.sqrt(cells)) / cells
    if mean <= HALF_NORMAL * sigma:
        return 0.0
    if folded_mean(mean, sigma) <= mean:  # far beyond the noise, where E|x + z| rounds to x
        return cells * mean
    from scipy.optimize import brentq

    per_cell = cast(float, brentq(lambda x: folded_mean(x, sigma) - mean, 0.0, mean))
    return cells * per_cell


@dataclass(frozen=True)
class EstimateNoise:
    """An estimate ȳ = M + S / V: V is `precision`, S is within N(0, V̄ I) as docs/bounds.md says.

    `sigma` is sqrt(V̄) / V, the scale to compute with; `sigma_mean` is 1 / sqrt(V), the paper's σ̄.
    `part` is the part of beta that a statement about ȳ may use, and `folds` the number of tails
    that one tail of the normal law must pay for (2 by the reflection principle).
    """

    sigma: float
    sigma_mean: float
    part: float = 1.0
    folds: int = 1

    def norm(self, cells: int, beta: float) -> float:
        """||ȳ - M||_1 passes this with probability at most beta."""
        return self.sigma * unit_norm(cells, self.part * beta) if self.sigma else 0.0

    def tail(self, beta: float) -> float:
        """One cell of ȳ - M passes this upwards with probability at most beta."""
        return self.sigma * -NormalDist().inv_cdf(self.part * beta / self.folds)


STEP, SPREAD = 1.1, 20
"""Precisions are rounded up to powers of STEP times that of the first measurement. The j-th power
has the part 1 / (1 + (j / SPREAD)²) of beta, divided by the sum over all whole j."""


def _rounded_up(precision: float, first_sigma: float) -> EstimateNoise:
    """What is known of the noise of an average whose precision was not fixed beforehand."""
    j = math.ceil(math.log(precision * first_sigma**2) / math.log(STEP) - 1e-9)
    ceiling = STEP**j / first_sigma**2
    whole = math.pi * SPREAD / math.tanh(math.pi * SPREAD)
    part = 1 / (1 + (j / SPREAD) ** 2) / whole
    sigma = math.sqrt(max(ceiling, precision)) / precision
    return EstimateNoise(sigma, precision**-0.5, part, folds=2)


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
        total, precision = 0.0, 0.0
        for m in self._measured:
            inside = m.query.columns
            if set(columns) <= set(inside):
                drop = tuple(i for i, c in enumerate(inside) if c not in columns)
                if m.sigma == 0:
                    return m.values.sum(axis=drop, dtype=float), EstimateNoise(0.0, 0.0)
                summed = math.prod(m.values.shape[i] for i in drop)
                weight = 1 / (summed * m.sigma**2)
                total = total + weight * m.values.sum(axis=drop)
                precision += weight
        if not precision:
            return None
        scale = precision**-0.5
        noise = (
            _rounded_up(precision, self._first) if self.adaptive else EstimateNoise(scale, scale)
        )
        return np.asarray(total / precision), noise

    @cached_property
    def _estimates(self) -> dict[Columns, tuple[np.ndarray, EstimateNoise] | None]:
        return {}

    @cached_property
    def _measured(self) -> list[Measurement]:
        return [m for m in self.measurements if isinstance(m.query, Marginal)]

    @cached_property
    def _first(self) -> float:
        """The scale of the first noise, which no earlier noise can have influenced."""
        return next(m.sigma for m in self._measured if m.sigma > 0)

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
        value, noise = found
        return max(0.0, float(value) + noise.tail(beta))

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
            estimate, noise = found
            cells = float(np.square(query.spread(np.ones(()), self.domain)).sum())
            half = noise.tail((1 - self._hard) * 0.4 * beta) * math.sqrt(cells)
            centre, kind = float(query.answer(estimate)), "supported"
        else:
            bound = self._bound(query.columns, believed, 0.8 * beta)
            # A sum over cells moves by the positive part of the difference, which is half of its
            # L1 norm and half of what the totals differ by.
            gap, rows = 0.0, self.estimate(())
            if rows is not None:
                gap = rows[1].tail(beta / 20) + abs(float(rows[0]) - float(believed.sum()))
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
