"""What cannot occur: `[[zero]]`, `[[order]]` and `[[at_least_one]]`, as cells that are empty.

All three become structural zeros of the model's domain, which its rows and answers never hold; a
mechanism whose family cannot hold zeros refuses them. A row of the private table that breaks such a
rule is counted like any other, in a cell that the model keeps empty: each row's code is a function
of that row alone, so that every sensitivity is what it is without the rule, and nothing tells
whether there was such a row. From public facts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from admeasure.domain import Columns, canonical
from admeasure.errors import SchemaError
from admeasure.schema.column import Column, Part
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.ordered import Ordered
from admeasure.schema.values import quoted

if TYPE_CHECKING:
    from admeasure.schema.model import Schema

MAX_ZERO_CELLS = 10_000_000
MAX_ORDERED = 64
"""Every pair of columns of an order is a structural zero of its own."""
COMPARED_CELLS = 1_000_000
"""Rules that together span at most so many cells are checked for contradicting each other."""


class ZeroEntry(Part):
    """`[[zero]]`: a product of levels that cannot occur."""

    columns: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    where: dict[str, Any]


class OrderEntry(Part):
    """`[[order]]`: columns whose values never descend, in the order in which they are named."""

    columns: Annotated[tuple[str, ...], Field(strict=False, min_length=2)]

    @property
    def called(self) -> str:
        return f"The [[order]] of {', '.join(map(quoted, self.columns))}"


class AtLeastOneEntry(Part):
    """`[[at_least_one]]`: conditions of which every row meets one or more."""

    of: Annotated[dict[str, Any], Field(min_length=1)]

    @property
    def called(self) -> str:
        return f"The [[at_least_one]] of {', '.join(map(quoted, self.of))}"


@dataclass(frozen=True, eq=False)
class Zero:
    """Cells of the marginal on `columns` that cannot occur: True in `mask` is impossible. `rule` is
    the section of the schema that says so."""

    columns: Columns
    mask: np.ndarray
    rule: str = "[[zero]]"


def possible_cells(columns: Columns, shape: Sequence[int], zeros: Iterable[Zero]) -> np.ndarray:
    """The cells of a marginal of that shape that no zero inside it rules out."""
    possible = np.ones(tuple(shape), dtype=bool)
    for zero in zeros:
        if set(zero.columns) <= set(columns):
            held = [n if c in zero.columns else 1 for c, n in zip(columns, shape, strict=True)]
            possible &= ~zero.mask.reshape(held)
    return possible


def zeros_of(schema: Schema) -> tuple[Zero, ...]:
    """The structural zeros of a schema; rules that rule out no cell are left out."""
    found = [_of_zero(schema, entry) for entry in schema.zero]
    found += [_of_pair(schema, *pair) for pair in order_pairs(schema.order)]
    found += [_of_at_least_one(schema, entry) for entry in schema.at_least_one]
    return tuple(zero for zero in found if zero.rule == "[[zero]]" or zero.mask.any())


def problems(schema: Schema) -> list[str]:
    """What contradicts itself in these rules, as whole sentences."""
    rules = [
        *(("A [[zero]]", entry.columns) for entry in schema.zero),
        *((entry.called, entry.columns) for entry in schema.order),
        *((entry.called, tuple(entry.of)) for entry in schema.at_least_one),
    ]
    found = [
        f"{called} {unknown}, or leave out this rule."
        for called, names in rules
        if (unknown := schema.not_yet_known(names))
    ]
    if found:
        return found
    makers = [
        *((_of_zero, (schema, entry)) for entry in schema.zero),
        *((_check_order, (schema, entry)) for entry in schema.order),
        *((_of_at_least_one, (schema, entry)) for entry in schema.at_least_one),
    ]
    for make, given in makers:
        try:
            make(*given)
        except SchemaError as error:
            found.append(str(error))
    if not found:
        found += _together(schema)
    return found


def _together(schema: Schema) -> Iterator[str]:
    """Rules that each leave something, and together nothing."""
    try:
        groups = _connected(zeros_of(schema))
    except SchemaError as error:
        yield str(error)
        return
    for columns, group in groups:
        if schema.domain.cells(columns) > COMPARED_CELLS:
            continue
        if not possible_cells(columns, schema.domain.shape(columns), group).any():
            rules = " and ".join(dict.fromkeys(zero.rule for zero in group))
            yield (
                f"What the schema says by {rules} of {', '.join(map(quoted, columns))} leaves no "
                "possible row. Leave out one of them."
            )


def _connected(zeros: Sequence[Zero]) -> list[tuple[Columns, list[Zero]]]:
    """Zeros in groups that share no column."""
    groups: list[tuple[Columns, list[Zero]]] = []
    for zero in zeros:
        joined = [g for g in groups if set(g[0]) & set(zero.columns)]
        groups = [g for g in groups if g not in joined]
        columns = canonical(c for names in (zero.columns, *(g[0] for g in joined)) for c in names)
        groups.append((columns, [zero, *(z for g in joined for z in g[1])]))
    return groups


def _of_zero(schema: Schema, entry: ZeroEntry) -> Zero:
    if len(set(entry.columns)) < len(entry.columns):
        raise SchemaError("A [[zero]] names a column twice. Name each column once.")
    if set(entry.where) != set(entry.columns):
        raise SchemaError(
            "A [[zero]] has a `where` that does not give each of its columns. "
            "Write one entry of `where` for each entry of `columns`."
        )
    columns, met = schema.conditions_met(entry.where, "A [[zero]]")
    mask = met == len(entry.where)
    if mask.all():
        raise SchemaError(
            "A [[zero]] rules out every combination of its columns. Narrow its `where`."
        )
    return Zero(columns, _frozen(mask))


def _of_at_least_one(schema: Schema, entry: AtLeastOneEntry) -> Zero:
    columns, met = schema.conditions_met(entry.of, entry.called)
    if not met.any():
        raise SchemaError(f"{entry.called} can never hold. Change its conditions.")
    return Zero(columns, _frozen(met == 0), "[[at_least_one]]")


def order_pairs(entries: Sequence[OrderEntry]) -> list[tuple[str, str]]:
    """Every pair (a, b) with a ≤ b by these rules, also by way of others; sorted so that a column
    comes before those it is at most. A circle is a `SchemaError`."""
    above: dict[str, set[str]] = {}
    names = {name for entry in entries for name in entry.columns}
    if len(names) > MAX_ORDERED:
        raise SchemaError(
            f"The [[order]] tables order {len(names)} columns, and at most {MAX_ORDERED} are "
            "handled. Leave some out."
        )
    for entry in entries:
        for i, a in enumerate(entry.columns):
            above.setdefault(a, set()).update(entry.columns[i + 1 :])
    reach = {a: set(bs) for a, bs in above.items()}
    for middle in reach:
        for a in reach:
            if middle in reach[a]:
                reach[a] |= reach[middle]
    circle = sorted(a for a, bs in reach.items() if a in bs)
    if circle:
        raise SchemaError(
            f"The columns {', '.join(map(quoted, circle))} are ordered in a circle. Leave out one "
            "of their [[order]]."
        )
    ranked = sorted(reach, key=lambda a: (-len(reach[a]), a))
    return [(a, b) for a in ranked for b in sorted(reach[a])]


def _check_order(schema: Schema, entry: OrderEntry) -> None:
    """What of an order can be said by itself: names, types, listed missing values."""
    if len(set(entry.columns)) < len(entry.columns):
        raise SchemaError(f"{entry.called} names a column twice. Name each column once.")
    kinds = set()
    for name in entry.columns:
        if name in schema.computed:
            raise SchemaError(
                f"{entry.called} names {quoted(name)}, which is computed from other columns. Order "
                "columns that are described by a [[column]]."
            )
        column = schema.column(name)
        if not isinstance(column, Ordered):
            raise SchemaError(
                f"{entry.called} names {quoted(name)} of type {column.type}, whose values have no "
                "order. Order integers, numbers or dates."
            )
        kinds.add(column.type)
        lows, highs = level_ends(column)
        inside = [m for m in column.missing_read if lows.min() <= m <= highs.max()]
        if inside and (lows < highs).any():
            raise SchemaError(
                f"{entry.called} names {quoted(name)}, whose bins hold a listed missing value. "
                "Give it bounds that leave that value outside, or one level a value."
            )
    if len(kinds) > 1:
        raise SchemaError(
            f"{entry.called} compares columns of the types {' and '.join(sorted(kinds))}. Give all "
            "of them one type."
        )


def _of_pair(schema: Schema, a: str, b: str) -> Zero:
    """a ≤ b: a level of a and one of b are impossible together if every value of the first is above
    every value of the second. `other` and `missing` are compared with nothing."""
    columns = canonical((a, b))
    if schema.domain.cells(columns) > MAX_ZERO_CELLS:
        raise SchemaError(
            f"The [[order]] of {quoted(a)} and {quoted(b)} spans more than {MAX_ZERO_CELLS:,} "
            "cells. Use fewer bins."
        )
    first, second = schema.column(a), schema.column(b)
    impossible = level_ends(first)[0][:, None] > level_ends(second)[1][None, :]
    if impossible.all():
        raise SchemaError(
            f"The [[order]] of {quoted(a)} and {quoted(b)} can never hold: every value of the "
            "first is above every value of the second. Correct their bounds, or the order."
        )
    mask = np.zeros((first.levels, second.levels), dtype=bool)
    mask[: first.regular, : second.regular] = impossible
    return Zero(columns, _frozen(mask if columns == (a, b) else mask.T), "[[order]]")


def level_ends(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each regular level, as the grid's numbers."""
    grid = column.grid
    if isinstance(grid, OrdinalGrid):
        return grid.starts, grid.ends
    if isinstance(grid, RealGrid):
        # The last double before the next bin.
        return grid.starts, np.append(np.nextafter(grid.starts[1:], -np.inf), grid.high)
    listed = np.array(column.listed)
    return listed, listed


def _frozen(mask: np.ndarray) -> np.ndarray:
    mask = np.ascontiguousarray(mask)
    mask.flags.writeable = False
    return mask
