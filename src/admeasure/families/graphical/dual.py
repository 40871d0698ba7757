"""The convex dual of the maximum entropy fit, over one table phi_c for each maximal clique.

With the measurements' information as effects (r_A, tau_A) (`residuals.py`),

    minimise  N log Z(phi) - sum theta_A . r_A + (kappa / 2 sigma_0) sum tau_A^2 |theta_A|^2

where theta_A is the effect of A in the sum of all phi_c. Tables on overlapping cliques can express
the same theta in many ways; the function does not change along those, so nothing is lost and the
curvature that remains is the model's own. (One table for each measurement instead would leave
directions in which only the slack bends the function; they take thousands of steps.)
Cells that cannot occur are measured as 0 and have potential -inf inside the contraction.
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
from admeasure.families.graphical.residuals import Effects
from admeasure.families.graphical.statistics import Statistic, Zeros, impossible
from admeasure.families.graphical.tables import aligned, project
from admeasure.families.graphical.tree import Clique, Tree, cells_of, maximal

_SOFTEST = 1e-12
"""Cells of a clique whose attributes have one level each bend nothing; never divide by zero."""


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
        self._levels = levels
        self._statistics = tuple(statistics)
        self._total = total
        self._cliques = maximal(s.clique for s in statistics)
        self._shapes = [tuple(levels[a] for a in clique) for clique in self._cliques]
        sizes = [math.prod(shape) for shape in self._shapes]
        cuts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).tolist()
        self._slices = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        self._cells = cuts[-1]

        self._effects = Effects(levels, self._cliques)
        self._gather_information(ratio)
        self._prepare_contraction(tree, zeros)

    def _gather_information(self, ratio: float) -> None:
        effects, levels = self._effects, self._levels
        precision = dict.fromkeys(effects.sets, 0.0)
        for statistic in self._statistics:
            clique = statistic.clique
            share = 1.0 / (cells_of(levels, clique) * statistic.sigma**2)
            for size in range(1, len(clique) + 1):
                for subset in itertools.combinations(clique, size):
                    precision[subset] += share
        variance = [
            1.0 / (precision[subset] * size)
            for subset, size in zip(effects.sets, effects.sizes, strict=True)
        ]
        weighted = [s.mean.reshape(-1) / s.sigma**2 for s in self._statistics]
        seen = effects.lift_from([s.clique for s in self._statistics]).T @ np.concatenate(
            [np.zeros(0), *weighted]
        )
        tau_squared = effects.per_set(variance)
        self._r = tau_squared * effects.centred(seen)
        self._slack = ratio * tau_squared
        of_set = dict(zip(effects.sets, variance, strict=True))
        bend, noise = [], []
        for clique in self._cliques:
            own = cells_of(levels, clique)
            stiffness = 0.0
            for size in range(1, len(clique) + 1):
                for subset in itertools.combinations(clique, size):
                    share = cells_of(levels, subset) / own
                    diagonal = math.prod(1 - 1 / levels[a] for a in subset)
                    stiffness += ratio * of_set[subset] * share**2 * diagonal
            bend.append(max(stiffness, _SOFTEST))
            noise.append(math.sqrt(of_set[clique]))
        sizes = [part.stop - part.start for part in self._slices]
        self._stiffness = np.repeat(bend, sizes)
        self._tau = np.repeat(noise, sizes)
        self._even = np.repeat([self._total / size for size in sizes], sizes)

    def _prepare_contraction(self, tree: Tree, zeros: Sequence[Zeros]) -> None:
        tops = maximal([*self._cliques, *(z.clique for z in zeros)])
        self._contraction = Contraction(tree, tops)
        self._plain = tops == self._cliques
        self._homes = [
            next(t for t, top in enumerate(tops) if set(top) >= set(clique))
            for clique in self._cliques
        ]
        self._forbidden = None
        if zeros:
            masks = [impossible(self._levels, top, zeros).reshape(-1) for top in tops]
            self._forbidden = np.concatenate(masks)

    def initial(self, start: GraphicalModel | None) -> np.ndarray:
        """Where to start: the potentials of `start`, and for cliques that it lacks the step that
        would be exact if nothing else moved, one clique for each attribute."""
        phi = np.zeros(self._cells)
        views = self._views(phi)
        known = {} if start is None else start.potentials
        for clique, table in known.items():
            for view, home in zip(views, self._cliques, strict=True):
                if set(clique) <= set(home):
                    view += aligned(table, clique, home)
                    break
        if start is None:
            start = GraphicalModel.uniform(self._levels, self._total)
        moved: set[int] = set()
        for statistic in sorted(self._statistics, key=lambda s: (s.mean.size, s.clique)):
            clique = statistic.clique
            if moved & set(clique) or any(set(clique) <= set(other) for other in known):
                continue
            moved |= set(clique)
            t = next(t for t, home in enumerate(self._cliques) if set(clique) <= set(home))
            slack = float(self._stiffness[self._slices[t].start])
            expected = start.marginal(clique) * (self._total / start.total)
            step = _lone_step(expected, statistic.mean, slack)
            views[t] += aligned(np.where(statistic.possible, step, 0.0), clique, self._cliques[t])
        return phi

    def evaluate(self, phi: np.ndarray) -> Point:
        log_z, mu = self._marginals(phi)
        theta = self._effects.of(phi)
        pull = self._slack * theta
        value = self._total * log_z - float(theta @ self._r) + 0.5 * float(theta @ pull)
        # The effect of no attribute is the total, which is given.
        value -= float(phi @ self._even)
        mu *= self._total
        pull -= self._r
        gradient = self._effects.spread(pull)
        gradient += mu
        gradient -= self._even
        mu += self._stiffness
        return Point(phi, value, gradient, mu)

    def distance(self, point: Point) -> float:
        """Root mean square of the gradient in units of the maximal cliques' noise."""
        scaled = point.gradient / self._tau
        return math.sqrt(float(scaled @ scaled) / max(1, scaled.size))

    def objective(self, point: Point) -> float:
        """Half the weighted sum of squared residuals N mu - y over what was measured."""
        _, mu = self._marginals(point.x)
        tables = dict(zip(self._cliques, self._views(mu), strict=True))
        value = 0.0
        for statistic in self._statistics:
            home = next(c for c in self._cliques if set(statistic.clique) <= set(c))
            expected = self._total * project(tables[home], home, statistic.clique)
            value += 0.5 * float((((expected - statistic.mean) / statistic.sigma) ** 2).sum())
        return value

    def potentials(self, phi: np.ndarray) -> dict[Clique, np.ndarray]:
        views = self._views(phi)
        return {clique: view.copy() for clique, view in zip(self._cliques, views, strict=True)}

    def _marginals(self, phi: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the flat marginals (probabilities) of the maximal measured cliques."""
        if self._plain and self._forbidden is None:
            log_z, mu = self._contraction.run(phi)
            return log_z, mu
        flat = np.zeros(self._contraction.cells)
        tops = self._contraction.views(flat)
        for t, clique, view in zip(self._homes, self._cliques, self._views(phi), strict=True):
            tops[t] += aligned(view, clique, self._contraction.cliques[t])
        if self._forbidden is not None:
            flat[self._forbidden] = -np.inf
        log_z, top_mu = self._contraction.run(flat)
        if log_z == -math.inf and np.isfinite(phi).all():
            raise ContradictionError
        mu = np.empty(self._cells)
        tables = self._contraction.views(top_mu)
        for t, clique, view in zip(self._homes, self._cliques, self._views(mu), strict=True):
            view[...] = project(tables[t], self._contraction.cliques[t], clique)
        return log_z, mu

    def _views(self, flat: np.ndarray) -> list[np.ndarray]:
        return [
            flat[part].reshape(shape)
            for part, shape in zip(self._slices, self._shapes, strict=True)
        ]


def _lone_step(expected: np.ndarray, y: np.ndarray, slack: float) -> np.ndarray:
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
