"""Means, sums and quantiles of a column, as questions to a release.

    [[query]]
    name = "mean age of women"
    mean = "age"
    where = {sex = "Female"}        # may be left out

    [[query]]
    name = "what nine of ten earn at most"
    quantile = {income = 0.9}       # or median = "income", sum = "income"

The rows that are asked about meet every condition and have a value: `missing` and `other` are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from admeasure.errors import UsageError, WorkloadError
from admeasure.queries.query import suggest

if TYPE_CHECKING:
    from admeasure.schema import Schema
    from admeasure.schema.column import Column

StatisticKind = Literal["mean", "sum", "quantile"]
KEYS = ("mean", "sum", "median", "quantile")
"""What a query file may ask for besides counts."""


@dataclass(frozen=True)
class ColumnStatistic:
    """A mean, a sum or a quantile of the values of a column. The quantile `at` q is the least value
    that at least the share q of the rows do not pass."""

    kind: StatisticKind
    column: str
    at: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        if (self.at is not None) != (self.kind == "quantile"):
            raise UsageError("A quantile needs the share that it is of, and nothing else does.")
        if self.at is not None and not 0 < self.at < 1:
            raise UsageError(
                f"A quantile is at a share between 0 and 1, such as 0.9; this is at {self.at}."
            )

    def __str__(self) -> str:
        what = "median" if self.at == 0.5 else f"{self.at:g} quantile" if self.at else self.kind
        met = ", ".join(f"{column} = {value!r}" for column, value in self.where.items())
        return self.name or f"{what} of {self.column}" + (f" where {met}" if met else "")

    def of(self, schema: Schema) -> Column:
        """The column, or an error where it has no such statistic."""
        column = schema.column(self.column)
        if not column.has_numbers:
            raise WorkloadError(
                f"Column {self.column!r} is of type {column.type}, which has no {self.kind}. Ask "
                "for counts."
            )
        if self.kind == "sum" and column.holds_days:
            raise WorkloadError(
                f"Column {self.column!r} holds dates, which have no sum. Ask for a mean or a "
                "quantile."
            )
        return column


def statistic_of(table: Mapping[str, Any], name: str) -> ColumnStatistic:
    """The statistic of a table of a query file."""
    asked = [key for key in KEYS if key in table]
    for key in table:
        if key not in ("name", "where", *KEYS):
            raise WorkloadError(f"there is no key {key!r}. {suggest(key, ('where', *KEYS))}")
    if len(asked) > 1:
        raise WorkloadError(f"it asks for {' and '.join(asked)}. Write a [[query]] for each.")
    key, where = asked[0], table.get("where", {})
    if not isinstance(where, dict):
        raise WorkloadError("where must be a table of conditions, `where = {column = value}`.")
    given = table[key]
    if key == "quantile":
        if not isinstance(given, dict) or len(given) != 1:
            raise WorkloadError("quantile must be one column with a share: `{income = 0.9}`.")
        ((column, at),) = given.items()
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at < 1:
            raise WorkloadError(f"the share of a quantile lies between 0 and 1; it is {at!r}.")
        return ColumnStatistic("quantile", column, float(at), where, name)
    if not isinstance(given, str):
        raise WorkloadError(f"{key} must be the name of a column, not {given!r}.")
    if key == "median":
        return ColumnStatistic("quantile", given, 0.5, where, name)
    return ColumnStatistic("mean" if key == "mean" else "sum", given, None, where, name)
