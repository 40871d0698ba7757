"""What a query is, and the few rules that every kind of query shares.

A query is a frozen value: two queries are the same when they ask the same. It reads one marginal
(`columns`, in alphabetical order), answers by a linear map of that marginal's counts, and knows
how far one person can move the answer. Nothing here reads a table.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from operator import index, lt
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from admeasure.domain import Columns, Domain
from admeasure.errors import WorkloadError
from admeasure.queries.sensitivity import Sensitivity, of_one_count
from admeasure.unit import Unit

T = TypeVar("T")


@runtime_checkable
class Query(Protocol):
    """A linear map of one marginal."""

    @property
    def columns(self) -> Columns:
        """The marginal that is read, in alphabetical order."""
        ...

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """The shape of the answer; `()` for a single number."""
        ...

    def answer(self, counts: np.ndarray) -> np.ndarray:
        """The answer from the counts (or a model's estimates) of the marginal on `columns`.

        Whole numbers in, whole numbers out, exactly: integer counts are summed in int64.
        """
        ...

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        """The transposed map: to each cell of the marginal the sum of the values it counts in."""
        ...

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        """How far the answer can move between neighbouring tables."""
        ...

    def validate(self, domain: Domain) -> None:
        """Raise `WorkloadError` unless every column and code of the query is in the domain."""
        ...


class WorkloadQuery(Query, Protocol):
    """A query that a workload may hold: one count for each cell of its columns."""

    def cell(self, codes: Sequence[int]) -> Query:
        """The query of one of these counts."""
        ...


@runtime_checkable
class Targets(WorkloadQuery, Protocol):
    """For each cell of the columns, its target: how many rows agree with it in at least so many
    columns. What a model of product distributions answers in one pass."""

    @property
    def at_least(self) -> int: ...


class PerCell:
    """What queries with a number for each cell of their columns share."""

    columns: Columns

    def shape(self, domain: Domain) -> tuple[int, ...]:
        return domain.shape(self.columns)

    def validate(self, domain: Domain) -> None:
        check_columns(self.columns, domain)


class OneCount:
    """What queries for one number share: a row counts in it, or does not."""

    def shape(self, domain: Domain) -> tuple[int, ...]:
        return ()

    def sensitivity(self, domain: Domain, unit: Unit) -> Sensitivity:
        """(m, m², m) under both relations."""
        return of_one_count(unit)


class Conditions(OneCount):
    """What counts of the rows that meet conditions, one on each column, share."""

    columns: Columns

    @property
    def requirement(self) -> tuple[Sequence[Sequence[int]], int]:
        """For each column the codes that meet its condition, and how many a row must meet."""
        raise NotImplementedError

    def spread(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        sets, at_least = self.requirement
        return (conditions_met(sets, domain.shape(self.columns)) >= at_least) * values

    def validate(self, domain: Domain) -> None:
        check_codes(self.columns, self.requirement[0], domain)


def arrange(columns: Iterable[str], *parallel: Sequence[T]) -> tuple[Columns, list[tuple[T, ...]]]:
    """Columns in alphabetical order, and what was given for each column in the same order.

    >>> arrange(["sex", "age"], [1, 30])
    (('age', 'sex'), [(30, 1)])
    """
    if isinstance(columns, str):
        raise WorkloadError(f"A query needs a list of columns, not the text {columns!r}.")
    names = tuple(columns)
    if not parallel and {*map(type, names)} <= {str} and all(map(lt, names, names[1:])):
        return names, []
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise WorkloadError(f"A column is named by a text, not by {type(unnamed[0]).__name__}.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise WorkloadError(f"Column {repeated[0]!r} is named twice in one query. Name it once.")
    for values in parallel:
        if len(values) != len(names):
            raise WorkloadError(
                f"A query on {len(names)} columns needs {len(names)} targets, not {len(values)}."
            )
    order = sorted(range(len(names)), key=names.__getitem__)
    return tuple(names[i] for i in order), [tuple(values[i] for i in order) for values in parallel]


def level_set(codes: Iterable[Any]) -> tuple[int, ...]:
    """A set of codes in the one way to write it; at least one code."""
    levels = tuple(sorted({index(code) for code in codes}))
    if not levels:
        raise WorkloadError("A condition on a column needs at least one value.")
    return levels


def conditions(columns: Columns, codes: Iterable[Sequence[int]]) -> str:
    """Conditions in words, by code.

    >>> conditions(("age", "sex"), [(1, 2), (0,)])
    '(age in 1, 2; sex in 0)'
    """
    parts = (
        f"{column} in {', '.join(map(str, levels))}"
        for column, levels in zip(columns, codes, strict=True)
    )
    return f"({'; '.join(parts)})"


def check_at_least(at_least: int, columns: int) -> None:
    if not 1 <= at_least <= columns:
        raise WorkloadError(
            f"at_least = {at_least} with {columns} columns: it must be from 1 to the number of "
            "columns."
        )


def check_columns(columns: Columns, domain: Domain) -> None:
    for column in columns:
        if column in domain.stand_ins:
            decided = ", ".join(map(repr, domain.standing_in([column])))
            raise WorkloadError(
                f"Column {column!r} is computed from {decided} and in no model. Name what it is "
                "computed from."
            )
        if column not in domain:
            raise WorkloadError(unknown_column(column, domain.columns))


def check_codes(columns: Columns, codes: Iterable[Iterable[int]], domain: Domain) -> None:
    check_columns(columns, domain)
    for column, levels in zip(columns, codes, strict=True):
        outside = [code for code in levels if not 0 <= code < domain[column]]
        if outside:
            raise WorkloadError(
                f"Code {outside[0]} is not a level of column {column!r}: its codes are 0 to "
                f"{domain[column] - 1}."
            )


def unknown_column(column: str, known: Sequence[str]) -> str:
    """The message for a column that the schema does not have, with the nearest names.

    >>> unknown_column("agee", ["age", "sex"])
    "There is no column 'agee' in the schema. Did you mean 'age'?"
    """
    return f"There is no column {column!r} in the schema. {suggest(column, known)}"


def suggest(name: str, known: Sequence[str], *, most: int = 12) -> str:
    """The nearest known names, or all of them where none is near."""
    # Case is what people get wrong most, and difflib counts it as a whole wrong letter.
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(repr(folded[key]) for key in near)}?"
    shown = ", ".join(repr(other) for other in known[:most])
    return f"It has {shown}{', …' if len(known) > most else ''}." if known else "It has none."


def as_counts(counts: np.ndarray, axes: int) -> np.ndarray:
    """The array to work on: int64 for whole numbers, float64 for a model's estimates."""
    array = np.asarray(counts)
    if array.ndim != axes:
        raise ValueError(f"a marginal of {axes} columns has {axes} axes, this array {array.ndim}")
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64, copy=False)


def conditions_met(codes: Sequence[Sequence[int]], shape: tuple[int, ...]) -> np.ndarray:
    """For each cell, in how many columns its code is one of those given."""
    met = np.zeros(shape, dtype=np.int64)
    for axis, levels in enumerate(codes):
        held = np.zeros(shape[axis], dtype=np.int64)
        held[list(levels)] = 1
        met += held.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return met
