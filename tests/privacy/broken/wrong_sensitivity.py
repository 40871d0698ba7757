"""A whole threshold measured with the noise of a marginal: one row moves several of its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from admeasure.queries import Threshold
from mismeasured import as_a_marginal

CAUGHT_BY = {"sensitivity"}


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-wrong-sensitivity"

    def run(self, task, curator):
        return as_a_marginal(curator, Threshold(curator.domain.columns[:2], 1))
