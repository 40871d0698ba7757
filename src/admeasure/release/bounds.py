"""How far the release may be from the table, at a stated confidence, from released facts alone.

McKenna, Mullins, Sheldon and Miklau (AIM, 2022), section 5 and appendix B, with three
improvements that are proved in docs/bounds.md. Letters: M_r(D) the true marginal on r with n cells,
p the model of the release, y a noisy measurement, σ its scale.

- *Supported* marginals, r inside a measured one. The weighted average ȳ_r of what was measured is
  M_r(D) plus noise of known scale (Theorem 2), so ||M_r(D) - p_r|| <= ||p_r - ȳ_r|| + ||noise||
  in L1. The paper bounds the noise by sqrt(2 log 2) σ n + λ σ sqrt(2n) (Theorem 3); we take the
  smaller of that and sqrt(2/π) σ n + λ' σ sqrt(n). Then we use that true counts are not negative.
- *Unsupported* marginals, which were candidates and not chosen. What was chosen instead is known,
  and the exponential mechanism seldom passes over a much worse answered marginal (Theorem 4). The
  last round in which r was a candidate counts, never the round with the smallest bound. The error
  of the chosen one is bounded by inverting E|x + z|, which is sharper than Theorem 6.
- Everything else has only the trivial bound: no table of N rows is further than N + p's total.

A bound holds for one marginal at the stated confidence; it is not simultaneous over all of them.
Noise is treated as Gaussian: at σ >= 1 the discrete Gaussian's moments agree with it to 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from admeasure.domain import Columns, Domain
from admeasure.errors import UsageError
from admeasure.families import HALF_NORMAL, Model
from admeasure.mechanisms.base import Selection
from admeasure.privacy.measurement import Measurement
from admeasure.queries import Marginal, Query
from admeasure.workload import Question

Kind = Literal["supported", "unsupported", "trivial"]


@dataclass(frozen=True)
class Bound:
    """`error` >= ||M_r(D) - M_r(model)||_1, in rows, at the asked confidence.

    `paper` is the bound as the paper prints it, for comparison; it is never below `error`.
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


def noise_norm(sigma: float, cells: int, beta: float) -> float:
    """A number that the L1 norm of the noise passes with probability at most beta."""
    lam = math.sqrt(2 * math.log(1 / beta))
    ours = HALF_NORMAL * sigma * cells + lam * sigma * math.sqrt(cells)
    return min(ours, paper_noise_norm(sigma, cells, beta))


def paper_noise_norm(sigma: float, cells: int, beta: float) -> float:
    """Theorem 3 as printed."""
    lam = math.sqrt(math.log(1 / beta))
    return math.sqrt(2 * math.log(2)) * sigma * cells + lam * sigma * math.sqrt(2 * cells)


def folded_mean(x: float, sigma: float) -> float:
    """E|x + z| for z normal with scale sigma: the mean of a folded normal."""
    t = x / sigma
    return sigma * HALF_NORMAL * math.exp(-t * t / 2) + x * (1 - 2 * float(ndtr(-t)))


def error_behind(observed: float, sigma: float, cells: int, beta: float) -> float:
    """An upper bound on ||a - b||_1 from ||a - (b + z)||_1, a fixed before z was drawn.

    With probability 1 - beta the observed norm is at least its mean less λ σ sqrt(n), and its
    mean, a sum of convex folded means, is at least n g(||a - b||_1 / n): invert g.
    """
    lam = math.sqrt(2 * math.log(1 / beta))
    mean = (observed + lam * sigma * math.sqrt(cells)) / cells
    if mean <= HALF_NORMAL * sigma:
        return 0.0
    per_cell = cast(float, brentq(lambda x: folded_mean(x, sigma) - mean, 0.0, mean))
    return cells * per_cell


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the run released that speaks about its errors."""

    domain: Domain
    model: Model
    measurements: tuple[Measurement, ...]
    selections: tuple[Selection, ...]

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

    def estimate(self, columns: Columns) -> tuple[np.ndarray, float] | None:
        """ȳ_r and σ̄_r of Theorem 2, or None where r is not supported."""
        total, precision = 0.0, 0.0
        for m in self._measured:
            inside = m.query.columns
            if set(columns) <= set(inside):
                drop = tuple(i for i, c in enumerate(inside) if c not in columns)
                summed = math.prod(m.values.shape[i] for i in drop)
                weight = math.inf if m.sigma == 0 else 1 / (summed * m.sigma**2)
                if weight == math.inf:
                    return m.values.sum(axis=drop, dtype=float), 0.0
                total = total + weight * m.values.sum(axis=drop)
                precision += weight
        return (np.asarray(total / precision), precision**-0.5) if precision else None

    @cached_property
    def _measured(self) -> list[Measurement]:
        return [m for m in self.measurements if isinstance(m.query, Marginal)]

    @cached_property
    def _candidates(self) -> dict[Columns, Selection]:
        """For each unsupported marginal the last round in which it was a candidate."""
        return {c: s for s in self.selections for c in s.distances}

    def most_rows(self, beta: float) -> float:
        """The number of rows is at most this, with probability 1 - beta."""
        found = self.estimate(())
        if found is None:
            return math.inf
        value, sigma = found
        return max(0.0, float(value) + float(norm.isf(beta)) * sigma)

    def _bound(self, columns: Columns, believed: np.ndarray, beta: float) -> Bound:
        trivial = self.most_rows(beta) + float(believed.sum())
        found = self.estimate(columns)
        if found is not None:
            estimate, sigma = found
            paper = float(np.abs(believed - estimate).sum()) + paper_noise_norm(
                sigma, estimate.size, beta
            )
            positive = np.maximum(estimate, 0.0)
            spent = float((positive - estimate).sum())
            noise = max(0.0, noise_norm(sigma, estimate.size, beta) - spent)
            ours = float(np.abs(believed - positive).sum()) + noise
            return Bound(min(ours, paper, trivial), "supported", paper)
        selection = self._candidates.get(columns)
        if selection is None:
            return Bound(trivial, "trivial", math.inf)
        ours, paper = self._unsupported(columns, selection, beta)
        kind: Kind = "unsupported" if min(ours, paper) < trivial else "trivial"
        return Bound(min(ours, paper, trivial), kind, paper)

    def _unsupported(self, r: Columns, s: Selection, beta: float) -> tuple[float, float]:
        """Theorem 4 and Corollary 2, ours and as printed.

        The paper's λ_1 = 2.7, λ_2 = 3.7 at 95% split beta evenly; so do both here.
        """
        n_t, n_r = self.domain.cells(s.chosen), self.domain.cells(r)
        w_t, w_r = s.weights[s.chosen], s.weights[r]
        passed_over = 2 * s.sensitivity / s.epsilon * (math.log(s.candidates) + math.log(2 / beta))
        relation = HALF_NORMAL * s.sigma * (w_r * n_r - w_t * n_t)
        lam = math.sqrt(2 * math.log(2 / beta))
        chosen_paper = s.estimated + lam * s.sigma * math.sqrt(n_t)
        chosen_ours = min(chosen_paper, error_behind(s.estimated, s.sigma, n_t, beta / 2))
        ours, paper = (
            s.distances[r] + max(0.0, w_t * chosen + relation + passed_over) / w_r
            for chosen in (chosen_ours, chosen_paper)
        )
        return ours, paper

    def _answer(self, question: Question, believed: np.ndarray, beta: float) -> Answer:
        query = question.query
        value = np.asarray(query.answer(believed), dtype=float)
        if value.shape:
            raise UsageError(f"{question.name}: a question has one number as its answer.")
        most = self.most_rows(beta / 10)
        found = self.estimate(query.columns)
        if found is not None:
            estimate, sigma = found
            cells = float(np.square(query.spread(np.ones(()), self.domain)).sum())
            half = float(norm.isf(0.45 * beta)) * sigma * math.sqrt(cells)
            centre, kind = float(query.answer(estimate)), "supported"
        else:
            bound = self._bound(query.columns, believed, 0.8 * beta)
            # A sum over cells moves by the positive part of the difference, which is half of its
            # L1 norm and half of what the totals differ by.
            rows = self.estimate(())
            gap = 0.0 if rows is None else float(norm.isf(beta / 20)) * rows[1]
            if rows is not None:
                gap += abs(float(rows[0]) - float(believed.sum()))
            half, centre, kind = (bound.error + gap) / 2, float(value), bound.kind
        low = min(max(0.0, centre - half), float(value))
        high = max(min(most, centre + half), float(value))
        return Answer(question.name, query, float(value), low, high, 1 - beta, kind)


def _beta(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise UsageError(f"The confidence must lie between 0 and 1; it is {confidence}.")
    return 1 - confidence
