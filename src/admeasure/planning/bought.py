"""A domain that is bought: charged steps decide it, and the mechanism runs on what they found.

A column is open where its levels are still to be found. There are kinds of such columns
(`PRIVATE`), side by side in one schema: each takes a share of the budget, and of delta where its
step may fail, and buys one column after the other through the curator. The mechanism has the rest,
and a curator that sees the found levels and nothing finer. What a run asks for before they are
known (workload, mechanism, memory, plan) is checked with the most levels that a column can come to
have, which the open column itself says (`Column.levels`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from admeasure.domain import Domain
from admeasure.planning import certified
from admeasure.planning.bins import PrivateBins
from admeasure.planning.categories import PrivateCategories
from admeasure.planning.division import Item, Task
from admeasure.planning.groups import PrivateGroups
from admeasure.planning.mechanism import Mechanism, Outcome, measures_all_columns
from admeasure.planning.purchase import Purchase
from admeasure.privacy.cost import Cost, budget_of, in_decimal
from admeasure.privacy.curator import Curator
from admeasure.schema import Column, Schema
from admeasure.workload import Workload


class Private(Protocol):
    """One kind of open columns. What a table is read by before is the column's own affair
    (`Column.as_read`)."""

    @property
    def share(self) -> Fraction:
        """Of the budget, for all columns of the kind together."""
        ...

    @property
    def delta_share(self) -> Fraction:
        """Of the guarantee's delta, for all of them together; 0 where buying cannot fail."""
        ...

    @property
    def note(self) -> str:
        """What the certificate says of the columns of these `{names}`."""
        ...

    def sells(self, column: Column) -> bool:
        """Whether an open column is of this kind."""
        ...

    def item(self, column: Column, schema: Schema, cost: Cost) -> Item:
        """What `cost` would buy for the column: touches no data."""
        ...

    def foreseen(self, schema: Schema, items: Sequence[Item], likely: Mapping[str, int]) -> str:
        """What a plan should say of the kind's columns, whose items and `likely` levels these are;
        the latter where the number of rows is known."""
        ...

    def likely(self, column: Column, schema: Schema, budget: Cost, item: Item, rows: int) -> int:
        """About how many regular levels the column will have in a table of so many rows: what a
        plan counts with."""
        ...

    def buy(self, curator: Curator, column: Column, cost: Cost) -> Purchase:
        """The column with its levels, bought for `cost`. The curator's source reads the table by
        `schema.as_read`."""
        ...


PRIVATE: tuple[Private, ...] = (PrivateBins(), PrivateGroups(), PrivateCategories())


UNASKED = (
    "Columns that no question is about ({names}) have as few levels as the schema allows; none are "
    "bought."
)


def asked(schema: Schema, workload: Workload, mechanism: Mechanism) -> Schema:
    """The schema without open columns that the run would learn nothing more of: nothing is bought
    for those that no question is about. Schema, workload and mechanism decide which, all public."""
    if measures_all_columns(mechanism):
        return schema
    left = (c for c in schema.open_columns if c.name not in workload.columns)
    return schema.with_columns({c.name: c.unasked() for c in left})


def left_out(given: Schema, asked: Schema) -> tuple[str, ...]:
    """What a plan and a certificate should say of columns that nothing is bought for."""
    open_yet = {c.name for c in asked.open_columns}
    names = ", ".join(c.name for c in given.open_columns if c.name not in open_yet)
    return (UNASKED.format(names=names),) if names else ()


def budget(schema: Schema, epsilon: float, delta: float) -> Cost:
    """The budget of (epsilon, delta), with the share of delta that the open columns need."""
    needed = sum((kind.delta_share for kind, _ in _open(schema)), Fraction(0))
    return budget_of(epsilon, delta, needed * in_decimal(delta) if needed else 0)


def divide(schema: Schema, budget: Cost) -> tuple[tuple[Item, ...], Cost]:
    """An item for each column that is bought, and what that leaves for the mechanism."""
    items = [item for _, _, item in _purchases(schema, budget)]
    left = budget
    for item in items:
        left -= item.total
    return tuple(items), left


def foreseen(schema: Schema, budget: Cost, rows: int | None) -> tuple[str, ...]:
    """What a plan should say of what is bought."""
    said = []
    for kind, _ in _open(schema):
        found = [(c, item) for one, c, item in _purchases(schema, budget) if one is kind]
        likely = {c.name: kind.likely(c, schema, budget, item, rows) for c, item in found if rows}
        said.append(kind.foreseen(schema, [item for _, item in found], likely))
    return tuple(said)


def likely_domain(schema: Schema, budget: Cost, rows: int | None) -> Domain:
    """The domain that a run will about come to have; without a number of rows the largest."""
    if not rows:
        return schema.domain
    found = {
        c.name: c.levels - c.regular + kind.likely(c, schema, budget, item, rows)
        for kind, c, item in _purchases(schema, budget)
    }
    levels = {name: found.get(name, schema.domain[name]) for name in schema.domain.columns}
    return Domain.of(levels, stand_ins=schema.domain.stand_ins)


def run(
    mechanism: Mechanism,
    curator: Curator,
    workload: Workload,
    schema: Schema,
    certify: Fraction = certified.NONE,
) -> tuple[Schema, Outcome]:
    """Buy what is open of the schema, then run the mechanism, and of what that leaves buy the share
    `certify` of a certificate; the schema of its outcome.

    The curator's source reads the table by `schema.as_read`.
    """
    if not schema.open_columns:
        return schema, certified.run(mechanism, Task.of(schema, workload), curator, certify)
    purchases = find(curator, schema)
    found = schema.with_columns({name: made.column for name, made in purchases.items()})
    known = [made.known for made in purchases.values() if made.known is not None]
    recoded = curator.recoded(found, known)
    outcome = certified.run(mechanism, Task.of(found, workload), recoded, certify)
    inside = {n: made.inside for n, made in purchases.items() if made.inside is not None}
    notes = (
        kind.note.format(names=", ".join(c.name for c in columns))
        for kind, columns in _open(schema)
    )
    return found, replace(outcome, notes=(*outcome.notes, *notes), inside=inside)


def find(curator: Curator, schema: Schema) -> dict[str, Purchase]:
    """The open columns with their levels, each bought for its share."""
    return {
        column.name: kind.buy(curator, column, item.cost)
        for kind, column, item in list(_purchases(schema, curator.budget))
    }


def _open(schema: Schema) -> Iterator[tuple[Private, tuple[Column, ...]]]:
    """The kinds that the schema has open columns of, with these."""
    for kind in PRIVATE:
        columns = tuple(c for c in schema.open_columns if kind.sells(c))
        if columns:
            yield kind, columns


def _purchases(schema: Schema, budget: Cost) -> Iterator[tuple[Private, Column, Item]]:
    """Every column that is bought, with what it gets: an even part of its kind's shares."""
    smooth, kinds = budget.without_delta, list(_open(schema))
    failing = sum((kind.delta_share for kind, _ in kinds), Fraction(0))
    for kind, columns in kinds:
        cost = smooth * kind.share
        if kind.delta_share:
            cost += (budget - smooth) * (kind.delta_share / failing)
        for column in columns:
            yield kind, column, kind.item(column, schema, cost / len(columns))
