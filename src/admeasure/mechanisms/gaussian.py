"""Gaussian: noisy answers to every marginal of the workload, with the optimal budget split.

The baseline of McKenna, Mullins, Sheldon and Miklau (2022), section 6.1, with the allocation of
Zhang et al. (PrivSyn, 2021): to minimise Σ c_r n_r σ_r under Σ 1/(2σ_r²) = ρ, σ_r is proportional
to (c_r n_r)^(-1/3), so the share of marginal r is proportional to (c_r n_r)^(2/3). It answers
questions and makes no rows.

`measure = cells` is the baseline GM of Avent and Korolova (2023), Definition 2.10: each of m
queries is answered by itself with ρ/m, so that every count has noise of variance m / (2ρ), and what
comes out is given as it is. The counts of one marginal are drawn together and have that noise;
a row moves two of them at the most, so they cost less than their number of charges, and what they
cost is charged. The rest of the budget stays unspent.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import WorkloadError
from admeasure.families import HALF_NORMAL
from admeasure.families.answers import AnswersModel, to_simplex
from admeasure.measurement import believed_total
from admeasure.planning import forecast, room
from admeasure.planning.division import ASSUMED_ROWS, Division, Task, as_noisy, by_shares
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator
from admeasure.queries import Marginal

EXACT = 1e-6
"""The variance that stands for that of a public number."""


@dataclass(frozen=True)
class Gaussian:
    """Answers every marginal of the workload; no rows.

    `measure`: whole marginals, each with its share of the budget; or cells: one noise a query, as
    if every count were asked and paid for by itself.
    """

    measure: Literal["marginals", "cells"] = "marginals"

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "noise on every marginal of the workload; answers only, no rows"
    makes_rows: ClassVar[bool] = False

    def check(self, task: Task) -> None:
        """Serves every workload of marginals and thresholds whose tables can be counted."""
        room.check_listed(task.workload, self.name)
        if self.measure == "cells" and any(
            q.at_least < len(q.columns) for q in task.workload.targets
        ):
            raise WorkloadError(
                f"{self.name}: measure = cells answers counts of marginals, and thresholds would "
                "be sums of many. Leave them out, or use measure = marginals."
            )
        room.check_counted(task.domain, task.workload.marginals(), self.name)

    def needs(self, task: Task) -> float:
        """Noisy answers, measured and projected, and their record; the steps of one of them."""
        return room.megabytes(task.domain, task.workload.marginals(), each=20, largest=40)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        domain, unit, shares = task.domain, task.unit, _shares(task)
        parts = [
            (f"marginal of {', '.join(c)}", s, Marginal(c).sensitivity(domain, unit).l2_squared)
            for c, s in shares.items()
        ]
        if self.measure == "marginals":
            return by_shares(budget, parts)
        m = sum(map(domain.cells, shares))
        one = budget / (m * unit.max_rows**2)
        return Division(tuple(as_noisy(what, l2_squared, one) for what, _, l2_squared in parts))

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        items = self.divide(task, budget, rows or ASSUMED_ROWS).items
        sizes = [task.domain.cells(c) for c in _shares(task)]
        error = None
        if rows:
            noise = [item.noise for item in items]
            l1 = [HALF_NORMAL * s * n / rows for s, n in zip(noise, sizes, strict=True)]
            error = sum(min(2.0, e) for e in l1) / len(l1)
        megabytes = forecast.process_megabytes(task.domain, rows) + self.needs(task)
        counting = 4e-9 * (rows or ASSUMED_ROWS)
        seconds = 0.1 + sum(sizes) * 3e-7 + len(items) * (3e-4 + counting)
        return Plan(items, "1", error, megabytes, seconds)

    def run(self, task: Task, curator: Curator) -> Outcome:
        division = self.divide(task, curator.remaining, ASSUMED_ROWS)
        queries = [Marginal(c) for c in _shares(task)]
        shares = [item.cost.ratio(curator.budget) for item in division.items]
        log = curator.measure(queries, curator.budget * sum(shares), shares)
        total = believed_total(log)
        tables = {m.query.columns: m.values.astype(float) for m in log}
        variances = {m.query.columns: m.sigma**2 for m in log}
        if self.measure == "marginals":
            tables = {columns: to_simplex(values, total) for columns, values in tables.items()}
        elif task.unit.rows_are_public:
            total = float(curator.rows(curator.remaining).values)
            tables[()], variances[()] = np.asarray(total), EXACT
        return Outcome(AnswersModel(task.domain, total, tables, variances), rounds=1)


def _shares(task: Task) -> dict[Columns, Fraction]:
    """(c_r n_r)^(2/3) for each marginal that some query of the workload needs."""
    weights = task.workload.weights_by_columns()
    return {c: Fraction((w * task.domain.cells(c)) ** (2 / 3)) for c, w in weights.items()}
