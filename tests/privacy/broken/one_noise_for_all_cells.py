"""One noise for a whole marginal, added to every cell: the differences of its cells are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.queries import Marginal
from mismeasured import as_a_marginal

CAUGHT_BY = {"draw"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-one-noise-for-all-cells"

    def run(self, task, curator):
        return as_a_marginal(curator, Marginal(curator.domain.columns), draws=1)
