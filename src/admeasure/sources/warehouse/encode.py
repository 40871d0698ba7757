"""The schema's encoder as SQL of any dialect: one expression for each column, storage to code.

The rules are those of docs/schema.md, as `Column.code_of` has them for one value; a fuzz test holds
the two together on PostgreSQL. An expression refers to its column as `x`, to its trimmed text as
`t` and to what was read from it as `v`, each with the column's number; `Encoding` says which of
them it needs, so that each is computed once in a query of its own. What a refused value becomes is
left open, since one scan wants levels and NULLs and another wants to know which rule was broken.

Bins of doubles are found by comparing alone: `thresholds` gives the least double of each bin, so
that no engine's arithmetic or its overflow plays a part.

Values of the private table never enter a query: its texts are made of the schema alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from admeasure.schema import values
from admeasure.schema.categorical import StringColumn
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.ordered import IntegerColumn, NumberColumn, Ordered
from admeasure.schema.problems import Refusal
from admeasure.sources.storage import Storage
from admeasure.sources.warehouse.dialects import LONG, Dialect, Stored

Marks = Mapping[Refusal, str]
"""What a refused value becomes, as SQL."""

_INTEGER = values.INTEGER_TEXT.replace(r"\.", "[.]")
_NUMBER = values.NUMBER_TEXT.replace(r"\.", "[.]")
_INFINITE = "[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_NAN = "[+-]?[nN][aA][nN]"
_TRUE, _FALSE = "[tT][rR][uU][eE]|1", "[fF][aA][lL][sS][eE]|0"


@dataclass(frozen=True)
class Encoding:
    """How one column is encoded: see the top of this file."""

    code: Callable[[Marks], str]
    trimmed: str | None = None
    value: str | None = None


def encoding(column: Column, stored: Stored, number: int, dialect: Dialect) -> Encoding:
    """The encoding of a column that is stored in this way."""
    one = _One(dialect, stored, f"x{number}", f"t{number}", f"v{number}")
    storage = stored.storage
    if isinstance(column, StringColumn):
        return one.unreadable() if storage is Storage.OTHER else one.string(column)
    fits = storage.is_time == (column.type == "date")
    if storage is not Storage.TEXT and (storage is Storage.OTHER or not fits):
        return one.unreadable()
    if isinstance(column, NumberColumn):
        return one.number(column)
    if isinstance(column, Ordered):
        return one.ordinal(column)
    return one.boolean(column)


def thresholds(grid: RealGrid) -> np.ndarray:
    """The least double of each bin of a grid, by halving the doubles between its ends. Placing is
    monotone in the value, also as rounded, so that comparing with these is placing."""
    if grid.width is None:
        return grid.edges[:-1]
    low, high = (np.full(grid.size, _rank(x)) for x in (grid.low, grid.high))
    wanted = np.arange(grid.size)
    while (low < high).any():
        # (low + high) // 2 without passing 64 bits
        middle = (low & high) + ((low ^ high) >> 1)
        reached = grid.place_all(_unrank(middle)) >= wanted
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return _unrank(low)


def _rank(value: float) -> int:
    """The place of a double among all, as a 64-bit whole number."""
    bits = int(np.float64(value + 0.0).view(np.int64))  # + 0.0: there is one zero
    return bits if bits >= 0 else -(bits & LONG)


def _unrank(ranks: np.ndarray) -> np.ndarray:
    size = np.abs(ranks).view(np.float64)
    return np.where(ranks < 0, -size, size)


def _case(*branches: tuple[str, str], otherwise: str) -> str:
    whens = " ".join(f"WHEN {condition} THEN {result}" for condition, result in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def _in(value: str, literals: Iterable[str | None]) -> str | None:
    listed = ", ".join(one for one in literals if one is not None)
    return f"{value} IN ({listed})" if listed else None


def _any(*conditions: str | None) -> str:
    return " OR ".join(one for one in conditions if one is not None)


def _equal(value: str, entries: Sequence[tuple[str, str]], otherwise: str) -> str:
    """The result of the entry that equals a value, by halving; entries ascend."""
    if not entries:
        return otherwise
    if len(entries) == 1:
        return f"CASE WHEN {value} = {entries[0][0]} THEN {entries[0][1]} ELSE {otherwise} END"
    half = len(entries) // 2
    below, above = (_equal(value, part, otherwise) for part in (entries[:half], entries[half:]))
    return f"CASE WHEN {value} < {entries[half][0]} THEN {below} ELSE {above} END"


@dataclass(frozen=True)
class _One:
    """One stored column, and the names of what is computed from it."""

    dialect: Dialect
    stored: Stored
    x: str
    t: str
    v: str

    @property
    def is_text(self) -> bool:
        return self.stored.storage is Storage.TEXT

    @property
    def trimmed(self) -> str | None:
        text = self.dialect.text_of(self.x, self.stored) if self.is_text else None
        return None if text is None else self.dialect.trim(text)

    @property
    def null(self) -> str:
        return _any(f"{self.x} IS NULL", self.dialect.nan(self.x, self.stored))

    def unreadable(self) -> Encoding:
        def code(marks: Marks) -> str:
            missing = (self.null, marks[Refusal.MISSING])
            return _case(missing, otherwise=marks[Refusal.WRONG_STORAGE])

        return Encoding(code)

    def string(self, column: StringColumn) -> Encoding:
        d = self.dialect
        if self.stored.storage in (Storage.REAL, Storage.DECIMAL):
            return self._string_of_numbers(column)
        levels = [(entry, str(code)) for entry, code in column.index.items()]
        direct = self.stored.is_direct
        v = d.text_of(self.x, self.stored) if direct else self.v

        def code(marks: Marks) -> str:
            absent = [(entry, marks[Refusal.MISSING]) for entry in set(column.missing_values or ())]
            entries = sorted(levels + absent, key=lambda e: e[0].encode("utf-8", "surrogatepass"))
            listed = [(d.text(entry), result) for entry, result in entries]
            known = [(literal, result) for literal, result in listed if literal is not None]
            found = _equal(v, known, marks[Refusal.NOT_IN_ENUM])
            return _case((self.null, marks[Refusal.MISSING]), otherwise=found)

        return Encoding(code, value=None if direct else d.text_of(self.x, self.stored))

    def _string_of_numbers(self, column: StringColumn) -> Encoding:
        d, entries = self.dialect, sorted(column.numbers.items())

        def code(marks: Marks) -> str:
            known = [(d.real(n), str(c) if c >= 0 else marks[Refusal(c)]) for n, c in entries]
            found = _equal(self.v, known, marks[Refusal.NOT_IN_ENUM])
            return _case((self.null, marks[Refusal.MISSING]), otherwise=found)

        return Encoding(code, value=d.double_of(self.x, self.stored))

    def boolean(self, column: Column) -> Encoding:
        d, v = self.dialect, self.v
        stripped = {word.strip(" ") for word in column.missing_values or ()}
        read = {values.integer_from_text(word) for word in stripped}
        listed = sorted(r for r in read if r is not None)
        exact = any(abs(r) >= LONG for r in listed)
        if not self.is_text:

            def code(marks: Marks) -> str:
                missing = _in(v, map(d.whole, listed)) or "1 = 0"
                return _case(
                    (self.null, marks[Refusal.MISSING]),
                    (f"{v} IN (0, 1)", v),
                    (missing, marks[Refusal.MISSING]),
                    otherwise=marks[Refusal.UNREADABLE],
                )

            return Encoding(code, value=d.whole_of(self.x, self.stored, exact=exact))
        # A level is never listed as missing, so only what is no boolean can be.
        number = (
            f"CASE WHEN {d.matches(self.t, _INTEGER)} THEN {d.whole_in(self.t, exact=exact)} END"
        )
        value = _case(
            (d.matches(self.t, _TRUE), "1"), (d.matches(self.t, _FALSE), "0"), otherwise="NULL"
        )

        def code_of_text(marks: Marks) -> str:
            texts = map(d.text, sorted(stripped | {""}))
            branches = [
                (_any(f"{self.x} IS NULL", _in(self.t, texts)), marks[Refusal.MISSING]),
                (f"{v} IS NOT NULL", v),
            ]
            if listed:
                branches.append(
                    (f"{number} IN ({', '.join(map(d.whole, listed))})", marks[Refusal.MISSING])
                )
            return _case(*branches, otherwise=marks[Refusal.UNREADABLE])

        return Encoding(code_of_text, self.trimmed, value)

    def number(self, column: NumberColumn) -> Encoding:
        d, grid = self.dialect, column.grid
        if self.is_text:
            form = d.matches(self.t, f"{_NUMBER}|{_INFINITE}|{_NAN}")
            value = f"CASE WHEN {form} THEN {d.double_in(self.t)} END"
        else:
            value = d.double_of(self.x, self.stored)
        read = Stored(self.stored.name, Storage.REAL, "")
        starts = [d.real(start) for start in thresholds(grid)]

        def code(marks: Marks) -> str:
            absent = _any(
                d.nan(self.v, read), _in(self.v, map(d.real, sorted(column.missing_read)))
            )
            return _case(
                (self._missing(column), marks[Refusal.MISSING]),
                (f"{self.v} IS NULL", marks[Refusal.UNREADABLE]),
                (absent, marks[Refusal.MISSING]),
                *_outside(grid, self.v, d.real, marks),
                otherwise=d.last_at_most(self.v, starts, real=True),
            )

        return Encoding(code, self.trimmed, value)

    def ordinal(self, column: Ordered) -> Encoding:
        """Integers and days."""
        d, v = self.dialect, self.v
        read = sorted(int(m) for m in column.missing_read)
        value = self._ordinal_value(column, exact=any(abs(m) >= LONG for m in read))
        if self.stored.storage is Storage.WHOLE and not any(abs(m) >= LONG for m in read):
            v, value = self.x, None

        def code(marks: Marks) -> str:
            branches = [
                (self._missing(column), marks[Refusal.MISSING]),
                (f"{v} IS NULL", marks[Refusal.UNREADABLE]),
            ]
            if listed := _in(v, map(d.whole, read)):
                branches.append((listed, marks[Refusal.MISSING]))
            if isinstance(column, IntegerColumn) and column.enum is not None:
                entries = [(d.whole(e), str(code)) for e, code in sorted(column.index.items())]
                return _case(*branches, otherwise=_equal(v, entries, marks[Refusal.NOT_IN_ENUM]))
            grid = column.grid
            assert isinstance(grid, OrdinalGrid)
            outside = _outside(grid, v, d.whole, marks)
            return _case(*branches, *outside, otherwise=_ordinal_bin(d, grid, v))

        return Encoding(code, self.trimmed, value)

    def _ordinal_value(self, column: Ordered, *, exact: bool) -> str:
        d = self.dialect
        if column.type != "date":
            if not self.is_text:
                return d.whole_of(self.x, self.stored, exact=exact)
            read = d.whole_in(self.t, exact=exact)
            return f"CASE WHEN {d.matches(self.t, _INTEGER)} THEN {read} END"
        if not self.is_text:
            return d.days_of(self.x, self.stored)
        return f"CASE WHEN {d.matches(self.t, values.DATE_TEXT)} THEN {d.days_in(self.t)} END"

    def _missing(self, column: Ordered) -> str:
        if not self.is_text:
            return self.null
        texts = map(self.dialect.text, sorted(column.missing_texts))
        return _any(f"{self.x} IS NULL", _in(self.t, texts))


def _outside(
    grid: OrdinalGrid | RealGrid, v: str, literal: Callable, marks: Marks
) -> list[tuple[str, str]]:
    below, above = f"{v} < {literal(grid.low)}", f"{v} > {literal(grid.high)}"
    if grid.clamp:
        return [(below, "0"), (above, str(grid.size - 1))]
    return [(f"{below} OR {above}", marks[Refusal.OUTSIDE])]


def _ordinal_bin(dialect: Dialect, grid: OrdinalGrid, v: str) -> str:
    if grid.size == 1:
        return "0"
    if grid.high - grid.low + 1 == grid.size:  # one level a value
        return f"{v} - {dialect.whole(grid.low)}"
    return dialect.last_at_most(v, [dialect.whole(int(s)) for s in grid.starts], real=False)
