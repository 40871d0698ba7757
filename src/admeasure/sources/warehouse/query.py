"""The statements that a warehouse runs: which rules are broken, and how many rows each cell has.

`WarehouseTable` puts the encoder's expressions together for one table. Every statement reads the
schema's columns and the unit's only, and returns aggregates: rows do not leave.

- `sound` counts the rows and, of each column, the values with a level.
- `broken` says for each column and rule whether a row breaks it.
- `cells` counts joint tables. A cell is one whole number, its place in the flat array of all joints
  of the statement, so that any set of joints travels as two columns: place and count.

Where the schema limits the rows of a unit, `row_number()` keeps the first of each by a hash of unit
and codes, and then by the codes (`schema.units`): which ones depends on nothing but the unit's own
rows, and rows that still tie are equal to every count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from admeasure.domain import Columns, Domain
from admeasure.errors import DataError
from admeasure.schema.found_levels import LONGEST_LEVEL
from admeasure.schema.model import Schema
from admeasure.schema.problems import Refusal
from admeasure.schema.storage import Storage
from admeasure.sources.dialect import Dialect, Stored
from admeasure.sources.encode import MARKS, Marks, encoding, level_marks, steps
from admeasure.sources.texts import absent_texts, sought_text

NOWHERE = -1
"""The place of a row that has a value without a level."""


class NotComparable(DataError):
    """A statement compared values of a type that has no comparison."""


@dataclass(frozen=True)
class WarehouseTable:
    """What stands after FROM, and how its columns are stored."""

    dialect: Dialect
    relation: str
    columns: tuple[Stored, ...]
    schema: Schema
    stored: Mapping[str, Stored] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", {one.name: one for one in self.columns})

    @property
    def unit(self) -> Stored | None:
        name = self.schema.privacy.unit_column
        return None if name is None else self.stored.get(name)

    def sound(self) -> str:
        """One row: the number of rows, then of values with a level in each column of the schema,
        then of rows with an exact unit where there is one."""
        names = self.schema.names
        rows = self._encoded(names, self._levels(names), with_unit=True)
        asked = [f"COUNT(c{i})" for i in range(len(names))]
        asked += ["COUNT(u)"] if self.unit is not None else []
        return f"SELECT {', '.join(['COUNT(*)', *asked])} FROM ({rows}) s"

    def kept(self) -> str:
        """One value: the number of rows that are within the limit of their unit."""
        assert self.unit is not None
        most = self.schema.privacy.max_rows_per_unit
        counts = f"SELECT COUNT(*) AS n FROM ({self._encoded((), {}, with_unit=True)}) s GROUP BY u"
        within = f"CASE WHEN n < {most} THEN n ELSE {most} END"
        return f"SELECT COALESCE(SUM({within}), 0) FROM ({counts}) k"

    def broken(self, names: Columns) -> tuple[str, list[tuple[str, Refusal]]]:
        """One row: for each column and rule of the list, 1 where some row breaks it; last, where
        there is a unit, the same for rows without one and for rows whose unit is not exact; first
        the number of rows."""
        asked = list(itertools.product(names, Refusal))
        marks = dict.fromkeys(names, MARKS)
        rows = self._encoded(names, marks, with_unit=True)
        place = {name: i for i, name in enumerate(names)}
        found = [f"MAX(CASE WHEN c{place[n]} = ({int(r)}) THEN 1 ELSE 0 END)" for n, r in asked]
        if self.unit is not None:
            found += [
                f"MAX(CASE WHEN {flaw} THEN 1 ELSE 0 END)"
                for flaw in ("lost = 1", "u IS NULL AND lost = 0")
            ]
        # A code is compared with every mark, and computed once.
        return (
            f"SELECT {', '.join(['COUNT(*)', *found])} FROM ({rows}{self.dialect.fence}) s",
            asked,
        )

    def cells(self, joints: Sequence[Columns], domain: Domain) -> str:
        """Places and counts of the cells that occur. Joints follow each other in the flat array in
        the order given."""
        names = tuple(c for c in domain.columns if any(c in joint for joint in joints))
        code = {name: f"c{i}" for i, name in enumerate(names)}
        places = list(_places(joints, domain, code))
        rows = self._limited(names)
        if self.dialect.name == "postgres":
            # Measured on PostgreSQL 15: grouping the stored codes joint by joint takes 0.6 times
            # the work of GROUPING SETS, which goes through all its hash tables for each row.
            counted = " UNION ALL ".join(
                f"SELECT COALESCE({place}, {NOWHERE}) AS place, COUNT(*) AS n FROM codes "
                f"GROUP BY {', '.join(code[c] for c in joint)}"
                for joint, place in zip(joints, places, strict=True)
            )
            return f"WITH codes AS MATERIALIZED ({rows}) {counted}"
        keys = [f"k{i}" for i in range(len(joints))]
        named = ", ".join(
            f"COALESCE({place}, {NOWHERE}) AS {key}"
            for key, place in zip(keys, places, strict=True)
        )
        first = f"COALESCE({', '.join(keys)})" if len(keys) > 1 else keys[0]
        sets = ", ".join(f"({key})" for key in keys)
        return (
            f"SELECT {first} AS place, COUNT(*) AS n FROM (SELECT {named} FROM ({rows}) r) p "
            f"GROUP BY GROUPING SETS ({sets})"
        )

    def combinations(self, columns: Columns) -> str:
        """The codes of one joint and the count of each combination that occurs, for a joint with
        more cells than a place can number. A code is NULL where a value has no level."""
        codes = ", ".join(f"c{i}" for i in range(len(columns)))
        return f"SELECT {codes}, COUNT(*) AS n FROM ({self._limited(columns)}) r GROUP BY {codes}"

    def texts(self, name: str) -> str:
        """The texts of a column and how many units hold each, in the order of their bytes
        (`OpenTable.texts`)."""
        d, column = self.dialect, self.schema.column(name)
        text = d.text_of(d.identifier(name), self.stored[name])
        asked = [f"{sought_text(column, text, d)} AS t"]
        if self.unit is not None:
            asked.append(f"{self._unit_key(d.identifier(self.unit.name))} AS u")
        rows = f"SELECT {', '.join(asked)} FROM {self.relation}"
        absent = [literal for one in absent_texts(column) if (literal := d.text(one)) is not None]
        kept = f"t IS NOT NULL AND LENGTH(t) <= {LONGEST_LEVEL}"
        kept += f" AND t NOT IN ({', '.join(absent)})" if absent else ""
        rows = f"SELECT * FROM ({rows}) s WHERE {kept}"
        if self.unit is not None:
            order = f"{d.fingerprint([d.unit_text('u', self.unit), 't'])}, t"
            ranked = (
                f"SELECT t, ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS r "
                f"FROM (SELECT DISTINCT u, t FROM ({rows}) w) d"
            )
            most = self.schema.privacy.max_rows_per_unit
            rows = f"SELECT t FROM ({ranked}) k WHERE r <= {most}"
        return f"SELECT t, COUNT(*) AS n FROM ({rows}) c GROUP BY t ORDER BY t"

    def _limited(self, names: Columns) -> str:
        """The codes of the rows within the limit of their unit."""
        if self.unit is None:
            return self._encoded(names, self._levels(names), with_unit=False)
        # The order is made of every column, or marginals would be of different rows.
        everything = self.schema.names
        rows = self._encoded(everything, self._levels(everything), with_unit=True)
        codes = [f"COALESCE(c{i}, {NOWHERE})" for i in range(len(everything))]
        unit = self.dialect.unit_text("u", self.unit)
        order = ", ".join([self.dialect.fingerprint([unit, *codes]), *codes])
        codes = [f"c{everything.index(name)} AS c{i}" for i, name in enumerate(names)]
        ranked = (
            f"SELECT s.*, ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS r FROM ({rows}) s"
        )
        most = self.schema.privacy.max_rows_per_unit
        return f"SELECT {', '.join(codes)} FROM ({ranked}) k WHERE r <= {most}"

    def _levels(self, names: Iterable[str]) -> dict[str, Marks]:
        return {name: level_marks(self.schema.column(name)) for name in names}

    def _encoded(self, names: Columns, marks: Mapping[str, Marks], *, with_unit: bool) -> str:
        """Rows as c0, c1, … (and u, the unit, and whether there is none). Each step is a query of
        its own, so that nothing is computed twice."""
        d = self.dialect
        encodings = [
            encoding(self.schema.column(name), self.stored[name], i, d)
            for i, name in enumerate(names)
        ]
        columns = [f"{d.identifier(name)} AS x{i}" for i, name in enumerate(names)]
        extra = []
        if with_unit and self.unit is not None:
            stored = d.identifier(self.unit.name)
            columns.append(f"{self._unit_key(stored)} AS u")
            columns.append(f"CASE WHEN {self._no_unit(stored)} THEN 1 ELSE 0 END AS lost")
            extra = ["u", "lost"]
        rows = f"SELECT {', '.join(columns) or '1 AS one'} FROM {self.relation}"
        for step in steps(encodings):
            rows = f"SELECT s.*, {', '.join(step)} FROM ({rows}) s{d.fence}"
        codes = [
            f"CAST({e.code(marks[name])} AS {'INT64' if d.name == 'bigquery' else 'INT'}) AS c{i}"
            for i, (e, name) in enumerate(zip(encodings, names, strict=True))
        ]
        return f"SELECT {', '.join(codes + extra) or '1 AS one'} FROM ({rows}) s"

    def _unit_key(self, x: str) -> str:
        """A value that names a unit, with NULL for what names none, or not exactly."""
        assert self.unit is not None
        if self.unit.storage is Storage.TEXT:
            return self.dialect.text_of(x, self.unit)
        nan = self.dialect.nan(x, self.unit)
        if nan is None:
            return x
        if self.unit.storage is Storage.REAL:
            most = 2**24 if self.unit.type in _SINGLE else 2**53
            whole = self.dialect.whole_of(x, self.unit, exact=False)
            return f"CASE WHEN NOT ({nan}) AND abs({x}) < {most} THEN {whole} END"
        return f"CASE WHEN {nan} THEN NULL ELSE {x} END"

    def _no_unit(self, x: str) -> str:
        assert self.unit is not None
        nan = self.dialect.nan(x, self.unit)
        return f"{x} IS NULL" if nan is None else f"{x} IS NULL OR {nan}"


def _places(joints: Sequence[Columns], domain: Domain, code: Mapping[str, str]) -> Iterator[str]:
    """For each joint the place of a row's cell: C order, after the joints before it."""
    before = 0
    for joint in joints:
        place = f"CAST({code[joint[0]]} AS {_BIG})"
        for column in joint[1:]:
            place = f"({place}) * {domain[column]} + {code[column]}"
        yield f"{place} + {before}"
        before += domain.cells(joint)


_SINGLE = {"float4", "float32"}
"""Numbers of 32 bits: PostgreSQL's, and those of ibis."""
_BIG = "BIGINT"
"""Known to all dialects here (BigQuery has it as another name of INT64)."""
