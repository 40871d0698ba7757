"""`[[determines]]`: columns that are a public function of others, and are computed back from them.

A diagnosis code determines its group, a town its district. Such a column is not read, not modelled
and costs nothing: rows get its value from the function, and a question about it is a question about
the columns that determine it. So the relation holds exactly, in rows and in answers, whatever the
mechanism. Nothing here reads the private table; a row of it that contradicts the function counts by
its determining columns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, WithJsonSchema

from admeasure.domain import Columns, canonical
from admeasure.errors import SchemaError
from admeasure.schema.categorical import StringColumn
from admeasure.schema.column import Column, Part
from admeasure.schema.ordered import IntegerColumn
from admeasure.schema.values import quoted

if TYPE_CHECKING:
    from admeasure.schema.model import Schema

MAX_CELLS = 1_000_000
NOT_PUBLIC = (
    "Add `map = {…}` or `table = …`, the function as a codebook has it. A function that is not "
    "public cannot hold exactly: leave out the [[determines]], describe the column as any other, "
    "and put both columns into one marginal of the workload"
)


class DeterminesEntry(Part):
    """`[[determines]]`: a column that is a public function of others."""

    model_config = ConfigDict(populate_by_name=True)

    of: Annotated[tuple[str, ...], Field(strict=False, min_length=1, alias="from")]
    to: Annotated[str, Field(min_length=1)]
    map: Annotated[
        dict[str, Any] | None, Field(description="The value of `to` for each value of `from`.")
    ] = None
    table: Annotated[
        tuple[Annotated[tuple[Any, ...], Field(strict=False)], ...] | None,
        Field(strict=False),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "array", "items": {"type": "array"}},
                    {"type": "string", "description": "A CSV file with these columns."},
                ],
                "description": "Rows: selections of the columns of `from`, then the value of `to`.",
            }
        ),
    ] = None
    otherwise: Annotated[
        str | int | None, Field(description="The value of `to` for all that is not listed.")
    ] = None

    @property
    def called(self) -> str:
        return f"The [[determines]] of {quoted(self.to)}"

    @property
    def rows(self) -> list[tuple[tuple[Any, ...], Any]]:
        """The function: what is selected of each column of `from`, and the value of `to`."""
        if self.map is not None:
            return [((key,), value) for key, value in self.map.items()]
        return [(row[:-1], row[-1]) for row in self.table or ()]

    def problems(self) -> Iterator[str]:
        """What contradicts itself within the entry, as whole sentences."""
        if (self.map is None) == (self.table is None):
            yield (
                f"{self.called} has no function. {NOT_PUBLIC}."
                if self.map is None
                else f"{self.called} has both a map and a table. Keep one of them."
            )
        if len(set(self.of)) < len(self.of) or self.to in self.of:
            yield f"{self.called} names a column twice. Name each column once."
        if self.map is not None and len(self.of) != 1:
            yield f"{self.called} has a map of {len(self.of)} columns. Write it as a `table`."
        if any(len(row) != len(self.of) + 1 for row in self.table or ()):
            yield (
                f"{self.called} has a row in its table that is not as long as its columns. Write "
                "a value for each column of `from`, then that of `to`."
            )

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of `to`, in the order in which they are first listed."""
        listed = [value for _, value in self.rows]
        listed += [] if self.otherwise is None else [self.otherwise]
        texts = all(isinstance(v, str) for v in listed)
        if not texts and not all(type(v) is int for v in listed):
            raise SchemaError(
                f"{self.called} has values of `to` that are neither all texts nor all whole "
                "numbers. Write them in one way."
            )
        return tuple(dict.fromkeys(listed))

    def column(self, *, has_missing: bool) -> Column:
        """What is determined, as a column."""
        values, missing = self.values, () if has_missing else None
        kind, word = (
            (IntegerColumn, "integer") if type(values[0]) is int else (StringColumn, "string")
        )
        return kind.model_validate(
            {"name": self.to, "type": word, "enum": values, "missing_values": missing}
        )


@dataclass(frozen=True, eq=False)
class Computed:
    """A column that is a function of columns of the model: `codes` has its code for each cell of
    the marginal on `of`."""

    column: Column
    of: Columns
    codes: np.ndarray

    def of_rows(self, codes: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its codes in rows that have those of the model's columns."""
        places = tuple(np.asarray(codes[c]).astype(np.int64) for c in self.of)
        return self.codes[places].astype(np.int64)


def computed(schema: Schema) -> dict[str, Computed]:
    """Every determined column of a schema, in the order in which they can be computed."""
    found: dict[str, Computed] = {}
    left = list(schema.determines)
    names = {entry.to for entry in left}
    while left:
        ready = [e for e in left if not set(e.of) & names - found.keys()]
        if not ready:
            called = ", ".join(quoted(e.to) for e in left)
            raise SchemaError(
                f"The columns {called} determine each other in a circle. Leave out one of their "
                "[[determines]], and describe its column as any other."
            )
        for entry in ready:
            found[entry.to] = _computed(schema, entry, found)
            left.remove(entry)
    return found


def _computed(schema: Schema, entry: DeterminesEntry, known: Mapping[str, Computed]) -> Computed:
    columns = [known[c].column if c in known else schema.column(c) for c in entry.of]
    of = canonical(s for c in entry.of for s in (known[c].of if c in known else (c,)))
    shape = tuple(c.levels for c in columns)
    if max(schema.domain.cells(of), int(np.prod(shape, dtype=object))) > MAX_CELLS:
        raise SchemaError(
            f"{entry.called} spans more than {MAX_CELLS:,} cells. Name fewer columns in `from`, or "
            "use fewer bins."
        )
    codes = _listed(entry, columns, shape)
    if entry.otherwise is not None:
        codes = np.where(codes < 0, entry.values.index(entry.otherwise), codes)
    _refuse_gaps(entry, columns, codes)
    column = entry.column(has_missing=bool((codes < 0).any()))
    codes = np.where(codes < 0, column.levels - 1, codes)
    # From the levels of `from` to the model's: each column of `from` has a code in each cell.
    axes = [lifted(schema, name, of, known) for name in entry.of]
    made = codes[tuple(np.broadcast_arrays(*axes))].astype(column.dtype)
    made.flags.writeable = False
    return Computed(column, of, made)


def _listed(
    entry: DeterminesEntry, columns: Sequence[Column], shape: tuple[int, ...]
) -> np.ndarray:
    """The code of `to` in each combination that is listed, -1 in the others."""
    place = {value: code for code, value in enumerate(entry.values)}
    codes = np.full(shape, -1, dtype=np.int64)
    for selections, value in entry.rows:
        chosen = np.ix_(*(c.codes_of(s) for c, s in zip(columns, selections, strict=True)))
        if ((codes[chosen] >= 0) & (codes[chosen] != place[value])).any():
            raise SchemaError(
                f"{entry.called} gives two values for the same {_words(selections)}. Keep one."
            )
        codes[chosen] = place[value]
    return codes


def _words(selections: Sequence[Any]) -> str:
    return ", ".join(quoted(s) for s in selections)


def _refuse_gaps(entry: DeterminesEntry, columns: Sequence[Column], codes: np.ndarray) -> None:
    """`other` and `missing` need not be listed: what they determine is missing."""
    inside = codes[tuple(slice(0, c.regular) for c in columns)]
    gaps = np.argwhere(inside < 0)
    if len(gaps):
        labels = [c.labels[int(code)] for c, code in zip(columns, gaps[0], strict=True)]
        raise SchemaError(
            f"{entry.called} does not say what {_words(labels)} determines. List it, or add "
            "`otherwise = …`."
        )


def lifted(
    schema: Schema, name: str, columns: Columns, known: Mapping[str, Computed]
) -> np.ndarray:
    """The code of a column in each cell of a marginal of the model that decides it, with axes of
    length one where a column of the marginal plays no part."""
    of, codes = (known[name].of, known[name].codes) if name in known else ((name,), None)
    if codes is None:
        codes = np.arange(schema.domain[name])
    return codes.reshape([schema.domain[c] if c in of else 1 for c in columns])


def problems(schema: Schema) -> list[str]:
    """What contradicts itself in the `[[determines]]`, as whole sentences."""
    found = [line for entry in schema.determines for line in entry.problems()]
    unit = schema.privacy.unit_column
    seen = {name.casefold(): "[[column]]" for name in schema.names}
    seen |= {} if unit is None else {unit.casefold(): "unit_column"}
    folded = [entry.to.casefold() for entry in schema.determines]
    for entry in schema.determines:
        there = seen.setdefault(entry.to.casefold(), "[[determines]]")
        if there == "[[column]]":
            found.append(
                f"Column {quoted(entry.to)} is both described and determined. Remove its "
                "[[column]]: its levels are the values of the function."
            )
        elif there == "unit_column" or folded.count(entry.to.casefold()) > 1:
            found.append(
                f"Column {quoted(entry.to)} is determined twice, or is the unit_column. Leave out "
                "one of the two."
            )
        if unknown := schema.not_yet_known(entry.of):
            found.append(f"{entry.called} {unknown}.")
    if not found:
        try:
            computed(schema)
        except SchemaError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))
