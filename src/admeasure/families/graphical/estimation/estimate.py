"""From noisy marginals to the graphical model of greatest entropy that fits them.

Given y_i = M_i(D) + noise of scale sigma_i on cliques c_i, the model solves

    maximise  N H(p) - (sigma_0 / 2 kappa) sum over i of |N M_i p - y_i|^2 / sigma_i^2,

weighted least squares with weights 1 / sigma_i^2 (maximum likelihood for Gaussian noise) with just
enough entropy to choose one answer, by way of its convex dual (`dual.py`). N is the
inverse-variance mean of the marginals' sums. Nothing here is random.

Reads noisy measurements and public structure only: post-processing, nothing is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from admeasure.errors import UsageError
from admeasure.families.graphical.estimation.dual import Dual
from admeasure.families.graphical.estimation.lbfgs import minimise
from admeasure.families.graphical.estimation.shrinkage import Learn, Posteriors, shrunk
from admeasure.families.graphical.estimation.statistics import Observation, combine, estimate_total
from admeasure.families.graphical.model import MarkovRandomField
from admeasure.families.graphical.structure.junction_tree import JunctionTree, check_limit
from admeasure.families.graphical.structure.zeros import Zeros


@dataclass(frozen=True)
class Accuracy:
    """When to stop, and how much slack the fit is given.

    `tolerance` bounds the root mean square of the dual's gradient in units of sigma; `reduction`
    stops where it has fallen to this part of what it was at the start, if that is sooner; `slack`
    is kappa: smaller fits the measurements more closely and takes longer. `over`: the mean is over
    the cells of the maximal cliques, or of all that was measured, those inside larger ones as well.
    `columns`: where effects are shrunk, how the shapes of columns are learned (`shrinkage.py`).
    """

    tolerance: float = 0.02
    iterations: int = 600
    slack: float = 0.1
    reduction: float = 0.0
    over: Literal["cliques", "measured"] = "cliques"
    columns: Learn = "together"


IN_LOOP = Accuracy(tolerance=0.1, iterations=60, slack=0.2, reduction=0.1)
"""Of a large table the noise is a small part of what a round learns; what to ask next does not
depend on a model that is closer than that (docs/explanations/aim.md has errors with and
without)."""
IN_SHRUNK_LOOP = replace(IN_LOOP, tolerance=0.2, over="measured", columns="alone")
"""Of a small marginal inside large ones that were measured with much noise, the mean over the
cliques' cells is below the tolerance from the start: it would be measured and not fitted, and
measured again at twice the cost."""
FINAL = Accuracy()


@dataclass(frozen=True)
class Fit:
    """The model, and how many steps it took; what a fit with shrinkage computed on its way."""

    model: MarkovRandomField
    iterations: int
    posteriors: Posteriors


def estimate(
    levels: Sequence[int],
    observations: Iterable[Observation],
    *,
    zeros: Iterable[Zeros] = (),
    tree: JunctionTree | None = None,
    start: MarkovRandomField | None = None,
    total: float | None = None,
    accuracy: Accuracy = FINAL,
    reference_sigma: float | None = None,
    limit_megabytes: float | None = None,
    known: Posteriors | None = None,
) -> Fit:
    """Fit a model to noisy marginals.

    `tree` must hold every clique; without one it is built. `start` is a model of the same table to
    start from. `total` is given where the number of rows is public. `reference_sigma` is sigma_0,
    by default the median of the cliques' sigmas; a run that fits many times should fix it. `known`
    asks for shrunk effects (`shrinkage.py`): the posteriors of an earlier fit, or none of them.
    """
    levels = tuple(int(n) for n in levels)
    zeros = tuple(zeros)
    statistics = combine(levels, observations, zeros)
    cliques = [*(s.clique for s in statistics), *(z.clique for z in zeros)]
    if tree is None:
        tree = JunctionTree.build(levels, cliques)
    missing = [clique for clique in cliques if not tree.contains(clique)]
    if missing:
        raise UsageError(f"The tree does not hold the clique {missing[0]}. Extend it first.")
    check_limit(tree, limit_megabytes)
    if total is None:
        total = estimate_total(statistics)
    if reference_sigma is None:
        reference_sigma = float(np.median([s.sigma for s in statistics])) if statistics else 1.0
    posteriors: Posteriors = {}
    if known is not None:
        statistics, posteriors = shrunk(levels, statistics, zeros, total, known, accuracy.columns)
    dual = Dual(tree, statistics, zeros, total, accuracy.slack / reference_sigma)
    first = dual.evaluate(dual.initial(start))
    distance = {"cliques": dual.distance, "measured": dual.distance_measured}[accuracy.over]
    enough = max(accuracy.tolerance, accuracy.reduction * distance(first))
    point, iterations = minimise(
        dual.evaluate,
        first,
        done=lambda point: distance(point) < enough,
        iterations=accuracy.iterations,
    )
    model = MarkovRandomField(levels, tree, dual.potentials(point.x), zeros, total)
    return Fit(model, iterations, posteriors)
