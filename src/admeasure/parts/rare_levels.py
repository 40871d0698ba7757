"""Rare levels of a fitted model: taken together, and apart again by their noisy counts.

Noise pushes a fit away from zero: of many levels that hardly occur, those whose noise was positive
stay, and together they have far more rows than there are. McKenna, Miklau and Sheldon (2021,
section 3.2) measure levels below three scales of the noise as one. Here the fitted model is moved:
a column's levels whose best estimate is below that limit get together what their estimates add up
to, in which noise cancels, if that is less than the model gives them; divided by their counts,
where these are above zero. The others are scaled alike, so that what the model says of a row given
that its level is none of these stays as it is.

From what was measured alone: nothing is charged. Columns of structural zeros are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from admeasure.families.graphical.family import GraphicalModel
from admeasure.measurement import Measurement

NO_EVIDENCE = 1e-3
"""Of the noise's scale, for a level whose count is not above zero: rows seldom show it."""
FLOOR = 0.01
"""Rows that each such level has at least on average, so that its logarithm is finite."""


def with_rare_levels(
    model: GraphicalModel, log: Sequence[Measurement], limit: float
) -> GraphicalModel:
    """The model with levels below `limit` scales of the noise taken together; 0 leaves it."""
    ruled = {attribute for zero in model.core.zeros for attribute in zero.clique}
    for column in model.domain.columns:
        clique = model.clique((column,))
        found = best_estimate(column, log)
        if found is None or not ruled.isdisjoint(clique):
            continue
        (believed,) = model.marginals([(column,)])
        factors = _factors(*found, believed, limit)
        if factors is not None:
            potentials = dict(model.core.potentials)
            potentials[clique] = potentials.get(clique, 0.0) + np.log(factors)
            model = replace(model, core=replace(model.core, potentials=potentials))
    return model


def best_estimate(column: str, log: Sequence[Measurement]) -> tuple[np.ndarray, float] | None:
    """The counts of a column's levels from all that was measured with it, and their noise's scale;
    the mean of sums by precision."""
    total, precision = 0.0, 0.0
    for m in log:
        if column in m.query.columns and m.sigma > 0:
            axis = m.query.columns.index(column)
            others = tuple(i for i in range(m.values.ndim) if i != axis)
            summed = m.values.size // m.values.shape[axis]
            weight = 1 / (summed * m.sigma**2)
            total = total + weight * m.values.sum(axis=others)
            precision += weight
    return (np.asarray(total / precision), precision**-0.5) if precision else None


def _factors(
    counts: np.ndarray, sigma: float, believed: np.ndarray, limit: float
) -> np.ndarray | None:
    """What each level's believed rows are multiplied by; None where no level is rare, or all."""
    rare = counts < limit * sigma
    if not rare.any() or rare.all():
        return None
    together = max(float(counts[rare].sum()), FLOOR * int(rare.sum()))
    together = min(together, float(believed[rare].sum()))
    shares = np.maximum(counts[rare], 0.0) + NO_EVIDENCE * sigma
    factors = np.empty(len(counts))
    factors[rare] = together * shares / shares.sum() / np.maximum(believed[rare], 1e-9)
    factors[~rare] = (believed.sum() - together) / believed[~rare].sum()
    return np.maximum(factors, 1e-12)
