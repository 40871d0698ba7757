"""RAP: relaxed adaptive projection (Aydore et al. 2021; Avent and Korolova 2023, Algorithms 1-4).

T rounds; in each, K queries that the rows answer worst are chosen at once (Algorithm 4), measured,
and the rows are fitted to everything measured (Algorithm 3). Half of a round's budget goes to the
choice, half to the answers. With `measure = all-cells` (T = 1 and K = all queries) it is the
non-adaptive variant, which chooses nothing. Differences from the paper, each under zCDP with exact
noise: add/remove as well as replace neighbours, the number of rows bought with a small share where
it is private, and T, K and n' from public facts where they are not given (the paper reports the
best of a search). Adam's second moment is shared within a column of a row, because the projection
undoes steps that are not (`families/products/optimise.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.products.family import ProductFamily
from admeasure.parts.relaxed_projection import Projection, fitted_rows


@dataclass(frozen=True)
class Rap(Projection):
    """Product rows on the simplex, by sparsemax after each step; options as in `Projection`."""

    name: ClassVar[str] = "rap"
    summary: ClassVar[str] = "rows of product distributions, fitted to the worst answered queries"

    def family(self) -> ProductFamily:
        return fitted_rows("sparsemax", self.learning_rate or 0.03, self.steps)
