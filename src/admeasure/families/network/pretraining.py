"""A network fitted to a public table: no privacy, no budget.

Everything here is public. The table's marginals count as measurements whose noise is what sampling
so many rows leaves: a cell of a marginal with n_r cells of a table of m rows has a variance of
about m / n_r rows, so training ends where a closer fit would learn the sample rather than its
population.

Half of the steps see the one- and two-way marginals alone, which are cheap and hold most of what
there is to learn. In the other half these stay in the loss, and of the larger marginals each stage
takes a part drawn from a fixed seed, which bounds memory and time however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from admeasure.domain import Columns
from admeasure.families.network.family import NetworkFamily, NetworkModel, TrainingOptions
from admeasure.families.support import SupportModel
from admeasure.joints import batches
from admeasure.measurement import Measurement
from admeasure.queries import Marginal

STAGES = 24
STAGE_CELLS = 1 << 14
"""Cells of larger marginals in one stage."""


def fitted(
    model: NetworkModel,
    table: SupportModel,
    queries: Sequence[Columns],
    rows: int,
    how: TrainingOptions,
) -> NetworkModel:
    """The network trained on the table's shares of these marginals, `how.steps` in all."""
    small = [c for c in queries if len(c) <= 2]
    large = [c for c in queries if len(c) > 2]
    known = _measured(small, table, rows, model.total)
    first = math.ceil(how.steps / 2) if large else how.steps
    model = NetworkFamily(replace(how, steps=first)).update(model, known)
    random, steps = Random(0), math.ceil((how.steps - first) / STAGES)
    for stage in range(STAGES if large else 0):
        rate = how.learning_rate * 0.5 * (1 + math.cos(math.pi * stage / (STAGES + 1)))
        family = NetworkFamily(replace(how, learning_rate=rate, steps=steps))
        drawn = batches(random.sample(large, len(large)), model.domain.cells, STAGE_CELLS)
        part = _measured(next(drawn), table, rows, model.total)
        model = family.update(model, [*known, *part])
    return model


def _measured(
    queries: Sequence[Columns], table: SupportModel, rows: int, total: float
) -> list[Measurement]:
    """Marginals scaled to the model's number of rows, with the noise of sampling."""
    tables = table.marginals(queries)
    scale = total / table.total
    return [
        Measurement(
            Marginal(c), np.asarray(t) * scale, total / math.sqrt(rows * max(1, np.size(t)))
        )
        for c, t in zip(queries, tables, strict=True)
    ]
