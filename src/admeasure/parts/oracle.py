"""The data player of DualQuery and FEM: a record that minimises a sum of counting queries.

    minimise over records x   Σ_i w_i q_i(x) + Σ_c cost_c(x_c)

On a small domain all records are compared: exact, and of some hundred thousand records far faster
than an integer program, with one pass over the domain for each distinct set of columns and one more
for each perturbation. In general it is an NP-hard problem, handed to OR-tools' CP-SAT or, where it
is not installed, to HiGHS through scipy. Variables: b[c, l] for "column c has level l", one of each
column; y_i >= q_i(x). A query that counts records meeting at least r of k conditions L_1 … L_k
(each a sum of b's) is Σ L <= r - 1 + (k - r + 1) y. Levels that cannot be together: Σ L <= k - 1.

Everything here is computed from released results; nothing is private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np

from admeasure.domain import Columns, Domain, about
from admeasure.errors import UsageError
from admeasure.families.explicit import lifted
from admeasure.queries import Query
from admeasure.queries.query import Conditions
from admeasure.schema import Zero

Engine = Literal["enumeration", "cp-sat", "highs"]
Solver = Literal["auto", "enumeration", "cp-sat", "highs"]
Condition = tuple[str, frozenset[int]]

COST_GRID = 1000
"""CP-SAT works with integers; costs are kept to a thousandth of a query."""

MAX_RECORDS = 1 << 20
"""The largest domain whose records are all looked at."""


@dataclass(frozen=True)
class Found:
    """A record, and whether it is proved to be the best."""

    codes: Mapping[str, int]
    proved: bool


class Enumeration:
    """Costs of all records of one domain; those that a [[zero]] rules out cost infinitely much."""

    def __init__(self, domain: Domain, zeros: Sequence[Zero]) -> None:
        self.domain = domain
        self._impossible = np.zeros(domain.levels, dtype=bool)
        for zero in zeros:
            self._impossible |= lifted(zero.mask, zero.columns, domain)
        self._asked: frozenset[tuple[Query, float]] | None = None
        self._sums = np.zeros(domain.levels)

    def best(
        self,
        queries: Mapping[Query, float],
        costs: Mapping[str, np.ndarray],
        rng: np.random.Generator | None = None,
    ) -> dict[str, int] | None:
        """The codes of a record of least cost; of several the first, or one drawn by `rng`."""
        total = self._totals(queries)
        if costs:
            levels = zip(self.domain.columns, self.domain.levels, strict=True)
            columns = [costs.get(c, np.zeros(n)) for c, n in levels]
            total = total + reduce(np.add.outer, columns)
        flat = total.ravel()
        place = int(flat.argmin())
        if not np.isfinite(flat[place]):
            return None
        if rng is not None:
            place = int(rng.choice(np.flatnonzero(flat <= flat[place] + 1e-9)))
        codes = np.unravel_index(place, self.domain.levels)
        return {c: int(code) for c, code in zip(self.domain.columns, codes, strict=True)}

    def _totals(self, queries: Mapping[Query, float]) -> np.ndarray:
        """Σ w q(x) for every record x. Kept: FEM asks it of the same queries again and again."""
        asked = frozenset(queries.items())
        if asked != self._asked:
            tables: dict[Columns, np.ndarray] = {}
            for query, weight in queries.items():
                part = query.spread(np.asarray(float(weight)), self.domain)
                tables[query.columns] = tables.get(query.columns, 0.0) + part
            sums = np.where(self._impossible, np.inf, 0.0)
            for columns, table in tables.items():
                sums += lifted(table, columns, self.domain)
            self._asked, self._sums = asked, sums
        return self._sums


@dataclass(frozen=True)
class Oracle:
    """Solves one program after another for one domain and its structural zeros."""

    domain: Domain
    zeros: Sequence[Zero]
    seconds: float = 5.0
    solver: Solver = "auto"

    @cached_property
    def forbidden(self) -> tuple[tuple[Condition, ...], ...]:
        return tuple(product for zero in self.zeros for product in _products(zero))

    @cached_property
    def engine(self) -> Engine:
        """The solver that will be used."""
        if self.solver == "highs":
            return "highs"
        if self.solver in ("auto", "enumeration"):
            if self.domain.cells() <= MAX_RECORDS:
                return "enumeration"
            if self.solver == "enumeration":
                raise UsageError(
                    f"--solver enumeration looks at every record, and the domain has "
                    f"{about(self.domain.cells())}; {about(MAX_RECORDS)} is its limit. Use auto."
                )
        try:
            import ortools.sat.python.cp_model  # noqa: F401
        except ImportError:
            if self.solver == "cp-sat":
                raise UsageError(
                    "--solver cp-sat needs OR-tools: pip install 'admeasure[mip]'. Or use highs."
                ) from None
            return "highs"
        return "cp-sat"

    @cached_property
    def _enumeration(self) -> Enumeration:
        return Enumeration(self.domain, self.zeros)

    def best(
        self,
        queries: Mapping[Query, float],
        costs: Mapping[str, np.ndarray] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Found | None:
        """The record with the smallest sum of weights and costs, or the best one found in time;
        None where none was found. Columns that play no part may be left out of it. `rng` draws
        among equally good ones where all of them are known; an integer program gives one."""
        if self.engine == "enumeration":
            codes = self._enumeration.best(queries, costs or {}, rng)
            return None if codes is None else Found(codes, proved=True)
        terms = [(*conditions(query), weight) for query, weight in queries.items()]
        costs = costs or {}
        used = {c for parts, _, _ in terms for c, _ in parts} | set(costs)
        used |= {c for product in self.forbidden for c, _ in product}
        columns = [c for c in self.domain.columns if c in used]
        if self.engine == "cp-sat":
            return self._cp_sat(columns, terms, costs)
        return self._highs(columns, terms, costs)

    def _cp_sat(
        self,
        columns: Sequence[str],
        terms: Sequence[tuple[Sequence[Condition], int, float]],
        costs: Mapping[str, np.ndarray],
    ) -> Found | None:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        b = {c: [model.new_bool_var("") for _ in range(self.domain[c])] for c in columns}
        for levels in b.values():
            model.add_exactly_one(levels)

        def met(condition: Condition) -> cp_model.LinearExprT:
            column, codes = condition
            return sum(b[column][code] for code in sorted(codes))

        for product in self.forbidden:
            model.add(sum(map(met, product)) <= len(product) - 1)
        objective = []
        for parts, r, weight in terms:
            y = model.new_bool_var("")
            if r == 1:
                for part in parts:
                    model.add(met(part) <= y)
            else:
                model.add(sum(map(met, parts)) <= r - 1 + (len(parts) - r + 1) * y)
            objective.append(round(COST_GRID * weight) * y)
        for column, cost in costs.items():
            objective += [
                round(COST_GRID * float(v)) * x for v, x in zip(cost, b[column], strict=True)
            ]
        model.minimize(sum(objective))
        solver = cp_model.CpSolver()
        # One worker and a fixed seed, so that the same program has the same answer.
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_time_in_seconds = self.seconds
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        codes = {
            c: next(i for i, x in enumerate(levels) if solver.boolean_value(x))
            for c, levels in b.items()
        }
        return Found(codes, proved=status == cp_model.OPTIMAL)

    def _highs(
        self,
        columns: Sequence[str],
        terms: Sequence[tuple[Sequence[Condition], int, float]],
        costs: Mapping[str, np.ndarray],
    ) -> Found | None:
        starts = dict(
            zip(columns, np.cumsum([0] + [self.domain[c] for c in columns]), strict=False)
        )
        width = sum(self.domain[c] for c in columns)
        size = width + len(terms)
        rows: list[dict[int, float]] = []
        low: list[float] = []
        high: list[float] = []

        def add(entries: dict[int, float], least: float, most: float) -> None:
            rows.append(entries)
            low.append(least)
            high.append(most)

        def met(parts: Sequence[Condition]) -> dict[int, float]:
            return {int(starts[c]) + code: 1.0 for c, codes in parts for code in codes}

        for c in columns:
            add({int(starts[c]) + i: 1.0 for i in range(self.domain[c])}, 1.0, 1.0)
        for product in self.forbidden:
            add(met(product), -math.inf, len(product) - 1.0)
        objective = np.zeros(size)
        for i, (parts, r, weight) in enumerate(terms):
            y = width + i
            objective[y] = weight
            for some in [[p] for p in parts] if r == 1 else [parts]:
                slack = 1.0 if r == 1 else float(len(parts) - r + 1)
                add({**met(some), y: -slack}, -math.inf, r - 1.0)
        for column, cost in costs.items():
            start = int(starts[column])
            objective[start : start + len(cost)] += cost
        if not size:
            return Found({}, proved=True)
        places = [(i, j) for i, entries in enumerate(rows) for j in entries]
        values = [v for entries in rows for v in entries.values()]
        from scipy import sparse
        from scipy.optimize import LinearConstraint, milp

        matrix = sparse.csr_matrix((values, tuple(zip(*places, strict=True))), (len(rows), size))
        found = milp(
            objective,
            integrality=np.ones(size),
            bounds=(0, 1),
            constraints=LinearConstraint(matrix, low, high),  # pyright: ignore[reportArgumentType]
            options={"time_limit": self.seconds},
        )
        if found.x is None:
            return None
        codes = {
            c: int(np.argmax(found.x[int(starts[c]) : int(starts[c]) + self.domain[c]]))
            for c in columns
        }
        return Found(codes, proved=found.status == 0)


def conditions(query: Query) -> tuple[list[Condition], int]:
    """The conditions of a counting query, and how many of them a record must meet."""
    if not isinstance(query, Conditions):
        raise TypeError(f"{type(query).__name__} is not a counting query")
    sets, at_least = query.requirement
    return [(c, frozenset(s)) for c, s in zip(query.columns, sets, strict=True)], at_least


def _products(zero: Zero) -> list[tuple[Condition, ...]]:
    """The impossible cells as products of level sets: one where the mask is one, as the schema
    makes it, else one for each cell."""
    axes = range(zero.mask.ndim)
    sides = [np.flatnonzero(zero.mask.any(axis=tuple(a for a in axes if a != i))) for i in axes]
    if zero.mask[np.ix_(*sides)].all():
        cells = [sides]
    else:
        cells = [[np.array([code]) for code in cell] for cell in np.argwhere(zero.mask)]
    return [
        tuple((c, frozenset(map(int, side))) for c, side in zip(zero.columns, cell, strict=True))
        for cell in cells
    ]
