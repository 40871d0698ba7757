"""A residual measured with the noise of its marginal: one row moves every cell of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.queries.residual import Residual
from mismeasured import as_a_marginal

CAUGHT_BY = {"sensitivity"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-residual-as-a-marginal"

    def run(self, task, curator):
        return as_a_marginal(curator, Residual(curator.domain.columns[:2]))
