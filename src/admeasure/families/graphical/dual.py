"""The convex dual of the maximum entropy fit, over one table theta_i for each distinct clique:

    minimise  N log Z(theta) - sum theta_i . y_i + (kappa / 2 sigma_0) sum sigma_i^2 |theta_i|^2.

Its gradient is N mu_i - y_i + (kappa / sigma_0) sigma_i^2 theta_i. A clique inside another keeps
its own table and its own term, so the objective is exact; for the contraction its table is added to
the smallest clique that contains it, and its marginal is a projection of that clique's.
Cells that cannot occur have y = theta = 0 and take no part.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from admeasure.families.graphical.beliefs import ContradictionError
from admeasure.families.graphical.contraction import Contraction
from admeasure.families.graphical.lbfgs import Point
from admeasure.families.graphical.model import GraphicalModel
from admeasure.families.graphical.statistics import Statistic, Zeros, impossible
from admeasure.families.graphical.tables import aligned, project
from admeasure.families.graphical.tree import Clique, Tree, cells_of, maximal


class Dual:
    """The dual function for fixed statistics and a fixed tree. `ratio` is kappa / sigma_0."""

    def __init__(
        self,
        tree: Tree,
        statistics: Sequence[Statistic],
        zeros: Sequence[Zeros],
        total: float,
        ratio: float,
    ) -> None:
        levels = tree.levels
        self._statistics = tuple(statistics)
        self._total = total
        measured = [s.clique for s in statistics]
        tops = maximal([*measured, *(z.clique for z in zeros)])
        self._cliques = [*measured, *(top for top in tops if top not in set(measured))]
        sizes = [cells_of(levels, clique) for clique in self._cliques]
        cuts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).tolist()
        self._slices = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        self._shapes = [tuple(levels[a] for a in clique) for clique in self._cliques]
        self._cells = cuts[len(measured)]
        self._all_cells = cuts[-1]

        by_cells = sorted(range(len(self._cliques)), key=lambda t: (sizes[t], self._cliques[t]))
        sets = [frozenset(clique) for clique in self._cliques]
        self._inner: list[tuple[int, int]] = []
        """(clique, the smallest clique that contains it), smallest first."""
        for t in by_cells:
            parent = next((k for k in by_cells if sets[t] < sets[k]), None)
            if parent is not None:
                self._inner.append((t, parent))
        self._contraction = Contraction(tree, tops)
        self._tops = [self._cliques.index(top) for top in tops]
        self._forbidden = None
        if zeros:
            self._forbidden = np.concatenate(
                [np.zeros(0, bool), *(impossible(levels, top, zeros).reshape(-1) for top in tops)]
            )
        flat = [np.zeros(0)]
        self._y = np.concatenate([*flat, *(s.mean.reshape(-1) for s in statistics)])
        self._sigma = np.repeat([s.sigma for s in statistics], sizes[: len(measured)])
        self._slack = ratio * self._sigma * self._sigma
        possible = [np.zeros(0, bool), *(s.possible.reshape(-1) for s in statistics)]
        self._possible = np.concatenate(possible)
        self._any_impossible = not self._possible.all()

    def initial(self, start: GraphicalModel | None) -> np.ndarray:
        """Where to start: the potentials of `start`, and for cliques that it lacks the step that
        would be exact if nothing else moved, one clique for each attribute."""
        theta = np.zeros(self._cells)
        moved: set[int] = set()
        known = {} if start is None else dict(start.potentials)
        fresh = []
        for t, statistic in enumerate(self._statistics):
            table = known.get(statistic.clique)
            if table is not None:
                theta[self._slices[t]] = np.where(statistic.possible, table, 0.0).reshape(-1)
            else:
                fresh.append(t)
        if start is None and fresh:
            start = GraphicalModel.uniform(self._contraction.levels, self._total)
        for t in sorted(fresh, key=lambda t: (self._y[self._slices[t]].size, self._cliques[t])):
            clique = self._cliques[t]
            if start is None or moved & set(clique):
                continue
            moved |= set(clique)
            part = self._slices[t]
            expected = start.marginal(clique).reshape(-1) * (self._total / start.total)
            theta[part] = np.where(
                self._possible[part], _lone_step(expected, self._y[part], self._slack[part]), 0.0
            )
        return theta

    def evaluate(self, theta: np.ndarray) -> Point:
        log_z, top_mu = self._contraction.run(self._spread(theta))
        if log_z == -math.inf and np.isfinite(theta).all():
            raise ContradictionError
        mu = self._gather(top_mu)
        mu *= self._total
        pull = self._slack * theta
        value = self._total * log_z - float(theta @ self._y) + 0.5 * float(theta @ pull)
        gradient = mu - self._y
        gradient += pull
        if self._any_impossible:
            gradient[~self._possible] = 0.0
        mu += self._slack
        return Point(theta, value, gradient, mu)

    def distance(self, point: Point) -> float:
        """Root mean square of the gradient in units of sigma."""
        scaled = point.gradient / self._sigma
        return math.sqrt(float(scaled @ scaled) / max(1, scaled.size))

    def objective(self, point: Point) -> float:
        """Half the weighted sum of squared residuals N mu - y."""
        residual = (point.gradient - self._slack * point.x) / self._sigma
        return 0.5 * float(residual @ residual)

    def potentials(self, theta: np.ndarray) -> dict[Clique, np.ndarray]:
        return {
            statistic.clique: theta[self._slices[t]].reshape(self._shapes[t]).copy()
            for t, statistic in enumerate(self._statistics)
        }

    def _spread(self, theta: np.ndarray) -> np.ndarray:
        """The contraction's log potentials: every table added into the maximal clique above it."""
        tables = np.zeros(self._all_cells)
        tables[: self._cells] = theta
        views = [tables[part].reshape(shape) for part, shape in self._views()]
        for t, parent in self._inner:
            views[parent] += aligned(views[t], self._cliques[t], self._cliques[parent])
        flat = np.concatenate([tables[self._slices[t]] for t in self._tops] or [tables])
        if self._forbidden is not None:
            flat[self._forbidden] = -np.inf
        return flat

    def _gather(self, top_mu: np.ndarray) -> np.ndarray:
        """The marginals of the measured cliques from those of the maximal ones."""
        tables = np.empty(self._all_cells)
        for t, table in zip(self._tops, self._contraction.views(top_mu), strict=True):
            tables[self._slices[t]] = table.reshape(-1)
        views = [tables[part].reshape(shape) for part, shape in self._views()]
        for t, parent in reversed(self._inner):
            views[t][...] = project(views[parent], self._cliques[parent], self._cliques[t])
        return tables[: self._cells]

    def _views(self):
        return zip(self._slices, self._shapes, strict=True)


def _lone_step(expected: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """The root of expected exp(t) + slack t = y in every cell, by Newton from the right.

    The left side is convex and increasing, so from a point above the root the steps descend to it.
    """
    expected = np.maximum(expected, 1e-300)
    t = np.log(np.maximum(y, expected) / expected)
    t = np.minimum(t, np.where(y > 0, np.maximum(y / slack, 0.0), t))
    for _ in range(40):
        grown = expected * np.exp(t)
        step = (grown + slack * t - y) / (grown + slack)
        t -= step
        if np.abs(step).max(initial=0.0) < 1e-6:
            break
    return t
