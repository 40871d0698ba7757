"""The schema's encoder as SQL: one expression for each column, from its storage to its code.

The rules are those of docs/schema.md, as `Column.code_of` has them for one value; a fuzz test holds
the two together. An expression refers to its column as `x`, to its trimmed text as `t` and to what
was read from it as `v`, each with the column's number; `Encoding` says which of them it needs, so
that each is computed once in a query of its own. What a refused value becomes is left open, since
one scan wants levels and NULLs, and another wants to know which rule was broken.

Values of the private table never enter a query: its texts are made of the schema alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from admeasure.schema import values
from admeasure.schema.categorical import StringColumn
from admeasure.schema.column import Column
from admeasure.schema.frames import EXACT_DOUBLE
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.ordered import IntegerColumn, NumberColumn, Ordered
from admeasure.schema.problems import Refusal
from admeasure.sources.storage import Storage

Marks = Mapping[Refusal, str]
"""What a refused value becomes, as SQL."""

_LONG = 2**63 - 1
_HUGE = 2**127 - 1
_DAY_ZERO = "DATE '1970-01-01'"


_STORAGES = {
    **dict.fromkeys(("VARCHAR", "JSON", "ENUM"), Storage.TEXT),
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


@dataclass(frozen=True)
class Encoding:
    """How one column is encoded. `texts` are the entries of its ENUM type, where it has one."""

    code: Callable[[Marks], str]
    trimmed: str | None = None
    value: str | None = None
    texts: tuple[str, ...] = ()


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text literal. The parser stops at a NUL, so that one is put together.

    >>> text("it's")
    "'it''s'"
    """
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"


def real(value: float) -> str:
    """A double literal. A plain 0.1 would be a decimal, and be rounded another way."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def whole(value: int) -> str:
    return f"({value})" if value < 0 else str(value)


def encoding(column: Column, sql_type: str, number: int) -> Encoding:
    """The encoding of a column that is stored as `sql_type`."""
    storage = storage_of(sql_type)
    names = _Names(f"x{number}", f"t{number}", f"v{number}", f"e{number}")
    if isinstance(column, StringColumn):
        return _string(column, storage, sql_type, names)
    days_alone = storage.is_time == (column.type == "date")
    if storage is not Storage.TEXT and (storage is Storage.OTHER or not days_alone):
        return _unreadable(storage, names)
    if isinstance(column, NumberColumn):
        return _number(column, storage, sql_type, names)
    if isinstance(column, Ordered):
        return _ordinal(column, storage, names)
    return _boolean(column, storage, names)


@dataclass(frozen=True)
class _Names:
    x: str
    t: str
    v: str
    e: str

    def null(self, storage: Storage) -> str:
        return f"{self.x} IS NULL" + (f" OR isnan({self.x})" if storage is Storage.REAL else "")


def _case(*branches: tuple[str, str], otherwise: str) -> str:
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def _in(value: str, literals: Iterable[str]) -> str:
    listed = ", ".join(literals)
    return f"{value} IN ({listed})" if listed else "false"


def _matches(value: str, pattern: str) -> str:
    return f"regexp_full_match({value}, {text(pattern)})"


def _unreadable(storage: Storage, n: _Names) -> Encoding:
    def code(marks: Marks) -> str:
        missing = (n.null(storage), marks[Refusal.MISSING])
        return _case(missing, otherwise=marks[Refusal.WRONG_STORAGE])

    return Encoding(code)


def _string(column: StringColumn, storage: Storage, sql_type: str, n: _Names) -> Encoding:
    if storage is Storage.OTHER:
        return _unreadable(storage, n)
    if storage in (Storage.REAL, Storage.DECIMAL):
        return _string_of_numbers(column, storage, sql_type, n)
    texts = (*(column.enum or ()), *dict.fromkeys(column.missing_values or ()))
    written = _day(n.x) if storage.is_time else n.x
    value = f"enum_code(TRY_CAST(CAST({written} AS VARCHAR) AS {n.e}))"

    def code(marks: Marks) -> str:
        branches = [
            (n.null(storage), marks[Refusal.MISSING]),
            (f"{n.v} IS NULL", marks[Refusal.NOT_IN_ENUM]),
        ]
        if len(texts) > column.regular:
            branches.append((f"{n.v} >= {column.regular}", marks[Refusal.MISSING]))
        return _case(*branches, otherwise=f"CAST({n.v} AS INTEGER)")

    return Encoding(code, value=value, texts=texts)


def _string_of_numbers(
    column: StringColumn, storage: Storage, sql_type: str, n: _Names
) -> Encoding:
    entries = sorted(column.numbers.items())

    def code(marks: Marks) -> str:
        results = [(real(number), str(c) if c >= 0 else marks[Refusal(c)]) for number, c in entries]
        found = _equal(n.v, results, marks[Refusal.NOT_IN_ENUM])
        return _case((n.null(storage), marks[Refusal.MISSING]), otherwise=found)

    return Encoding(code, value=_double(storage, sql_type, n))


def _boolean(column: Column, storage: Storage, n: _Names) -> Encoding:
    stripped = {word.strip(" ") for word in column.missing_values or ()}
    read = {values.integer_from_text(word) for word in stripped}
    listed = sorted(r for r in read if r is not None and abs(r) < _LONG)
    if storage is Storage.TEXT:
        value = _case(
            (_matches(n.t, "[tT][rR][uU][eE]|1"), "1"),
            (_matches(n.t, "[fF][aA][lL][sS][eE]|0"), "0"),
            otherwise="NULL",
        )
        # A level is never listed as missing, so only what is no boolean can be.
        number = _whole_text(n.t, _LONG)

        def code_of_text(marks: Marks) -> str:
            missing = f"{n.x} IS NULL OR {_in(n.t, map(text, sorted(stripped | {''})))}"
            branches = [(missing, marks[Refusal.MISSING]), (f"{n.v} IS NOT NULL", n.v)]
            if listed:
                branches.append((_in(number, map(whole, listed)), marks[Refusal.MISSING]))
            return _case(*branches, otherwise=marks[Refusal.UNREADABLE])

        return Encoding(code_of_text, f"trim({n.x}, ' ')", value)

    def code(marks: Marks) -> str:
        return _case(
            (n.null(storage), marks[Refusal.MISSING]),
            (f"{n.v} IN (0, 1)", n.v),
            (_in(n.v, map(whole, listed)), marks[Refusal.MISSING]),
            otherwise=marks[Refusal.UNREADABLE],
        )

    return Encoding(code, value=_whole_number(storage, n, _LONG))


def _number(column: NumberColumn, storage: Storage, sql_type: str, n: _Names) -> Encoding:
    grid = column.grid

    def code(marks: Marks) -> str:
        return _case(
            (_missing(column, storage, n), marks[Refusal.MISSING]),
            (f"{n.v} IS NULL", marks[Refusal.UNREADABLE]),
            (f"isnan({n.v})", marks[Refusal.MISSING]),
            (_in(n.v, map(real, sorted(column.missing_read))), marks[Refusal.MISSING]),
            *_outside(grid, n.v, real, marks),
            otherwise=_real_bin(grid, n.v),
        )

    trimmed = f"trim({n.x}, ' ')" if storage is Storage.TEXT else None
    return Encoding(code, trimmed, _double(storage, sql_type, n))


def _ordinal(column: Ordered, storage: Storage, n: _Names) -> Encoding:
    """Integers and days."""
    read = sorted(int(m) for m in column.missing_read if abs(m) < _HUGE)
    limit = _LONG if all(abs(m) < _LONG for m in read) else _HUGE
    value = _days(storage, n) if column.type == "date" else _whole_number(storage, n, limit)
    if isinstance(column, IntegerColumn) and column.enum is not None:
        entries = [(whole(entry), str(code)) for entry, code in sorted(column.index.items())]
    else:
        entries = None

    def code(marks: Marks) -> str:
        branches = [
            (_missing(column, storage, n), marks[Refusal.MISSING]),
            (f"{n.v} IS NULL", marks[Refusal.UNREADABLE]),
            (_in(n.v, map(whole, read)), marks[Refusal.MISSING]),
        ]
        if entries is not None:
            found = _equal(n.v, entries, marks[Refusal.NOT_IN_ENUM])
            return _case(*branches, otherwise=found)
        grid = column.grid
        assert isinstance(grid, OrdinalGrid)
        outside = _outside(grid, n.v, whole, marks)
        return _case(*branches, *outside, otherwise=_ordinal_bin(column, grid, n.v))

    trimmed = f"trim({n.x}, ' ')" if storage is Storage.TEXT else None
    return Encoding(code, trimmed, value)


def _missing(column: Ordered, storage: Storage, n: _Names) -> str:
    if storage is not Storage.TEXT:
        return n.null(storage)
    return f"{n.x} IS NULL OR {_in(n.t, map(text, sorted(column.missing_texts)))}"


def _outside(
    grid: OrdinalGrid | RealGrid, v: str, literal: Callable, marks: Marks
) -> list[tuple[str, str]]:
    below, above = f"{v} < {literal(grid.low)}", f"{v} > {literal(grid.high)}"
    if grid.clamp:
        return [(below, "0"), (above, str(grid.size - 1))]
    return [(f"{below} OR {above}", marks[Refusal.OUTSIDE])]


def _ordinal_bin(column: Ordered, grid: OrdinalGrid, v: str) -> str:
    if column.edges is not None:
        return _ascend(v, [whole(int(start)) for start in grid.starts])
    offset = f"(CAST({v} AS BIGINT) - {whole(grid.low)})"
    if column.bins is None:
        return offset
    span = grid.high - grid.low + 1
    wide = offset if span * column.bins <= _LONG else f"CAST({offset} AS HUGEINT)"
    return f"{wide} * {column.bins} // {span}"


def _real_bin(grid: RealGrid, v: str) -> str:
    if grid.width is None:
        return _ascend(v, [real(edge) for edge in grid.edges[:-1]])
    position = f"floor(({v} - {real(grid.low)}) / {real(grid.width)})"
    return f"CAST(least({position}, {real(grid.size - 1)}) AS INTEGER)"


def _ascend(v: str, starts: Sequence[str], first: int = 0) -> str:
    """The number of the last start that is not above `v`, by halving."""
    if len(starts) == 1:
        return str(first)
    half = len(starts) // 2
    below, above = _ascend(v, starts[:half], first), _ascend(v, starts[half:], first + half)
    return f"CASE WHEN {v} < {starts[half]} THEN {below} ELSE {above} END"


def _equal(v: str, entries: Sequence[tuple[str, str]], otherwise: str) -> str:
    """The result of the entry that equals `v`, by halving; entries ascend."""
    if not entries:
        return otherwise
    if len(entries) == 1:
        return f"CASE WHEN {v} = {entries[0][0]} THEN {entries[0][1]} ELSE {otherwise} END"
    half = len(entries) // 2
    below, above = (_equal(v, part, otherwise) for part in (entries[:half], entries[half:]))
    return f"CASE WHEN {v} < {entries[half][0]} THEN {below} ELSE {above} END"


def _whole_number(storage: Storage, n: _Names, limit: int) -> str:
    """A whole number, NULL for anything else. What does not fit becomes ±`limit`, which lies
    outside every bound and is no entry of a schema."""
    sql_type = "BIGINT" if limit == _LONG else "HUGEINT"
    match storage:
        case Storage.TEXT:
            return _whole_text(n.t, limit)
        case Storage.BOOLEAN | Storage.WHOLE:
            return f"CAST({n.x} AS {sql_type})"
    cast = f"coalesce(TRY_CAST({n.x} AS {sql_type}), {_saturated(f'{n.x} < 0', limit)})"
    if storage is Storage.WIDE:
        return cast
    # Not floor: below the least whole number of a decimal type it would overflow.
    return f"CASE WHEN {n.x} = trunc({n.x}) THEN {cast} END"


def _whole_text(t: str, limit: int) -> str:
    sql_type = "BIGINT" if limit == _LONG else "HUGEINT"
    cast = f"TRY_CAST(split_part({t}, '.', 1) AS {sql_type})"
    saturated = _saturated(f"starts_with({t}, '-')", limit)
    return f"CASE WHEN {_matches(t, values.INTEGER_TEXT)} THEN coalesce({cast}, {saturated}) END"


def _saturated(negative: str, limit: int) -> str:
    return f"CASE WHEN {negative} THEN -{limit} ELSE {limit} END"


def _double(storage: Storage, sql_type: str, n: _Names) -> str:
    match storage:
        case Storage.TEXT:
            pattern = f"(?i){values.NUMBER_TEXT}|{values.INFINITY_TEXT}|{values.NAN_TEXT}"
            return f"CASE WHEN {_matches(n.t, pattern)} THEN TRY_CAST({n.t} AS DOUBLE) END"
        case Storage.DECIMAL if int(sql_type.removeprefix("DECIMAL(").partition(",")[0]) > 15:
            pass
        case Storage.WIDE:
            pass
        case _:
            return f"CAST({n.x} AS DOUBLE)"
    # Through text: the direct cast of more than 53 bits is not rounded to the nearest.
    return f"TRY_CAST(CAST({n.x} AS VARCHAR) AS DOUBLE)"


def _days(storage: Storage, n: _Names) -> str:
    if storage.is_time:
        return f"{_day(n.x)} - {_DAY_ZERO}"
    # DuckDB has a year 0; the calendar of ISO texts as Python reads them begins with year 1.
    readable = f"{_matches(n.t, values.DATE_TEXT)} AND NOT starts_with({n.t}, '0000')"
    return f"CASE WHEN {readable} THEN TRY_CAST({n.t} AS DATE) - {_DAY_ZERO} END"


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
