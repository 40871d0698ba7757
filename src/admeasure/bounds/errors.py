"""Upper bounds on the L1 errors of marginals, from all that speaks of them.

For every set of columns inside one marginal the smallest of what these say: the average of what was
measured of it, a round that could have chosen it, the certificate of a marginal that contains it,
smaller sets of which it is nearly made, and the number of rows. `Chances` says with which part of
beta each may err; docs/explanations/bounds.md how beta is divided. Letters are those of `evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from admeasure.bounds.noise import error_behind, paper_noise_norm, sum_tail
from admeasure.domain import Columns, canonical, subsets
from admeasure.privacy.scores.score import GRID
from admeasure.selectors.evidence import Selection

if TYPE_CHECKING:
    from admeasure.bounds.evidence import Evidence


@dataclass(frozen=True)
class Chances:
    """The probabilities with which statements of each kind may fail."""

    rows: float
    selections: float
    direct: Callable[[Columns], float]
    certified: Callable[[Columns], float]


def of_one(evidence: Evidence, columns: Columns, beta: float) -> Chances:
    """All that may be used for one marginal holds together with probability 1 - beta, so that it
    does not matter which of it is used, nor that this depends on the noise."""
    certified = 0.5 if evidence.errors is not None else 0.0
    left = (1 - certified) * beta
    hard = 0.5 if evidence.selections else 0.0
    others = 0.25 / max(1, 2 ** len(columns) - 2)
    return Chances(
        rows=0.05 * left,
        selections=hard * left,
        direct=lambda s: ((0.7 - hard) if s == columns else others) * left,
        # A tenth of the certificate's part is for the least that the error may be.
        certified=lambda s: (0.7 if s == columns else 0.2 * 4 * others) * certified * beta,
    )


def error_bounds(
    evidence: Evidence, columns: Columns, believed: np.ndarray, chances: Chances
) -> dict[Columns, float]:
    """E_s for the sets s inside `columns` but the empty one, of which `believed` is the table that
    the model has. Where models do not add up, a certificate speaks of its own marginal alone."""
    most, total = evidence.most_rows(chances.rows), float(np.abs(believed).sum())
    gap = max(0.0, most - total)
    counts = not (believed < 0).any()  # answers without bias may be negative
    tables: dict[Columns, np.ndarray] = {}
    errors: dict[Columns, float] = {}
    for s in subsets(columns):
        tables[s] = believed.sum(axis=tuple(i for i, c in enumerate(columns) if c not in s))
        known = [
            most + total,
            _direct(evidence, s, tables[s], chances.direct(s)),
            _passed_over(evidence, s, chances.selections),
            *(gap + e for e in (_nearly_determined(s, tables, errors) if counts else ())),
        ]
        if s == columns or evidence.model.adds_up:
            known.append(_certified(evidence, s, chances.certified(s)))
        errors[s] = min(known)
    return errors


def _certified(evidence: Evidence, columns: Columns, beta: float) -> float:
    """From the noisy errors of marginals that contain it, all of which may fail with beta in all.

    What was released is a whole number of rows below the error of answers on the grid.
    """
    count, least = evidence.certified_errors(columns)
    if not count:
        return math.inf
    assert evidence.errors is not None
    return max(0.0, least + sum_tail(1, evidence.errors.sigma, beta / count))


def _direct(evidence: Evidence, columns: Columns, believed: np.ndarray, beta: float) -> float:
    """From what was measured of it: Corollary 1, for counts that are not negative."""
    found = evidence.estimate(columns)
    if found is None:
        return math.inf
    estimate, noise = found
    positive = np.maximum(estimate, 0.0)
    spent = float((positive - estimate).sum())
    left = max(0.0, noise.norm(estimate.size, beta) - spent)
    return float(np.abs(believed - positive).sum()) + left


def _passed_over(evidence: Evidence, r: Columns, beta: float) -> float:
    """From a round that could have chosen this marginal: Theorem 4 and Corollary 2.

    The round's part of beta is split evenly, as the paper's λ_1 = 2.7, λ_2 = 3.7 do.
    """
    s = evidence.candidates.get(r)
    if s is None:
        return math.inf
    half = s.share * beta / 2
    n_t, n_r = evidence.domain.cells(s.chosen), evidence.domain.cells(r)
    # Scores were computed from answers that were rounded to the grid.
    grid = (n_r + s.weights[s.chosen] / s.weights[r] * n_t) / (2 * GRID)
    chosen = error_behind(s.estimated, s.sigma, n_t, half)
    return _theorem_4(evidence, r, s, chosen, half) + grid


def _theorem_4(evidence: Evidence, r: Columns, s: Selection, chosen: float, beta: float) -> float:
    n_t, n_r = evidence.domain.cells(s.chosen), evidence.domain.cells(r)
    w_t, w_r = s.weights[s.chosen], s.weights[r]
    relation = s.penalty * (w_r * n_r - w_t * n_t)
    passed_over = 2 * s.sensitivity / s.epsilon * math.log(s.candidates / beta)
    return s.distances[r] + max(0.0, w_t * chosen + relation + passed_over) / w_r


def _nearly_determined(
    s: Columns, tables: dict[Columns, np.ndarray], errors: dict[Columns, float]
) -> Iterator[float]:
    """Bounds from smaller marginals, for a column c of s that others almost decide.

    Let x = s - c, y = z + c with z inside x, and δ the rows of the model's y outside the most
    frequent value of c for each value of z. Then E_s <= E_x + E_y + 4 δ + (N - model's total)^+.
    """
    for c in s if len(s) > 1 else ():
        x = tuple(k for k in s if k != c)
        for z in [(), *subsets(x)][:-1]:
            y = canonical((*z, c))
            table = tables[y]
            outside = float(table.sum() - table.max(axis=y.index(c)).sum())
            yield errors[x] + errors[y] + 4 * outside


def paper_bound(evidence: Evidence, columns: Columns, believed: np.ndarray, beta: float) -> float:
    """Corollary 1 or 2 as printed."""
    found = evidence.estimate(columns)
    if found is not None:
        estimate, noise = found
        far = float(np.abs(believed - estimate).sum())
        return far + paper_noise_norm(noise.sigma_mean, estimate.size, beta)
    s = evidence.candidates.get(columns)
    if s is None:
        return math.inf
    lam = math.sqrt(2 * math.log(2 / beta))
    chosen = s.estimated + lam * s.sigma * math.sqrt(evidence.domain.cells(s.chosen))
    return _theorem_4(evidence, columns, s, chosen, beta / 2)
