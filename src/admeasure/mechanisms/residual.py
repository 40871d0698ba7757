"""ResidualPlanner: noise on residuals of marginals (Xiao, He, Zhang and Kifer 2023).

The matrix mechanism with Gaussian noise that is optimal for marginals: every residual inside a
marginal of the workload is measured once, in whole numbers (`queries/residual.py`), and every
marginal is put together from those inside it (`families/residuals.py`), without bias and with a
known variance. It answers questions and makes no rows.

Letters: p_B is what noise of variance 1 on the residual of B costs, σ_B² its variance, c the
budget, Σ_B p_B/σ_B² = c, and Var_A = Σ_B a_AB σ_B² the variance of a cell of the marginal on A.
For any weights λ, Σ_A λ_A Var_A is least where σ_B² is proportional to sqrt(p_B / v_B), with
v_B = Σ_A λ_A a_AB (Cauchy and Schwarz). So the share of B in the budget is proportional to
sqrt(p_B v_B), and the least is (Σ_B sqrt(p_B v_B))² / c.

- `--objective sum`, the weighted sum of squared errors: λ_A is the marginal's weight times its
  cells.
- `--objective max`, the largest of weight · variance: that is the mean with the worst weights, so
  λ_A = weight · μ_A, with the μ of sum 1 for which the least above is largest. It is the square of
  a concave function of μ; the variances at any μ say how far from the best they are.

Under replace the paper's p_B (of add/remove) is not what a residual costs: each is charged for the
pair of rows that moves it most (`Residual.sensitivity`), which is more than they can cost together.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from admeasure.domain import Columns, about
from admeasure.errors import ResourceError
from admeasure.families import HALF_NORMAL
from admeasure.families.answers import AnswersModel, to_simplex
from admeasure.families.residuals import Residuals, cell_share, inside, query_of
from admeasure.planning import forecast, room
from admeasure.planning.division import ASSUMED_ROWS, ROWS, Division, Task, by_shares
from admeasure.planning.mechanism import Outcome, Plan
from admeasure.privacy.cost import Cost
from admeasure.privacy.curator import Curator

MOST_CELLS = 2**24
"""Of one marginal: noise on a residual is as many times larger, and its scale has a largest."""

MOST_RESIDUALS = 2**17
"""Each is a line of the journal."""

GAP, STEPS = 1e-6, 5_000
"""The largest variance is within this of the best, or so many steps were made."""


@dataclass(frozen=True)
class ResidualPlanner:
    """Answers every marginal of the workload from residuals; no rows.

    `objective`: "sum" for the least weighted sum of squared errors, "max" for the least largest
    variance of a cell, times the marginal's weight. `answers`: "unbiased", right in the mean and of
    known variance, so that counts near 0 may be negative, and marginals agree with each other; or
    "nonnegative", each marginal's nearest table of counts, as `gaussian` has them.
    """

    objective: Literal["sum", "max"] = "sum"
    answers: Literal["unbiased", "nonnegative"] = "unbiased"

    name: ClassVar[str] = "residual"
    summary: ClassVar[str] = "noise on residuals, optimal for marginals; answers only, no rows"
    makes_rows: ClassVar[bool] = False

    def check(self, task: Task) -> None:
        """Serves every workload of marginals and thresholds with tables that are not too large."""
        domain, marginals = task.domain, task.workload.marginals()
        room.check_listed(task.workload, self.name)
        room.check_counted(domain, marginals, self.name)
        for columns in marginals:
            if domain.cells(columns) > MOST_CELLS:
                raise ResourceError(
                    f"{self.name}: the marginal of {', '.join(columns)} has "
                    f"{about(domain.cells(columns))} cells, and residuals are measured of at most "
                    f"{about(MOST_CELLS)}. Leave it out, or use gaussian."
                )
        found: set[Columns] = set()
        for columns in marginals:
            for part in inside(domain, columns):
                found.add(part)
                if len(found) > MOST_RESIDUALS:
                    raise ResourceError(
                        f"{self.name}: the workload has more than {MOST_RESIDUALS:,} residuals. "
                        "Leave marginals out, or use gaussian."
                    )

    def needs(self, task: Task) -> float:
        """Noisy residuals and their record, the answers; the steps of one of them."""
        marginals = task.workload.marginals()
        parts = list({part for columns in marginals for part in inside(task.domain, columns)})
        measured = room.megabytes(task.domain, parts, each=20)
        return measured + room.megabytes(task.domain, marginals, each=8, largest=48)

    def divide(self, task: Task, budget: Cost, rows: float) -> Division:
        return self._divided(Makeup.of(task), task, budget)

    def plan(self, task: Task, budget: Cost, rows: int | None) -> Plan:
        makeup = Makeup.of(task)
        items = self._divided(makeup, task, budget).items
        error = None
        if rows:
            parts = zip(items, map(task.domain.cells, makeup.parts), strict=True)
            noise = np.array([(item.noise / cells) ** 2 for item, cells in parts])  # in rows
            scales = np.sqrt(makeup.variances(noise)) * makeup.cells
            error = float(np.minimum(2.0, HALF_NORMAL * scales / rows).mean())
        cells = sum(map(task.domain.cells, makeup.parts))
        megabytes = forecast.process_megabytes(task.domain, rows) + self.needs(task)
        counting = 4e-9 * (rows or ASSUMED_ROWS)
        seconds = 0.1 + cells * 3e-7 + len(items) * (4.5e-4 + counting)
        return Plan(items, "1", error, megabytes, seconds)

    def run(self, task: Task, curator: Curator) -> Outcome:
        domain, makeup = task.domain, Makeup.of(task)
        division = self._divided(makeup, task, curator.remaining)
        queries = [query_of(part) for part in makeup.parts]
        shares = [item.cost.ratio(curator.budget) for item in division.items]
        residuals = Residuals.of(domain, curator.measure(queries, curator.budget, shares))
        tables = {columns: residuals.table(columns) for columns in task.workload.marginals()}
        variances = {columns: residuals.variance(columns) for columns in tables}
        total = max(1.0, float(residuals.table(())))
        if self.answers == "nonnegative":
            tables = {columns: to_simplex(table, total) for columns, table in tables.items()}
        return Outcome(AnswersModel(domain, total, tables, variances), rounds=1)

    def _divided(self, makeup: Makeup, task: Task, budget: Cost) -> Division:
        """What each residual gets."""
        parts = makeup.parts
        l2_squared = [query_of(p).sensitivity(task.domain, task.unit).l2_squared for p in parts]
        cells = map(task.domain.cells, parts)
        prices = np.array([l2 / n**2 for l2, n in zip(l2_squared, cells, strict=True)])
        shares = [Fraction(share) for share in makeup.shares(self.objective, prices).tolist()]
        names = [f"residual of {', '.join(p)}" if p else ROWS for p in parts]
        return by_shares(budget, list(zip(names, shares, l2_squared, strict=True)))


@dataclass(frozen=True, eq=False)
class Makeup:
    """The marginals of a workload, with their weights and cells, and the residuals of which each is
    made: a_AB as entries, `whole` the place of A, `part` that of B, `share` the number."""

    wholes: tuple[Columns, ...]
    weights: np.ndarray
    cells: np.ndarray
    parts: tuple[Columns, ...]
    whole: np.ndarray
    part: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, task: Task) -> Makeup:
        domain, wholes = task.domain, task.workload.marginals()
        weights = task.workload.weights_by_columns()
        pairs = [(i, part) for i, whole in enumerate(wholes) for part in inside(domain, whole)]
        parts = sorted({part for _, part in pairs}, key=lambda part: (len(part), part))
        places = {part: i for i, part in enumerate(parts)}
        return cls(
            wholes,
            np.array([weights[whole] for whole in wholes]),
            np.array([domain.cells(whole) for whole in wholes]),
            tuple(parts),
            np.array([i for i, _ in pairs]),
            np.array([places[part] for _, part in pairs]),
            np.array([cell_share(domain, part, wholes[i]) for i, part in pairs]),
        )

    def variances(self, noise: np.ndarray) -> np.ndarray:
        """Var_A for each marginal, where the residuals have noise of these variances."""
        return np.bincount(self.whole, self.share * noise[self.part], len(self.wholes))

    def shares(self, objective: Literal["sum", "max"], prices: np.ndarray) -> np.ndarray:
        """What each residual has of the budget, where noise of variance 1 on it has that price."""
        if objective == "sum":
            return self._roots(self.weights * self.cells, prices)
        return self._roots(self.weights * self._worst(prices), prices)

    def _roots(self, weights: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """sqrt(p_B v_B) of sum 1, for λ."""
        roots = np.sqrt(
            prices * np.bincount(self.part, self.share * weights[self.whole], len(self.parts))
        )
        return roots / roots.sum()

    def _worst(self, prices: np.ndarray) -> np.ndarray:
        """μ for `max`. At any μ the best shares give variances V_A for which Σ μ_A w_A V_A, which
        no shares make smaller, is at most the largest of w_A V_A; at the best μ they are equal. A
        step multiplies each μ_A by w_A V_A over that mean."""
        mu = np.full(len(self.wholes), 1 / len(self.wholes))
        for _ in range(STEPS):
            seen = self.weights * self.variances(prices / self._roots(self.weights * mu, prices))
            if seen.max() <= (1 + GAP) * (mu @ seen):
                break
            mu = mu * seen
            mu /= mu.sum()
        return mu
