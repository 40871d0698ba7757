"""RAP in a box: RAP as first published (Aydore et al. 2021, v1; Liu, Vietri and Wu 2021, D.3).

Rows of numbers in [-1, 1], clipped after each step of Adam, and no constraint that makes the levels
of a column a distribution. Kept as the baseline that GEM's paper compares with (Figure 8): choices,
measurements and charges are those of `rap`. It answers questions and makes no rows. As in the
authors' code noisy answers are clipped to [0, 1] before they are fitted, and answers before they
are given; here they are clipped in the choice of queries too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.products.family import FitOptions, ProductFamily
from admeasure.parts.relaxed_projection import Projection

FALLING = 1e-6
"""A fit goes on while 25 steps lower the loss by this part: from a random start most rows hardly
move an answer at first, and a fit that minds that ends there."""


@dataclass(frozen=True)
class RapBox(Projection):
    """Rows in a box, by clipping after each step; options as in `Projection`."""

    steps: int = 5000

    name: ClassVar[str] = "rap-box"
    summary: ClassVar[str] = "rap as first published, with rows in a box; answers only, no rows"
    makes_rows: ClassVar[bool] = False

    def family(self) -> ProductFamily:
        rate = self.learning_rate or 0.001
        return ProductFamily(FitOptions("box", rate, self.steps, tolerance=FALLING, floor=0.0))
