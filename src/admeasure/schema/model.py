"""The schema: what is publicly known of a table, whom the guarantee protects, what cannot occur.

Everything here is public and is listed as unprotected in a release's certificate. A `Schema` is
frozen and valid: `load`, `loads` and the constructor refuse one that is incomplete or contradicts
itself, and name all its problems at once.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from admeasure.domain import Columns, Domain, canonical
from admeasure.errors import SchemaError
from admeasure.schema import determined, difference, zeros
from admeasure.schema.categorical import BooleanColumn, StringColumn
from admeasure.schema.column import Column, Part
from admeasure.schema.days import DateColumn
from admeasure.schema.determined import Computed, DeterminesEntry, lifted
from admeasure.schema.difference import DifferenceEntry
from admeasure.schema.inside import Inside
from admeasure.schema.ordered import IntegerColumn, NumberColumn
from admeasure.schema.values import did_you_mean, quoted
from admeasure.schema.zeros import AtLeastOneEntry, OrderEntry, Zero, ZeroEntry
from admeasure.unit import Neighbours, Unit

AnyColumn = Annotated[
    IntegerColumn | NumberColumn | StringColumn | BooleanColumn | DateColumn,
    Field(discriminator="type"),
]
TYPES: dict[str, type[Column]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in get_args(get_args(AnyColumn)[0])
}
"""The column types, by the word of a schema file."""


class Table(Part):
    """`[table]`: what the table is."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    rows: Annotated[
        int | None, Field(ge=1, description="Publicly known, approximate; for advice only.")
    ] = None
    encoding: Annotated[str | None, Field(description="Of CSV files; UTF-8 if not told.")] = None

    @model_validator(mode="after")
    def _has_a_known_encoding(self) -> Table:
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise PydanticCustomError(
                "schema",
                "[table] has the unknown encoding {name}. Write the name that Python has for it, "
                "as latin-1, cp1252 or utf-16.",
                {"name": quoted(self.encoding)},
            )
        return self


def _is_encoding(name: str) -> bool:
    """Whether texts can be in it; some of Python's codecs are for escapes and other things."""
    try:
        return "a,1\n".encode(name).decode(name) == "a,1\n" and "escape" not in name.lower()
    except (LookupError, UnicodeError, ValueError):
        return False


def is_utf8(encoding: str) -> bool:
    """Whether this names UTF-8, of which ASCII is a part."""
    return codecs.lookup(encoding).name in {"utf-8", "utf-8-sig", "ascii"}


class Privacy(Part):
    """`[privacy]`: whom the guarantee protects."""

    unit: Annotated[str, Field(min_length=1, description="Who is protected: person, household.")]
    unit_column: Annotated[str | None, Field(min_length=1)] = None
    max_rows_per_unit: Annotated[int, Field(ge=1)] = 1
    neighbours: Literal["add-remove", "replace"] = "add-remove"

    @model_validator(mode="after")
    def _several_rows_need_a_column(self) -> Privacy:
        if self.max_rows_per_unit > 1 and self.unit_column is None:
            raise PydanticCustomError(
                "privacy",
                "[privacy] has max_rows_per_unit above 1 and no unit_column. "
                "Add `unit_column = …`, the column that names the unit.",
            )
        return self


LISTS: dict[str, type[Part]] = {
    "zero": ZeroEntry,
    "order": OrderEntry,
    "at_least_one": AtLeastOneEntry,
    "difference": DifferenceEntry,
    "determines": DeterminesEntry,
}
"""The sections of a schema file besides the columns of which there may be several."""


class Schema(Part):
    """A table's public description.

    >>> schema = Schema.coded("toy", {"sex": 2, "age": 10})
    >>> schema.domain.shape(("age", "sex")), schema.column("age").levels
    ((10, 2), 10)
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    table: Table
    privacy: Privacy
    columns: Annotated[tuple[AnyColumn, ...], Field(strict=False, min_length=1, alias="column")]
    zero: Annotated[tuple[ZeroEntry, ...], Field(strict=False)] = ()
    order: Annotated[tuple[OrderEntry, ...], Field(strict=False)] = ()
    at_least_one: Annotated[tuple[AtLeastOneEntry, ...], Field(strict=False)] = ()
    difference: Annotated[tuple[DifferenceEntry, ...], Field(strict=False)] = ()
    determines: Annotated[tuple[DeterminesEntry, ...], Field(strict=False)] = ()

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file."""
        from admeasure.schema.load import load

        return load(path)

    @classmethod
    def loads(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        from admeasure.schema.load import loads

        return loads(text)

    @classmethod
    def coded(cls, name: str, levels: Mapping[str, int], *, unit: str = "person") -> Schema:
        """A schema for a table of codes: each column holds 0 … levels - 1."""
        columns = tuple(
            IntegerColumn(name=column, type="integer", minimum=0, maximum=count - 1)
            for column, count in levels.items()
        )
        return cls(table=Table(name=name), privacy=Privacy(unit=unit), columns=columns)

    def dumps(self) -> str:
        """The schema as TOML text; `loads` gives an equal schema back."""
        from admeasure.schema.toml import dumps

        return dumps(self)

    @cached_property
    def open_columns(self) -> tuple[Column, ...]:
        """The columns whose levels are found by a run, for a charge."""
        return tuple(c for c in self.columns if c.is_open)

    def not_yet_known(self, names: Iterable[str]) -> str | None:
        """Why a rule about these columns cannot be read yet, as the end of a sentence; None where
        all of them have their levels."""
        found = [c for c in self.open_columns if c.name in set(names)]
        if not found:
            return None
        levels = any(c.type == "string" for c in found)
        what, known = (
            ("levels", "`enum = […]`") if levels else ("bins", "`bins = …`, `edges = […]`")
        )
        return (
            f"names a column whose {what} are private, so nobody knows its levels yet. Give the "
            f"column {known}"
        )

    @cached_property
    def as_read(self) -> Schema:
        """The schema by which a table is read before the levels of its open columns are known."""
        return self.with_columns({c.name: c.as_read() for c in self.open_columns})

    def found_by(self, release: Schema) -> Schema:
        """The schema with the levels of its open columns that a run of it found."""
        return self.with_columns({c.name: release.column(c.name) for c in self.open_columns})

    def with_columns(self, changed: Mapping[str, Column]) -> Schema:
        """The schema with other columns in the place of those of the same names."""
        columns = tuple(changed.get(c.name, c) for c in self.columns)
        return self.model_copy(update={"columns": columns}) if changed else self

    @cached_property
    def domain(self) -> Domain:
        """Names and level counts; of an open column the most that it may come to have."""
        levels = {c.name: c.levels for c in self.columns}
        stand_ins = {entry.to: entry.of for entry in self.determines}
        stand_ins |= {entry.of: (entry.column, entry.minus) for entry in self.difference}
        return Domain.of(levels, stand_ins=stand_ins)

    @cached_property
    def differences(self) -> dict[str, DifferenceEntry]:
        """The columns that are no columns of the table, but the difference of two of them."""
        return {entry.column: entry for entry in self.difference}

    def stored_as(self, name: str) -> Columns:
        """The columns of the table from which a column of the model is read."""
        entry = self.differences.get(name)
        return (name,) if entry is None else (entry.of, entry.minus)

    @cached_property
    def stored_names(self) -> Columns:
        """The columns that a table must have."""
        return tuple(dict.fromkeys(n for name in self.names for n in self.stored_as(name)))

    @cached_property
    def computed(self) -> dict[str, Computed]:
        """The columns that are a public function of others, and are in no model."""
        return determined.computed(self)

    @cached_property
    def unit(self) -> Unit:
        privacy = self.privacy
        return Unit(Neighbours(privacy.neighbours), privacy.max_rows_per_unit, privacy.unit)

    @cached_property
    def names(self) -> Columns:
        return tuple(c.name for c in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {c.name: c for c in self.columns}

    def column(self, name: str) -> Column:
        """The column of that name, also one that is computed; a `SchemaError` suggests the nearest
        where there is none."""
        if name not in self._by_name:
            computed = tuple(entry.to for entry in self.determines)
            if name in computed:
                return self.computed[name].column
            for entry in self.difference:
                if entry.of == name:
                    raise SchemaError(
                        f"Column {quoted(name)} is computed in rows, as {quoted(entry.minus)} plus "
                        f"{quoted(entry.column)}. Name these, or count sampled rows."
                    )
            known = (*self.names, *computed)
            hint = did_you_mean(name, known) or "See `[[column]]` in the schema."
            raise SchemaError(f"The schema has no column {quoted(name)}. {hint}")
        return self._by_name[name]

    @cached_property
    def zeros(self) -> tuple[Zero, ...]:
        """The structural zeros, as masks over marginals."""
        return zeros.zeros_of(self)

    def conditions_met(
        self, conditions: Mapping[str, Any], called: str, also: Sequence[str] = ()
    ) -> tuple[Columns, np.ndarray]:
        """How many of the conditions (see `admeasure.schema.select`) are met in each cell of the
        marginal that decides them, and the columns of `also`: its columns, and the numbers.
        `called` is for errors."""
        codes = {name: self.column(name).codes_of(value) for name, value in conditions.items()}
        columns = self.modelled((*conditions, *also))
        if self.domain.cells(columns) > zeros.MAX_ZERO_CELLS:
            raise SchemaError(
                f"{called} spans more than {zeros.MAX_ZERO_CELLS:,} cells. "
                "Name fewer columns, or use fewer bins."
            )
        met = np.zeros(self.domain.shape(columns), dtype=np.int16)
        for name, chosen in codes.items():
            met += np.isin(lifted(self, name, columns, self.computed), chosen)
        return columns, met

    def regrouped(self, counts: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """The counts of the marginal on `modelled(names)` as those on the columns named, which may
        be computed, in this order."""
        columns = self.modelled(names)
        if not set(names) & self.computed.keys():
            return np.transpose(counts, [columns.index(name) for name in names])
        axes = [lifted(self, name, columns, self.computed) for name in names]
        found = np.zeros([self.column(name).levels for name in names], counts.dtype)
        np.add.at(found, tuple(np.broadcast_to(axis, counts.shape) for axis in axes), counts)
        return found

    def modelled(self, names: Iterable[str]) -> Columns:
        """The columns of the model that decide the named ones."""
        return canonical(
            source
            for name in names
            for source in (self.computed[name].of if name in self.computed else (name,))
        )

    def decode(
        self,
        codes: Mapping[str, np.ndarray],
        rng: np.random.Generator,
        inside: Mapping[str, Inside] | None = None,
    ) -> dict[str, Any]:
        """Codes back to values: see `admeasure.schema.decode`."""
        from admeasure.schema.decode import decode

        return decode(self, codes, rng, inside)

    @model_validator(mode="after")
    def _holds_together(self) -> Schema:
        found = list(self.problems())
        if found:
            raise PydanticCustomError("schema", "{lines}", {"lines": "\n".join(found)})
        return self

    def problems(self) -> list[str]:
        """What contradicts itself between the parts, as whole sentences."""
        found = repeated_names(self.names)
        found += determined.problems(self) or difference.problems(self)
        unit = self.privacy.unit_column
        if unit is not None and unit.casefold() in {n.casefold() for n in self.names}:
            found.append(
                f"Column {quoted(unit)} is both the unit_column and a column. "
                "Remove its [[column]], or the unit_column."
            )
        return found or zeros.problems(self)


def repeated_names(names: tuple[str, ...]) -> list[str]:
    """A sentence for each name that occurs twice, or twice but for case: databases and file
    readers do not tell `Age` from `age`."""
    found = []
    seen: dict[str, str] = {}
    for name in names:
        first = seen.get(name.casefold())
        seen.setdefault(name.casefold(), name)
        if first == name:
            found.append(f"Column {quoted(name)} is described twice. Remove one [[column]].")
        elif first is not None:
            found.append(
                f"Columns {quoted(first)} and {quoted(name)} differ only in case. Rename one."
            )
    return found
