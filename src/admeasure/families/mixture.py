"""Best-mixture error: how well the best reweighting of a public table could answer.

Liu et al. (2021), Leveraging Public Data; the support S is the table's distinct records:

    f(S) = min over distributions μ on S of  max over queries q of  |q(D) - q(μ)|.

Nothing here is private: it is a computation on answers q(D) that are given to it. With q(D) of the
private table the result is NOT PRIVATE; `privacy.best_mixture` releases it with noise.

A query that counts no record of S is answered 0 by every μ, so f(S) is at least the largest such
answer (`floor`), and on real tables it often is that. The others make a matrix game, solved in one
of three ways. Any signed weights v on the queries with ||v||_1 <= 1 give a lower bound,

    f(S) >= <v, q(D)> - max over records x of Σ_q v_q q(x),

and any μ an upper one, so every answer comes with a gap that certifies it.

- `exact`: linear programming (HiGHS) over all queries at once, for small problems.
- `by_levels`: for a level ℓ just above the best lower bound, minimise Σ_q (|q(D) - q(μ)| - ℓ)₊² by
  L-BFGS, μ = softmax of free numbers. Either the sum reaches 0, and all errors are below ℓ, or its
  minimiser has f(S) > ℓ proved by v_q ∝ ±(|q(D) - q(μ)| - ℓ)₊: at a minimum Σ_q v_q q(x) is the
  same for all x that μ uses and nowhere larger, so the bound is Σ_q |v_q| |q(D) - q(μ)|, a mean of
  errors above ℓ. Then ℓ is raised to it.
- `first_order`: accelerated mirror descent with entropy prox (Auslender and Teboulle 2006; Tseng
  2008, Algorithm 1) on a smoothed maximum (Nesterov 2005), the smoothing made finer in stages. Much
  slower; it goes on where `by_levels` gets stuck in rounding, and is proved to end.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog, minimize

from admeasure.families.support import SupportModel
from admeasure.queries import Marginal, Query

EXACT_ENTRIES = 200_000
"""Entries of the query matrix up to which a linear program is solved."""

SPARSE_ENTRIES = 30_000_000
"""Entries up to which the query matrix is kept (twelve bytes each) because that is faster."""

STAGE = 60
"""Steps before the smoothing is made finer."""

LEVEL_STEPS = 300
"""Steps of L-BFGS before it is asked again what has been proved."""

LOSS_SCALE = 1e8

MOST_LEVELS = 200
"""Rounds of `LEVEL_STEPS` steps after which `first_order` takes over."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """The best error found, a lower bound on all errors, and the weights that reach it."""

    error: float
    lower: float
    weights: np.ndarray

    @property
    def gap(self) -> float:
        return self.error - self.lower


def best_mixture(
    support: SupportModel,
    queries: Sequence[Query],
    answers: Sequence[np.ndarray],
    *,
    gap: float,
    seconds: float = math.inf,
) -> Mixture:
    """The best mixture to within `gap` (in the unit of `answers`), or the best after `seconds`.

    `answers` are those of the true table to each query, in shares or in rows; μ has the total
    `support.total` in the same unit.
    """
    game = Game(support, queries, answers)
    if game.entries <= EXACT_ENTRIES and (found := exact(game)).gap <= gap:
        return found
    started = time.perf_counter()
    found = by_levels(game, gap, seconds)
    left = seconds - (time.perf_counter() - started)
    return found if found.gap <= gap or left <= 0 else first_order(game, gap, left, found)


class Game:
    """The queries' answers on records, without the matrix: products with it and its transpose."""

    def __init__(
        self,
        support: SupportModel,
        queries: Sequence[Query],
        answers: Sequence[np.ndarray],
        *,
        exact_entries: int = EXACT_ENTRIES,
    ) -> None:
        self.support = support
        self.queries = list(queries)
        self.total = support.total
        self.records = support.weights.size
        self._columns = [q.columns for q in queries]
        self.answers = np.concatenate([np.ravel(a) for a in answers]).astype(np.float64)
        self._ends = np.cumsum([0] + [np.size(a) for a in answers])
        self._kept: sparse.csr_matrix | None = None
        self.seen = self.product(np.ones(self.records)) > 0
        self.floor = float(self.answers[~self.seen].max(initial=0.0))
        self.entries = self.records * len(self.queries)
        plain = all(isinstance(q, Marginal) for q in queries)
        if self.entries <= (SPARSE_ENTRIES if plain else exact_entries):
            self._kept = _matrix(self)

    @property
    def matrix(self) -> sparse.csr_matrix:
        """q(x) for every seen query and record."""
        return _matrix(self) if self._kept is None else self._kept

    def product(self, weights: np.ndarray) -> np.ndarray:
        """Σ_x weights(x) q(x) for every query."""
        if self._kept is not None:
            found = np.zeros(self.answers.size)
            found[self.seen] = self._kept @ weights
            return found
        tables = self.support.records.counts(weights, self._columns)
        return np.concatenate(
            [np.ravel(q.answer(t)) for q, t in zip(self.queries, tables, strict=True)]
        )

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """Σ_q values(q) q(x) for every record; queries that no record counts in are left out."""
        if self._kept is not None:
            return self._kept.T @ values[self.seen]
        found = np.zeros(self.records)
        for i, query in enumerate(self.queries):
            shape = query.shape(self.support.domain)
            part = values[self._ends[i] : self._ends[i + 1]].reshape(shape)
            if part.any():
                spread = query.spread(part, self.support.domain)
                found += np.ravel(spread)[self.support.records.index(query.columns)]
        return found

    def bound(self, v: np.ndarray) -> float:
        """The lower bound that signed weights on the queries prove."""
        return float(v @ self.answers) - self.total * float(self.transposed(v).max())

    def errors(self, products: np.ndarray) -> np.ndarray:
        """q(D) - q(μ) of the queries that some record counts in, 0 for the others."""
        return np.where(self.seen, self.answers - self.total * products, 0.0)


def exact(game: Game) -> Mixture:
    """By linear programming: minimise t with |q(D) - q(μ)| <= t for all q.

    The lower bound is computed from the program's multipliers, so it holds whatever the solver's
    own tolerances are.
    """
    matrix = game.total * game.matrix
    a = game.answers[game.seen]
    column = sparse.csr_matrix(np.ones((matrix.shape[0], 1)))
    found = linprog(
        np.append(np.zeros(game.records), 1.0),
        A_ub=sparse.vstack([sparse.hstack([matrix, -column]), sparse.hstack([-matrix, -column])]),
        b_ub=np.concatenate([a, -a]),
        A_eq=np.append(np.ones(game.records), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * game.records + [(game.floor, None)],
        method="highs",
    )
    if found.x is None:
        return first_order(game, 1e-7 * game.total)
    weights = np.maximum(found.x[:-1], 0.0)
    weights /= weights.sum()
    error = max(game.floor, float(np.abs(game.errors(game.product(weights))).max(initial=0.0)))
    v = np.zeros(game.answers.size)
    above, below = np.split(-found.ineqlin.marginals, 2)
    v[game.seen] = below - above
    v /= max(1.0, float(np.abs(v).sum()))
    return Mixture(error, min(error, max(game.floor, game.bound(v))), weights)


def _matrix(game: Game) -> sparse.csr_matrix:
    """q(x) for every seen query and record."""
    domain, records, blocks = game.support.domain, game.support.records, []
    for query in game.queries:
        cells, shape = domain.cells(query.columns), domain.shape(query.columns)
        places = (records.index(query.columns), np.arange(game.records))
        cell_of = sparse.csr_matrix((np.ones(game.records), places), (cells, game.records))
        if not isinstance(query, Marginal):
            units = np.eye(cells).reshape(cells, *shape)
            rows = np.stack([np.ravel(query.answer(unit)) for unit in units], axis=1)
            cell_of = sparse.csr_matrix(rows) @ cell_of
        blocks.append(cell_of)
    return sparse.csr_matrix(sparse.vstack(blocks))[np.flatnonzero(game.seen)]


def by_levels(
    game: Game,
    gap: float,
    seconds: float = math.inf,
    *,
    rounds: int = MOST_LEVELS,
    steps: int = LEVEL_STEPS,
) -> Mixture:
    """Levels ℓ from below, half a gap above what is proved, in shares of the total.

    Ends with the gap closed, or with what was found after so many rounds of `steps` or `seconds`.
    """
    started = time.perf_counter()
    answers, slack = game.answers / game.total, gap / game.total
    lower = game.floor / game.total
    smallest = np.finfo(np.float64).tiny
    theta = np.log(np.maximum(game.support.weights, smallest))
    best, weights = math.inf, game.support.weights

    def loss(theta: np.ndarray, level: float) -> tuple[float, np.ndarray]:
        nonlocal best, weights
        mu = np.exp(theta - theta.max())
        mu /= mu.sum()
        e = np.where(game.seen, answers - game.product(mu), 0.0)
        error = max(game.floor / game.total, float(np.abs(e).max(initial=0.0)))
        if error < best:
            best, weights = error, mu
        if best <= lower + slack or time.perf_counter() - started >= seconds:
            raise _Reached
        over = np.sign(e) * np.maximum(np.abs(e) - level, 0.0)
        slope = -game.transposed(over)
        # Squares of small shares are tiny, and the solver's tolerances are absolute.
        return LOSS_SCALE / 2 * float(over @ over), LOSS_SCALE * mu * (slope - mu @ slope)

    with contextlib.suppress(_Reached):
        for _ in range(rounds):
            level = lower + slack / 2
            found = minimize(
                loss,
                theta,
                args=(level,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-12},
            )
            theta = found.x
            mu = np.exp(theta - theta.max())
            e = np.where(game.seen, answers - game.product(mu / mu.sum()), 0.0)
            over = np.sign(e) * np.maximum(np.abs(e) - level, 0.0)
            if over.any():
                lower = max(lower, game.bound(over / np.abs(over).sum()) / game.total)
    return Mixture(best * game.total, min(lower, best) * game.total, weights)


class _Reached(Exception):
    """The gap is closed, or time is up: leave the solver."""


def first_order(
    game: Game, gap: float, seconds: float = math.inf, known: Mixture | None = None
) -> Mixture:
    """Stages of accelerated steps until the gap is closed, each from the best weights so far with
    a finer smoothing β.

    Ends always: with smoothing β the gap after k steps is at most β log(2 |Q|) + O(1 / (β k²)).
    `known`: what another method has found, to begin with.
    """
    started = time.perf_counter()
    start = game.support.weights.copy() if known is None else known.weights
    best = _Weights.of(game, start)
    error, lower = best.error(game), game.floor if known is None else known.lower
    logs = 2 * math.log(2 * max(2, int(game.seen.sum())))

    def closed() -> bool:
        return error - lower <= gap or time.perf_counter() - started >= seconds

    stage = 0
    while not closed():
        beta = max((error - lower) / logs / 2, 1e-3 * gap / logs)
        descent = _Descent(game, beta, best)
        for _ in range(STAGE * (2 + stage) // 2):
            descent.step()
            if (found := descent.x.error(game)) < error:
                error, best = found, descent.x
            if closed():
                break
        lower = max(lower, game.bound(descent.v_mean))
        stage += 1
    return Mixture(error, min(lower, error), best.mu)


@dataclass(frozen=True, eq=False)
class _Weights:
    """μ, and Σ_x μ(x) q(x) for every query."""

    mu: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, game: Game, mu: np.ndarray) -> _Weights:
        return cls(mu, game.product(mu))

    def towards(self, other: _Weights, part: float) -> _Weights:
        return _Weights(
            (1 - part) * self.mu + part * other.mu,
            (1 - part) * self.products + part * other.products,
        )

    def error(self, game: Game) -> float:
        """The largest |q(D) - q(μ)| over all queries."""
        return max(game.floor, float(np.abs(game.errors(self.products)).max(initial=0.0)))


class _Descent:
    """Accelerated mirror descent on the maximum smoothed by β. Letters as in Tseng (2008): x, y and
    z the three sequences of weights, θ the momentum; `inverse` is L, that of the step, found by
    trial. `v_mean` are the signed weights on the queries that prove a lower bound."""

    def __init__(self, game: Game, beta: float, start: _Weights) -> None:
        self._game, self._beta = game, beta
        self._scale = max(game.total, 1.0)
        self._inverse = 0.02 * self._scale**2 / beta
        self._theta = 1.0
        self.x = self._z = _Weights.of(game, start.mu)
        self.v_mean = np.zeros(game.answers.size)

    def step(self) -> None:
        game, theta = self._game, self._theta
        y = self.x.towards(self._z, theta)
        value, v = _smooth(game.errors(y.products), self._beta)
        slope = -game.total * game.transposed(v)
        while True:
            mu = self._z.mu * np.exp(-(slope - slope.min()) / (theta * self._inverse))
            z = _Weights.of(game, mu / mu.sum())
            x = self.x.towards(z, theta)
            moved = float(np.abs(x.mu - y.mu).sum())
            model = value + float(slope @ (x.mu - y.mu)) + self._inverse / 2 * moved**2
            if _smooth(game.errors(x.products), self._beta)[0] <= model + 1e-13 * self._scale:
                break
            self._inverse *= 2
        self.x, self._z = x, z
        self.v_mean = (1 - theta) * self.v_mean + theta * v
        self._theta = (math.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
        self._inverse *= 0.9


def _smooth(errors: np.ndarray, beta: float) -> tuple[float, np.ndarray]:
    """β log Σ (exp(e/β) + exp(-e/β)) and its gradient: at least the largest |e|, and smooth."""
    top = float(np.abs(errors).max(initial=0.0))
    up, down = np.exp((errors - top) / beta), np.exp((-errors - top) / beta)
    total = float(up.sum() + down.sum())
    return top + beta * math.log(total), (up - down) / total
