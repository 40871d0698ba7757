"""SQL of DuckDB: the words that the encoder asks a `Dialect` for, and the names of units.

What is peculiar: texts are looked up by the entries of an ENUM type, made for each column; bins of
equal width are computed, as the schema's own encoder does; casts that cannot be made give NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from admeasure.schema.frames import EXACT_DOUBLE
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.storage import Storage
from admeasure.sources.dialect import LONG, Dialect, Stored, saturated

_HUGE = 2**127 - 1
_FEW_STARTS = 256
_DAY_ZERO = "DATE '1970-01-01'"

_STORAGES = {
    **dict.fromkeys(("VARCHAR", "JSON", "ENUM", "TIME", "TIME_NS"), Storage.TEXT),
    "BOOLEAN": Storage.BOOLEAN,
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
        Storage.WHOLE,
    ),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM", "VARINT"), Storage.WIDE),
    **dict.fromkeys(("FLOAT", "DOUBLE"), Storage.REAL),
    "DECIMAL": Storage.DECIMAL,
    **dict.fromkeys(
        ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), Storage.DAY
    ),
    "TIMESTAMP WITH TIME ZONE": Storage.MOMENT,
}


def storage_of(sql_type: str) -> Storage:
    """
    >>> storage_of("DECIMAL(18,3)"), storage_of("INTEGER[]")
    (<Storage.DECIMAL: 6>, <Storage.OTHER: 9>)
    """
    if sql_type.endswith("]"):
        return Storage.OTHER
    return _STORAGES.get(sql_type.partition("(")[0], Storage.OTHER)


def text(value: str) -> str:
    """A text literal. The parser stops at a NUL, so that one is put together.

    >>> text("it's")
    "'it''s'"
    """
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"


def enum_type(number: int) -> str:
    """The ENUM type of the texts of a column."""
    return f"e{number}"


@dataclass(frozen=True)
class TablePart:
    """Rows with one set of columns: what stands after FROM, names and SQL types in stored order."""

    relation: str
    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def aliases(self) -> str:
        """The columns by position."""
        return ", ".join(f"k{i}" for i in range(len(self.names)))

    @property
    def rows(self) -> str:
        """What stands after FROM, with columns called by their `aliases`."""
        return f"{self.relation} AS stored({self.aliases})"

    def stored(self, name: str) -> tuple[str, Stored]:
        """The alias of a column, and how it is stored."""
        place = self.names.index(name)
        sql_type = self.types[place]
        return f"k{place}", Stored(name, storage_of(sql_type), sql_type)


class DuckDB(Dialect):
    name = "duckdb"
    widest = _HUGE

    def text(self, value: str) -> str | None:
        return text(value)

    def nan(self, x: str, stored: Stored) -> str | None:
        return f"isnan({x})" if stored.storage is Storage.REAL else None

    def text_of(self, x: str, stored: Stored) -> str:
        return f"CAST({_day(x) if stored.storage.is_time else x} AS VARCHAR)"

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_full_match({text}, {self.text(pattern)})"

    def group(self, text: str, pattern: str, number: int) -> str:
        return f"regexp_extract({text}, {self.text(f'^{pattern}$')}, {number})"

    def whole_of(self, x: str, stored: Stored, *, exact: bool) -> str:
        sql_type, limit = _whole_type(exact=exact)
        if stored.storage in (Storage.BOOLEAN, Storage.WHOLE):
            return f"CAST({x} AS {sql_type})"
        cast = f"coalesce(TRY_CAST({x} AS {sql_type}), {saturated(f'{x} < 0', limit)})"
        if stored.storage is Storage.WIDE:
            return cast
        # Not floor: below the least whole number of a decimal type it would overflow.
        return f"CASE WHEN {x} = trunc({x}) THEN {cast} END"

    def whole_in(self, text: str, *, exact: bool) -> str:
        sql_type, limit = _whole_type(exact=exact)
        cast = f"TRY_CAST(split_part({text}, '.', 1) AS {sql_type})"
        far = saturated(self.is_negative(text), limit)
        return f"coalesce({cast}, {far})"

    def double_of(self, x: str, stored: Stored) -> str:
        digits = stored.type.removeprefix("DECIMAL(").partition(",")[0]
        is_long = stored.storage is Storage.DECIMAL and int(digits) > 15
        if stored.storage is Storage.WIDE or is_long:
            # Through text: the direct cast of more than 53 bits is not rounded to the nearest.
            return f"TRY_CAST(CAST({x} AS VARCHAR) AS DOUBLE)"
        return f"CAST({x} AS DOUBLE)"

    def double_in(self, text: str) -> str:
        return f"TRY_CAST({text} AS DOUBLE)"

    def days_of(self, x: str, stored: Stored) -> str:
        return f"{_day(x)} - {_DAY_ZERO}"

    def days_in(self, text: str) -> str:
        return self.of_calendar(text, f"TRY_CAST({text} AS DATE) - {_DAY_ZERO}")

    def place_of(self, text: str, number: int) -> str | None:
        return f"enum_code(TRY_CAST({text} AS {enum_type(number)}))"

    def _searched(self, value: str, starts: Sequence[str], sql_type: str) -> str:
        """The number of the last start that is not above a value, from lists of lists: a tree of
        comparisons takes long to plan. The lists are cast from a text each, since an expression for
        each number would take kilobytes of memory, and be gone through for every row."""
        size = math.isqrt(len(starts)) + 1
        parts = [starts[i : i + size] for i in range(0, len(starts), size)]
        heads = f"CAST('{_list(part[0] for part in parts)}' AS {sql_type}[])"
        lists = f"CAST('{_list(map(_list, parts))}' AS {sql_type}[][])"
        part = f"len(list_filter({heads}, lambda e: e <= {value}))"
        inside = f"len(list_filter({lists}[p], lambda e: e <= {value}))"
        return f"list_transform([{part}], lambda p: (p - 1) * {size} + {inside} - 1)[1]"

    def real_bin(self, value: str, grid: RealGrid) -> str:
        if grid.width is None:
            if grid.size > _FEW_STARTS:
                return self._searched(value, [repr(s) for s in grid.starts.tolist()], "DOUBLE")
            return super().real_bin(value, grid)
        position = f"floor(({value} - {self.real(grid.low)}) / {self.real(grid.width)})"
        return f"CAST(least({position}, {self.real(grid.size - 1)}) AS INTEGER)"

    def whole_bin(self, value: str, grid: OrdinalGrid) -> str:
        if not grid.is_equal:
            if grid.size > _FEW_STARTS:
                return self._searched(value, list(map(str, grid.starts.tolist())), "BIGINT")
            return super().whole_bin(value, grid)
        offset = f"(CAST({value} AS BIGINT) - {self.whole(grid.low)})"
        span = grid.high - grid.low + 1
        if span == grid.size:
            return offset
        wide = offset if span * grid.size <= LONG else f"CAST({offset} AS HUGEINT)"
        return f"{wide} * {grid.size} // {span}"

    def fingerprint(self, parts: Sequence[str]) -> str:
        return f"md5(concat_ws('|', {', '.join(parts)}))"


DUCKDB = DuckDB()


def _list(entries: Iterable[str]) -> str:
    return f"[{', '.join(entries)}]"


def _whole_type(*, exact: bool) -> tuple[str, int]:
    """What does not fit becomes the limit, which lies outside every bound and is no entry of a
    schema."""
    return ("HUGEINT", _HUGE) if exact else ("BIGINT", LONG)


def _day(x: str) -> str:
    """The day of a date or timestamp (in UTC: the session's zone), within the years 1 to 9999."""
    return f"least(greatest(CAST({x} AS DATE), DATE '0001-01-01'), DATE '9999-12-31')"


def unit_text(x: str, sql_type: str) -> str:
    """The name of a unit as a text (`admeasure.schema.units`), NULL where it cannot name one."""
    if storage_of(sql_type) is not Storage.REAL:
        return f"CAST({x} AS VARCHAR)"
    most = 2**24 if sql_type == "FLOAT" else EXACT_DOUBLE
    exact = f"isfinite({x}) AND {x} = trunc({x}) AND abs({x}) < {most}"
    return f"CASE WHEN {exact} THEN CAST(CAST({x} AS BIGINT) AS VARCHAR) END"


def no_unit(x: str, sql_type: str) -> str:
    """Whether a row has no unit at all."""
    nan = f" OR isnan({x})" if storage_of(sql_type) is Storage.REAL else ""
    return f"({x} IS NULL{nan})"


def unit_kind(sql_type: str) -> str:
    """What two parts of a table must agree on in how they store units, so that one unit has one
    name: whole numbers of any size, texts of any kind, or else the very same type."""
    match storage_of(sql_type):
        case Storage.WHOLE | Storage.WIDE:
            return "whole numbers"
        case Storage.TEXT:
            return "texts"
    return sql_type
