"""RAP-softmax: RAP on logits (Liu, Vietri and Wu 2021, section 3; appendix A.2).

Rows are softmax(M) with M free, so that a row is always a distribution and no projection is needed:
to raise one level is to lower the others. Everything else is as in `rap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.families.products.family import ProductFamily
from admeasure.parts.relaxed_projection import Projection, fitted_rows


@dataclass(frozen=True)
class RapSoftmax(Projection):
    """Product rows by softmax; options as in `Projection`."""

    name: ClassVar[str] = "rap-softmax"
    summary: ClassVar[str] = "rap with softmax rows: usually closer at the same budget"

    def family(self) -> ProductFamily:
        return fitted_rows("softmax", self.learning_rate or 0.1, self.steps)
