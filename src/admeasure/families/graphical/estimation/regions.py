"""How far potentials must move for the expected counts to change by so much, nearly.

Where the cliques of a log-linear model form a junction tree, its potentials are sums of logarithms
of its marginals, over cliques and, with a minus, over separators (Lauritzen 1996, Graphical Models,
section 4.4). So a wanted change of the counts is the sum of what it takes in each table alone. For
cliques that overlap in loops the same sum is taken over all regions, each with its counting number

    c_R = 1 - sum over larger regions S of c_S

(Yedidia, Freeman and Weiss 2005, section V), so that every set of attributes counts once. That is
exact for junction trees, and for any cliques near the uniform distribution. Where dependence around
a loop is strong the sum may point uphill; then less is taken of the smaller regions.

In one table of counts m with slack k, the step s that changes them by q solves
m exp(s) + k s = m + q in each cell; it is q / (m + k) where q is small, and far less where it is
large. The slack of a smaller region is that of the cells which lie over its own in the clique
where that is most, so that it is no looser than they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from admeasure.domain import closure, subsets
from admeasure.families.graphical.estimation.facets import Facets, meeting
from admeasure.families.graphical.inference.tables import CliqueLayout
from admeasure.families.graphical.structure.triangulation import Clique

_LARGEST = 700.0
"""exp of more overflows."""


@dataclass(frozen=True)
class StepRules:
    """How far a step is trusted.

    `downhill`: how much of the cliques' own slope the smaller regions must leave. Up to `large` a
    step is as good as that of a small change; beyond, it takes `newton` of Newton's. `careful`: how
    much of the smaller regions is taken after the first step; with all of it, tables whose cells
    are mostly empty take longer (measured).
    """

    downhill: float = 0.25
    large: float = 0.3
    newton: int = 2
    careful: float = 0.8


USUAL = StepRules()


def counting_numbers(cliques: tuple[Clique, ...]) -> dict[Clique, int]:
    """c_R of every region, where it is not 0."""
    left = dict.fromkeys(reversed(closure(cliques)), 1)
    for region, number in left.items():
        if number:
            for subset in subsets(region):
                if len(subset) < len(region):
                    left[subset] -= number
    return {region: number for region, number in left.items() if number}


class Regions:
    """The regions of `cliques`, none of which holds another."""

    def __init__(
        self,
        cliques: CliqueLayout,
        facets: Facets,
        slack: Mapping[Clique, float],
        rules: StepRules = USUAL,
    ) -> None:
        """`slack` is k, for every clique."""
        self.facets, self.rules = facets, rules
        self.slack = cliques.each([slack[clique] for clique in cliques.cliques])
        tops = set(cliques.cliques)
        numbers = counting_numbers(cliques.cliques)
        inner = {region: n for region, n in numbers.items() if region not in tops}
        layout = CliqueLayout(cliques.levels, list(inner))
        self.numbers = layout.each(list(inner.values()))
        most = dict.fromkeys(inner, 0.0)
        for t, held in zip(facets.parents, facets.subsets, strict=True):
            for region in held:
                if region in most:
                    most[region] = max(most[region], slack[cliques.cliques[t]] * cliques.sizes[t])
        self.inner_slack = layout.each(
            [k / size for k, size in zip(most.values(), layout.sizes, strict=True)]
        )
        place = {region: k for k, region in enumerate(inner)}
        met: list[list[tuple[int, float]]] = [[] for _ in facets.parents]
        for f in sorted(range(len(met)), key=lambda f: facets.layout.sizes[f]):
            held = [subset for subset in facets.subsets[f] if subset in place]
            met[f] = [(place.pop(subset), 1.0) for subset in held]
        self.meets = meeting(facets.layout, layout, met)
        self.met = self.meets.T.tocsr()


class Local:
    """The regions around one point, whose expected counts are `counts`."""

    def __init__(self, regions: Regions, counts: np.ndarray) -> None:
        self._regions = regions
        self.counts = counts

    @cached_property
    def _inner_counts(self) -> np.ndarray:
        return self._sums(self.counts)

    def _sums(self, tables: np.ndarray) -> np.ndarray:
        return self._regions.met @ self._regions.facets.sums(tables)

    def leap(self, change: np.ndarray) -> np.ndarray:
        """Potentials to add so that counts change by `change`, however large it is."""
        inner_change = self._sums(change)
        return self._joined(
            change,
            lone_step(self.counts, change, self._regions.slack, self._regions.rules),
            inner_change,
            lone_step(
                self._inner_counts, inner_change, self._regions.inner_slack, self._regions.rules
            ),
        )

    def solve(self, change: np.ndarray) -> np.ndarray:
        """The same for a small change."""
        return self._joined(change, *self._small(change))

    def squared(self, change: np.ndarray) -> float:
        """The change times the step."""
        step, inner_change, inner = self._small(change)
        along = float(change @ step)
        return max(
            along + float(inner_change @ (inner * self._regions.numbers)),
            self._regions.rules.downhill * along,
        )

    def _small(self, change: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step = change / (self.counts + self._regions.slack)
        inner_change = self._sums(change)
        inner = (
            self._regions.rules.careful
            * inner_change
            / (self._inner_counts + self._regions.inner_slack)
        )
        return step, inner_change, inner

    def _joined(
        self, change: np.ndarray, step: np.ndarray, inner_change: np.ndarray, inner: np.ndarray
    ) -> np.ndarray:
        inner *= self._regions.numbers
        along, across = float(change @ step), float(inner_change @ inner)
        downhill = self._regions.rules.downhill
        if along + across < downhill * along:
            inner *= (1.0 - downhill) * along / -across
        self._regions.facets.spread(self._regions.meets @ inner, step)
        return step


def lone_step(
    counts: np.ndarray, change: np.ndarray, slack: np.ndarray, rules: StepRules = USUAL
) -> np.ndarray:
    """Nearly the root of counts (exp(s) - 1) + slack s = change in every cell.

    The left side is convex and increasing. Where the step is large, Newton's method descends to the
    root from a point above it.
    """
    step = change / (counts + slack)
    large = np.nonzero(np.abs(step) > rules.large)
    if large[0].size:
        m, q, k, s = counts[large], change[large], slack[large], step[large]
        above = np.log1p(np.maximum(q, 0.0) / np.maximum(m, 1e-300))
        s = np.where(q > 0, np.minimum(s, above), s)
        for _ in range(rules.newton):
            grown = m * np.exp(np.minimum(s, _LARGEST))
            s -= (grown - m + k * s - q) / (grown + k)
        step[large] = s
    return step
