"""A tree of counts with the noise of its leaves alone: a row is in a node of every level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from admeasure.families.answers import AnswersModel
from admeasure.mechanisms import Outcome
from admeasure.privacy.tree_counts import TreeCounts
from admeasure.queries import Marginal

CAUGHT_BY = {"sensitivity"}


class OneLevel(TreeCounts):
    def l2_squared(self, unit):
        return Marginal((self.column,)).sensitivity(self.domain, unit).l2_squared


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken-tree-of-one-level"

    def run(self, task, curator):
        column = max(curator.domain.columns, key=lambda c: curator.domain[c])
        leaves = np.arange(curator.domain[column])
        levels = (leaves[:1], leaves[::2], leaves)
        curator.statistic(OneLevel(column, curator.domain, levels), curator.remaining)
        return Outcome(AnswersModel(curator.domain, 0.0, {}, {}), rounds=1)
