"""Statistics of a model's rows: values, and how far a sample of rows would move them.

A variable is the name of a column of numbers or days, whose values lie inside bins as those of
synthetic rows do (`cells`), or conditions as those of `answer`: 1 where a row meets them all and 0
where not. Rows in which a variable has no value (`missing`, `other`) are left out.

A statistic that solves Σ ψ(row) = 0 with slope A moves by A⁻¹ ψ(row) where one row is added, its
*influence*, a function of the row's cell. The variance from sampling is that of as many independent
rows as the model has, A⁻¹ B A⁻ᵀ with B the sum of ψψᵀ (Huber 1967). A regression on more columns
than fit one table knows the moments of pairs alone: its influence is a sum over pairs, and it takes
the spread of its errors to be the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations_with_replacement
from typing import Any, Protocol

import numpy as np

from admeasure.analyses import cells as limits
from admeasure.analyses.cells import Influence, PointEstimates, Variable, cells_of, columns_of
from admeasure.errors import UsageError
from admeasure.families import Model
from admeasure.schema import Column, Schema
from admeasure.schema.inside import Inside

NEWTON_STEPS = 50
InsideOf = Mapping[str, Inside]
"""How values lie inside the bins of columns."""
NOTHING: InsideOf = {}


class Analysis(Protocol):
    """A statistic of the rows of a table."""

    def compute(
        self, schema: Schema, model: Model, inside: InsideOf = NOTHING
    ) -> PointEstimates: ...


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a variable over the rows that meet `where`; of conditions, the proportion."""

    variable: Variable
    where: Mapping[str, Any] = field(default_factory=dict)

    def compute(self, schema: Schema, model: Model, inside: InsideOf = NOTHING) -> PointEstimates:
        cells = cells_of(schema, model, inside, [self.variable], [self.where])
        (x,), (group,) = cells.values, cells.inside
        value, influence = _mean(cells.weights, x, group)
        ends = float(cells.ends[0, 0]), float(cells.ends[0, 1])
        found = cells.estimates((_name(self.variable),), [value], influence[None], ends)
        return replace(found, scales=(_column(schema, self.variable) or "",))


@dataclass(frozen=True, eq=False)
class MeanDifference:
    """The mean of a variable over the rows of one group less that over the rows of another."""

    variable: Variable
    group: Mapping[str, Any]
    other: Mapping[str, Any]

    def compute(self, schema: Schema, model: Model, inside: InsideOf = NOTHING) -> PointEstimates:
        cells = cells_of(schema, model, inside, [self.variable], [self.group, self.other])
        (x,) = cells.values
        (a, of_a), (b, of_b) = (_mean(cells.weights, x, group) for group in cells.inside)
        found = cells.estimates((_name(self.variable),), [a - b], (of_a - of_b)[None])
        return replace(found, scales=(_span_unit(schema, self.variable),))


@dataclass(frozen=True, eq=False)
class Correlation:
    """Pearson's correlation of two variables."""

    one: Variable
    two: Variable
    where: Mapping[str, Any] = field(default_factory=dict)

    def compute(self, schema: Schema, model: Model, inside: InsideOf = NOTHING) -> PointEstimates:
        cells = cells_of(schema, model, inside, [self.one, self.two], [self.where])
        x, (group,) = cells.values, cells.inside
        w = cells.weights * group
        total = w.sum()
        z = x - (x @ w / total)[:, None]
        spread = np.sqrt(z**2 @ w / total)
        if not np.all(spread > 0):
            raise UsageError(
                "A variable has one value only in these rows, and no correlation. Name another, or "
                "widen the conditions."
            )
        stretch = cells.stretch(_by_name([self.one, self.two], total * spread**2))
        z = z / spread[:, None]
        r = float((z[0] * z[1]) @ w / total)
        influence = group * (z[0] * z[1] - r * (z**2).sum(axis=0) / 2) / total
        name = f"{_name(self.one)}, {_name(self.two)}"
        return cells.estimates((name,), [r], influence[None], (-1.0, 1.0), stretch)


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """Least squares of a variable on others and a constant: their coefficients, the constant's
    first."""

    of: Variable
    on: Sequence[Variable]

    def compute(self, schema: Schema, model: Model, inside: InsideOf = NOTHING) -> PointEstimates:
        variables = [self.of, *self.on]
        whole = schema.domain.cells(columns_of(schema, variables)) <= limits.MOST_CELLS
        in_pairs = not whole and _all_have_values(schema, variables)
        found = (self._of_pairs if in_pairs else self._of_cells)(schema, model, inside)
        unit = _span_unit(schema, self.of)
        slopes = ("" if unit == _span_unit(schema, on) else unit for on in self.on)
        return replace(found, scales=(_column(schema, self.of) or "", *slopes))

    def _of_cells(self, schema: Schema, model: Model, inside: InsideOf) -> PointEstimates:
        variables = [self.of, *self.on]
        cells = cells_of(schema, model, inside, variables)
        weights, y = cells.weights, cells.values[0]
        x = np.vstack([np.ones(len(weights)), cells.values[1:]])
        inverse = _inverse((x * weights) @ x.T)
        found = inverse @ (x * weights) @ y
        stretch = cells.stretch(_by_name(self.on, 1 / np.diag(inverse)[1:]))
        influence = inverse @ (x * (y - found @ x))
        return cells.estimates(_terms(self.on), found, influence, stretch=stretch)

    def _of_pairs(self, schema: Schema, model: Model, inside: InsideOf) -> PointEstimates:
        variables = [self.of, *self.on]
        count = len(variables)
        # Of pairs of variables; a pair of one variable stands for itself too.
        pairs = {
            (i, j): cells_of(schema, model, inside, [variables[i], variables[j]])
            for i, j in combinations_with_replacement(range(count), 2)
        }
        moments = np.full((count + 1, count + 1), model.total)
        for (i, j), cells in pairs.items():
            a, b = cells.values
            moments[i + 1, j + 1] = moments[j + 1, i + 1] = cells.weights @ (a * b)
            if i == j:
                moments[0, i + 1] = moments[i + 1, 0] = cells.weights @ a
        x = [0, *range(2, count + 1)]
        inverse = _inverse(moments[np.ix_(x, x)])
        found = inverse @ moments[x, 1]
        rest = (moments[1, 1] - found @ moments[x, 1]) / model.total
        # x (y - found x) as a sum over pairs: a row for each coefficient, axes as those of moments.
        part = np.zeros((len(x), count + 1, count + 1))
        part[:, x, 1] = inverse
        part[np.ix_(range(len(x)), x, x)] -= inverse[:, :, None] * found
        constant: Influence = (), part[:, 0, 0]
        of_pairs = []
        for (i, j), cells in pairs.items():
            a, b = cells.values
            both = part[:, i + 1, j + 1] + (part[:, j + 1, i + 1] if i != j else 0.0)
            told = np.outer(both, a * b)
            if i == j:
                told += np.outer(part[:, 0, i + 1] + part[:, i + 1, 0], a)
            stretch = cells.stretch(_by_name(self.on, 1 / np.diag(inverse)[1:]))
            of_pairs.append(cells.told(told, stretch))
        influences, moves, crosses = zip(*of_pairs, strict=True)
        return PointEstimates(
            _terms(self.on),
            found,
            np.diag(inverse) * max(rest, 0.0),
            (constant, *influences),
            moves=tuple(chain.from_iterable(moves)),
            crosses=tuple(chain.from_iterable(crosses)),
        )


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """Maximum likelihood of conditions on variables and a constant: the coefficients of the log
    odds that a row meets them, the constant's first."""

    of: Mapping[str, Any]
    on: Sequence[Variable]

    def compute(self, schema: Schema, model: Model, inside: InsideOf = NOTHING) -> PointEstimates:
        cells = cells_of(schema, model, inside, [self.of, *self.on])
        weights, y, raw = cells.weights, cells.values[0], cells.values[1:]
        # In units of each variable's own spread, so that one step length suits all of them.
        centre = raw @ weights / weights.sum()
        spread = np.sqrt((raw - centre[:, None]) ** 2 @ weights / weights.sum())
        x = np.vstack([np.ones(len(weights)), (raw - centre[:, None]) / spread[:, None]])
        beta = np.zeros(len(x))
        for _ in range(NEWTON_STEPS):
            p = 1 / (1 + np.exp(-np.clip(beta @ x, -500, 500)))
            inverse = _inverse((x * (weights * p * (1 - p))) @ x.T)
            step = inverse @ (x * weights) @ (y - p)
            beta = beta + step * min(1.0, 5 / max(float(np.abs(step).max()), 1e-300))
            if np.abs(step).max() < 1e-9:
                break
        else:
            raise UsageError(
                "The variables tell exactly which rows meet the conditions, or nearly, and a "
                "logistic regression has no coefficients then. Leave one out."
            )
        squares = spread**2 / np.diag(_inverse((x * weights) @ x.T))[1:]
        stretch = cells.stretch(_by_name(self.on, squares))
        back = np.diag(np.append(1.0, 1 / spread))
        back[0, 1:] = -centre / spread
        influence = back @ inverse @ (x * (y - p))
        return cells.estimates(_terms(self.on), back @ beta, influence, stretch=stretch)


def _terms(on: Sequence[Variable]) -> tuple[str, ...]:
    return ("constant", *map(_name, on))


def _by_name(variables: Sequence[Variable], numbers: np.ndarray) -> dict[str, float]:
    pairs = zip(variables, numbers.tolist(), strict=True)
    return {variable: number for variable, number in pairs if isinstance(variable, str)}


def _name(variable: Variable) -> str:
    if isinstance(variable, str):
        return variable
    return ", ".join(f"{column} = {value!r}" for column, value in variable.items())


def _column(schema: Schema, variable: Variable) -> Column | None:
    return schema.column(variable) if isinstance(variable, str) else None


def _span_unit(schema: Schema, variable: Variable) -> str:
    """What differences of a variable are counted in, where it must be told."""
    column = _column(schema, variable)
    return "" if column is None else column.span_unit


def _all_have_values(schema: Schema, variables: Sequence[Variable]) -> bool:
    named = [schema.column(v) for v in variables if isinstance(v, str)]
    return all(column.levels == column.regular for column in named)


def _mean(weights: np.ndarray, x: np.ndarray, inside: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean inside a group, and how far one more row would move it."""
    total = weights @ inside
    if total <= 0:
        raise UsageError("The model has no row that meets these conditions. Widen one of them.")
    value = float((weights * inside) @ x / total)
    return value, inside * (x - value) / total


def _inverse(matrix: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.diag(matrix))
    if np.all(scale > 0):
        scaled = matrix / np.outer(scale, scale)
        if np.linalg.cond(scaled) < 1e10:
            return np.linalg.inv(scaled) / np.outer(scale, scale)
    raise UsageError(
        "The variables of this regression are not independent of each other in the model: one is a "
        "constant, or a sum of others. Leave one out."
    )
