"""Best-mixture error of a public table against the private one. NOT PRIVATE.

`admeasure.verbs.screen` releases the same number with noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from admeasure.evaluation.errors import CountsOf
from admeasure.families.mixture import Mixture, best_mixture
from admeasure.public.table import PublicTable
from admeasure.schema import Zero
from admeasure.workload import Workload


def best_mixture_error(
    truth: CountsOf,
    public: PublicTable,
    workload: Workload,
    zeros: Sequence[Zero] = (),
    *,
    gap: float = 1e-4,
    seconds: float = math.inf,
) -> Mixture:
    """The smallest largest error, in shares, of any reweighting; `gap` in shares."""
    rows = float(truth([()])[0])
    queries = workload.queries
    tables = truth([q.columns for q in queries])
    answers = [q.answer(t) / rows for q, t in zip(queries, tables, strict=True)]
    return best_mixture(public.start(1.0, zeros), queries, answers, gap=gap, seconds=seconds)
