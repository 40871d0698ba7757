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
from admeasure.measurement import Measurement, pooled

NO_EVIDENCE = 1e-3
"""Of the noise's scale, for a level whose count is not above zero: rows seldom show it."""
FLOOR = 0.01
"""Rows that each such level has at least on average, so that its logarithm is finite."""


def with_rare_levels(
    model: GraphicalModel, log: Sequence[Measurement], limit: float
) -> GraphicalModel:
    """The model with levels below `limit` scales of the noise taken together; 0 leaves it."""
    ruled = {attribute for zero in model.core.zeros for attribute in zero.clique}
    for column, found in pooled(log, (1,)).items():
        clique = model.clique(column)
        if not ruled.isdisjoint(clique):
            continue
        (believed,) = model.marginals([column])
        factors = _factors(found.table, found.variance**0.5, believed, limit)
        if factors is not None:
            potentials = dict(model.core.potentials)
            potentials[clique] = potentials.get(clique, 0.0) + np.log(factors)
            model = replace(model, core=replace(model.core, potentials=potentials))
    return model


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
