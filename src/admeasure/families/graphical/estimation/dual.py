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

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from admeasure.domain import closure, subsets
from admeasure.families.graphical.estimation.facets import Facets
from admeasure.families.graphical.estimation.lbfgs import Point
from admeasure.families.graphical.estimation.regions import Local, Regions, lone_step
from admeasure.families.graphical.estimation.residuals import Effects, centred_all, said
from admeasure.families.graphical.estimation.statistics import CliqueStatistic, impossible
from admeasure.families.graphical.inference.calibration import ContradictionError
from admeasure.families.graphical.inference.contraction import Contraction
from admeasure.families.graphical.inference.tables import CliqueLayout, aligned, project
from admeasure.families.graphical.model import MarkovRandomField
from admeasure.families.graphical.structure.cliques import Holders, maximal
from admeasure.families.graphical.structure.junction_tree import (
    Clique,
    JunctionTree,
    cells_of,
)
from admeasure.families.graphical.structure.zeros import Zeros

_SOFTEST = 1e-12
"""Cells of a clique whose attributes have one level each bend nothing; never divide by zero."""


class Dual:
    """The dual function for fixed statistics and a fixed tree. `ratio` is kappa / sigma_0."""

    def __init__(
        self,
        tree: JunctionTree,
        statistics: Sequence[CliqueStatistic],
        zeros: Sequence[Zeros],
        total: float,
        ratio: float,
    ) -> None:
        self._levels = tree.levels
        self._statistics = tuple(statistics)
        self._total = total
        self._layout = CliqueLayout(tree.levels, maximal(s.clique for s in statistics))
        self._cliques = self._layout.cliques
        self._holders = Holders(self._cliques)
        self._facets = Facets(self._layout)
        self._gather_information(ratio)
        self._prepare_contraction(tree, zeros)

    def _gather_information(self, ratio: float) -> None:
        levels, layout = self._levels, self._layout
        precision = dict.fromkeys(closure(self._cliques), 0.0)
        for statistic in self._statistics:
            share = 1.0 / (statistic.mean.size * statistic.sigma**2)
            for subset in subsets(statistic.clique):
                precision[subset] += share
        cells = {subset: cells_of(levels, subset) for subset in precision}
        variance = {subset: 1.0 / (precision[subset] * cells[subset]) for subset in precision}
        slack = {subset: ratio * variance[subset] for subset in precision}
        self._effects = Effects(layout, self._facets, slack)
        seen = said((s.clique, s.mean / s.sigma**2) for s in self._statistics)
        # The effect of no attribute is the total, which is given.
        self._wanted = layout.each([self._total / size for size in layout.sizes])
        self._wanted += self._effects.spread(
            {s: variance[s] * effect for s, effect in centred_all(seen).items()}
        )
        self._tau = layout.each([math.sqrt(variance[clique]) for clique in self._cliques])
        self._stiffness = {}
        for clique, size in zip(self._cliques, layout.sizes, strict=True):
            bend = sum(
                slack[s] * (cells[s] / size) ** 2 * math.prod(1 - 1 / levels[a] for a in s)
                for s in subsets(clique)
            )
            self._stiffness[clique] = max(bend, _SOFTEST)
        self._regions = Regions(layout, self._facets, self._stiffness)

    def _prepare_contraction(self, tree: JunctionTree, zeros: Sequence[Zeros]) -> None:
        tops = maximal([*self._cliques, *(z.clique for z in zeros)])
        self._contraction = Contraction(tree, tops)
        self._plain = tops == self._cliques
        holders = Holders(tops)
        self._homes = [_first(holders, clique) for clique in self._cliques]
        self._forbidden = None
        if zeros:
            masks = [impossible(self._levels, top, zeros).reshape(-1) for top in tops]
            self._forbidden = np.concatenate(masks)

    def initial(self, start: MarkovRandomField | None) -> np.ndarray:
        """Where to start: the potentials of `start`, and for cliques that it lacks the step that
        would be exact if nothing else moved, one clique for each attribute."""
        phi = np.zeros(self._layout.cells)
        views = self._layout.views(phi)
        known = {} if start is None else start.potentials
        for clique, table in known.items():
            t = self._holders.first(clique)
            if t is not None:
                views[t] += aligned(table, clique, self._cliques[t])
        started = Holders(known)
        if start is None:
            start = MarkovRandomField.uniform(self._levels, self._total)
        moved: set[int] = set()
        for statistic in sorted(self._statistics, key=lambda s: (s.mean.size, s.clique)):
            clique = statistic.clique
            if moved & set(clique) or started.first(clique) is not None:
                continue
            moved |= set(clique)
            t = _first(self._holders, clique)
            expected = start.marginal(clique) * (self._total / start.total)
            slack = np.full_like(expected, self._stiffness[self._cliques[t]])
            step = lone_step(expected, statistic.mean - expected, slack)
            views[t] += aligned(np.where(statistic.possible, step, 0.0), clique, self._cliques[t])
        return phi

    def evaluate(self, phi: np.ndarray) -> Point:
        log_z, counts = self._marginals(phi)
        counts *= self._total
        gradient = self._effects.bend(phi)
        value = self._total * log_z - float(phi @ self._wanted) + 0.5 * float(phi @ gradient)
        gradient -= self._wanted
        gradient += counts
        return Point(phi, value, gradient, Local(self._regions, counts))

    def distance(self, point: Point) -> float:
        """Root mean square of the gradient in units of the maximal cliques' noise."""
        scaled = point.gradient / self._tau
        return math.sqrt(float(scaled @ scaled) / max(1, scaled.size))

    def distance_measured(self, point: Point) -> float:
        """The same over the cells of all that was measured: each marginal of the gradient in units
        of its own noise, which by the identity of `residuals.py` counts every effect by its tau.

        What a marginal inside a larger measured one says of its effect may be far finer than what
        the larger one says. Spread over the cells of the latter it would look like little.
        """
        views, squared, cells = self._layout.views(point.gradient), 0.0, 0
        for statistic, home in zip(self._statistics, self._homes_of_statistics, strict=True):
            table = project(views[home], self._cliques[home], statistic.clique)
            squared += float(np.vdot(table, table)) / statistic.sigma**2
            cells += table.size
        return math.sqrt(squared / max(1, cells))

    @cached_property
    def _homes_of_statistics(self) -> list[int]:
        return [_first(self._holders, statistic.clique) for statistic in self._statistics]

    def potentials(self, phi: np.ndarray) -> dict[Clique, np.ndarray]:
        views = self._layout.views(phi)
        return {clique: view.copy() for clique, view in zip(self._cliques, views, strict=True)}

    def _marginals(self, phi: np.ndarray) -> tuple[float, np.ndarray]:
        """log Z and the flat marginals (probabilities) of the maximal measured cliques."""
        if self._plain and self._forbidden is None:
            return self._contraction.run(phi)
        flat = np.zeros(self._contraction.layout.cells)
        tops = self._contraction.layout.views(flat)
        own = self._layout.views(phi)
        for t, clique, view in zip(self._homes, self._cliques, own, strict=True):
            tops[t] += aligned(view, clique, self._contraction.cliques[t])
        if self._forbidden is not None:
            flat[self._forbidden] = -np.inf
        log_z, top_mu = self._contraction.run(flat)
        if log_z == -math.inf and np.isfinite(phi).all():
            raise ContradictionError
        mu = np.empty(self._layout.cells)
        tables = self._contraction.layout.views(top_mu)
        own = self._layout.views(mu)
        for t, clique, view in zip(self._homes, self._cliques, own, strict=True):
            view[...] = project(tables[t], self._contraction.cliques[t], clique)
        return log_z, mu


def _first(holders: Holders, clique: Clique) -> int:
    """The place of the first clique that holds this one, as some clique does."""
    place = holders.first(clique)
    assert place is not None
    return place
