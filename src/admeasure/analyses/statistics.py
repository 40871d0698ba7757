"""Statistics of a model's rows: values, and how far a sample of rows would move them.

A variable is the name of a column of numbers or days, each value put at the middle of its level, or
conditions as those of `answer`: 1 where a row meets them all and 0 where not. Rows in which a
variable has no value (`missing`, `other`) are left out.

A statistic that solves Σ ψ(row) = 0 with slope A moves by A⁻¹ ψ(row) where one row is added, its
*influence*, a function of the row's cell. The variance from sampling is that of as many independent
rows as the model has, A⁻¹ B A⁻ᵀ with B the sum of ψψᵀ (Huber 1967). A regression on more columns
than fit one table knows the moments of pairs alone: its influence is a sum over pairs, and it takes
the spread of its errors to be the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np

from admeasure.domain import Columns
from admeasure.errors import ResourceError, UsageError
from admeasure.families import Model
from admeasure.schema import Schema
from admeasure.schema.determined import lifted
from admeasure.schema.ordered import Ordered
from admeasure.schema.zeros import level_ends
from admeasure.workload.questions import written_conditions

Variable = str | Mapping[str, Any]
"""The name of a column, or conditions."""

MOST_CELLS = 1 << 20
"""Of the columns of a statistic together."""
NEWTON_STEPS = 50


Influence = tuple[Columns, np.ndarray]
"""A function of the cells of these columns for each value of a statistic: axis 0 is the value."""


@dataclass(frozen=True, eq=False)
class PointEstimates:
    """Values of a statistic by name, their variances from sampling, and how far a row of each cell
    would move them: the sum of the functions in `influence`. Whatever the rows, the values lie
    between the two of `within`."""

    names: tuple[str, ...]
    values: np.ndarray
    sampling: np.ndarray
    influence: tuple[Influence, ...]
    within: tuple[float, float] = (-math.inf, math.inf)


class Analysis(Protocol):
    """A statistic of the rows of a table."""

    def compute(self, schema: Schema, model: Model) -> PointEstimates: ...


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a variable over the rows that meet `where`; of conditions, the proportion."""

    variable: Variable
    where: Mapping[str, Any] = field(default_factory=dict)

    def compute(self, schema: Schema, model: Model) -> PointEstimates:
        cells = _cells(schema, model, [self.variable], [self.where])
        (x,), (inside,) = cells.values, cells.inside
        value, influence = _mean(cells.weights, x, inside)
        ends = float(x.min()), float(x.max())
        return cells.estimates((_name(self.variable),), [value], influence[None], ends)


@dataclass(frozen=True, eq=False)
class MeanDifference:
    """The mean of a variable over the rows of one group less that over the rows of another."""

    variable: Variable
    group: Mapping[str, Any]
    other: Mapping[str, Any]

    def compute(self, schema: Schema, model: Model) -> PointEstimates:
        cells = _cells(schema, model, [self.variable], [self.group, self.other])
        (x,) = cells.values
        (a, of_a), (b, of_b) = (_mean(cells.weights, x, inside) for inside in cells.inside)
        return cells.estimates((_name(self.variable),), [a - b], (of_a - of_b)[None])


@dataclass(frozen=True, eq=False)
class Correlation:
    """Pearson's correlation of two variables."""

    one: Variable
    two: Variable
    where: Mapping[str, Any] = field(default_factory=dict)

    def compute(self, schema: Schema, model: Model) -> PointEstimates:
        cells = _cells(schema, model, [self.one, self.two], [self.where])
        x, (inside,) = cells.values, cells.inside
        w = cells.weights * inside
        total = w.sum()
        z = x - (x @ w / total)[:, None]
        spread = np.sqrt(z**2 @ w / total)
        if not np.all(spread > 0):
            raise UsageError("A variable has one value only in these rows, and no correlation.")
        z = z / spread[:, None]
        r = float((z[0] * z[1]) @ w / total)
        influence = inside * (z[0] * z[1] - r * (z**2).sum(axis=0) / 2) / total
        name = f"{_name(self.one)}, {_name(self.two)}"
        return cells.estimates((name,), [r], influence[None], (-1.0, 1.0))


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """Least squares of a variable on others and a constant: their coefficients, the constant's
    first."""

    of: Variable
    on: Sequence[Variable]

    def compute(self, schema: Schema, model: Model) -> PointEstimates:
        variables = [self.of, *self.on]
        whole = schema.domain.cells(_columns(schema, variables, [])) <= MOST_CELLS
        if not whole and _all_have_values(schema, variables):
            return self._of_pairs(schema, model)
        cells = _cells(schema, model, variables, [])
        weights, y = cells.weights, cells.values[0]
        x = np.vstack([np.ones(len(weights)), cells.values[1:]])
        inverse = _inverse((x * weights) @ x.T)
        found = inverse @ (x * weights) @ y
        return cells.estimates(_terms(self.on), found, inverse @ (x * (y - found @ x)))

    def _of_pairs(self, schema: Schema, model: Model) -> PointEstimates:
        variables = [self.of, *self.on]
        count = len(variables)
        # Of pairs of variables; a pair of one variable stands for itself too.
        pairs = {
            (i, j): _cells(schema, model, [variables[i], variables[j]], [])
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
        influence: list[Influence] = [((), part[:, 0, 0])]
        for (i, j), cells in pairs.items():
            a, b = cells.values
            both = part[:, i + 1, j + 1] + (part[:, j + 1, i + 1] if i != j else 0.0)
            told = np.outer(both, a * b)
            if i == j:
                told += np.outer(part[:, 0, i + 1] + part[:, i + 1, 0], a)
            influence.append((cells.columns, cells.spread(told)))
        variance = np.diag(inverse) * max(rest, 0.0)
        return PointEstimates(_terms(self.on), found, variance, tuple(influence))


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """Maximum likelihood of conditions on variables and a constant: the coefficients of the log
    odds that a row meets them, the constant's first."""

    of: Mapping[str, Any]
    on: Sequence[Variable]

    def compute(self, schema: Schema, model: Model) -> PointEstimates:
        cells = _cells(schema, model, [self.of, *self.on], [])
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
        back = np.diag(np.append(1.0, 1 / spread))
        back[0, 1:] = -centre / spread
        return cells.estimates(_terms(self.on), back @ beta, back @ inverse @ (x * (y - p)))


def _terms(on: Sequence[Variable]) -> tuple[str, ...]:
    return ("constant", *map(_name, on))


def _name(variable: Variable) -> str:
    if isinstance(variable, str):
        return variable
    return ", ".join(f"{column} = {value!r}" for column, value in variable.items())


def _names(variable: Variable) -> list[str]:
    return [variable] if isinstance(variable, str) else list(variable)


def _columns(
    schema: Schema, variables: Sequence[Variable], groups: Sequence[Mapping[str, Any]]
) -> Columns:
    """The model's columns that decide the variables and the groups."""
    names = [name for v in (*variables, *groups) for name in _names(v)]
    for name in names:
        schema.column(name)  # a column that is not there is told here
    return schema.modelled(dict.fromkeys(names))


def _all_have_values(schema: Schema, variables: Sequence[Variable]) -> bool:
    named = [schema.column(v) for v in variables if isinstance(v, str)]
    return all(column.levels == column.regular for column in named)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells in which all variables have a value: rows in them, the variables' values, and for each
    group whether they are inside. `kept` says which they are of all cells of the columns."""

    columns: Columns
    kept: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    inside: np.ndarray

    def spread(self, found: np.ndarray) -> np.ndarray:
        """Over all cells of the columns: a row without a value moves nothing."""
        whole = np.zeros((len(found), *self.kept.shape))
        whole[:, self.kept] = found
        return whole

    def estimates(
        self,
        names: tuple[str, ...],
        values: Sequence[float] | np.ndarray,
        influence: np.ndarray,
        within: tuple[float, float] = (-math.inf, math.inf),
    ) -> PointEstimates:
        sampling = influence**2 @ self.weights
        told = ((self.columns, self.spread(influence)),)
        return PointEstimates(names, np.asarray(values, dtype=float), sampling, told, within)


def _cells(
    schema: Schema,
    model: Model,
    variables: Sequence[Variable],
    groups: Sequence[Mapping[str, Any]],
) -> _Cells:
    columns = _columns(schema, variables, groups)
    if schema.domain.cells(columns) > MOST_CELLS:
        raise ResourceError(
            f"The columns {', '.join(columns)} have more than {MOST_CELLS:,} cells together. Name "
            "fewer of them, or use fewer bins."
        )
    (table,) = model.marginals([columns])
    values = np.array([_values(schema, v, columns, table.shape) for v in variables])
    inside = [_met(schema, group, columns) if group else np.ones(table.shape) for group in groups]
    kept = np.asarray(np.isfinite(values).all(axis=0))
    weights = np.maximum(table[kept], 0.0)
    return _Cells(columns, kept, weights, values[:, kept], np.array([i[kept] for i in inside]))


def _values(
    schema: Schema, variable: Variable, columns: Columns, shape: tuple[int, ...]
) -> np.ndarray:
    if not isinstance(variable, str):
        return _met(schema, variable, columns)
    column = schema.column(variable)
    if isinstance(column, Ordered) and column.is_endless:
        raise UsageError(
            f"Column {variable!r} has no bounds: a few of its values could be anything, and so "
            "could every mean. Give it `minimum` and `maximum` in the schema and fit again; a "
            "quantile (`admeasure answer --median`) needs none."
        )
    if column.type not in ("integer", "number", "date"):
        raise UsageError(
            f"Column {variable!r} is of type {column.type} and has no numbers. Name conditions "
            f"instead, such as {{{variable!r}: …}}: 1 where they are met, else 0."
        )
    lows, highs = level_ends(column)
    levels = np.full(column.levels, np.nan)
    levels[: column.regular] = (lows.astype(float) + highs.astype(float)) / 2
    return levels[np.broadcast_to(lifted(schema, variable, columns, schema.computed), shape)]


def _met(schema: Schema, conditions: Mapping[str, Any], columns: Columns) -> np.ndarray:
    written = written_conditions(conditions)
    _, met = schema.conditions_met(written, "A statistic", also=columns)
    return (met == len(written)).astype(float)


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
