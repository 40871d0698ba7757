"""The schema's encoder as SQL of any dialect: one expression for each column, storage to code.

The rules are those of the column (`admeasure.schema.rules`), step by step; here they become SQL, in
the words of a `Dialect`. An expression refers to its column as `x`, to its trimmed text as `t`, to
the standard text that its form makes of that (`admeasure.sources.forms`) as `f` and to what was
read from it as `v`, each with the column's number; `Encoding` says which of them it needs, so that
each is computed once in a query of its own. What a refused value becomes is left open, since one
scan wants levels and NULLs and another wants to know which rule was broken.

Values of the private table never enter a query: its texts are made of the schema alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from admeasure.schema import values
from admeasure.schema.column import Column
from admeasure.schema.grid import OrdinalGrid, RealGrid
from admeasure.schema.problems import Refusal, resolve
from admeasure.schema.rules import Listed, Reads, Rules
from admeasure.schema.storage import Storage
from admeasure.sources.dialect import LONG, Dialect, Stored
from admeasure.sources.forms import standard

Marks = Mapping[Refusal, str]
"""What a refused value becomes, as SQL."""

_INTEGER = values.INTEGER_TEXT.replace(r"\.", "[.]")
_NUMBER = values.NUMBER_TEXT.replace(r"\.", "[.]")
_INFINITE = "[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_NAN = "[+-]?[nN][aA][nN]"
_TRUE, _FALSE = "[tT][rR][uU][eE]|1", "[fF][aA][lL][sS][eE]|0"


@dataclass(frozen=True)
class Encoding:
    """How one column is encoded: see the top of this file. `texts` are those whose places the
    value is made of (`Dialect.place_of`)."""

    code: Callable[[Marks], str]
    trimmed: str | None = None
    formed: str | None = None
    value: str | None = None
    texts: tuple[str, ...] = ()


def encoding(column: Column, stored: Stored, number: int, dialect: Dialect) -> Encoding:
    """The encoding of a column that is stored in this way."""
    one = _One(dialect, stored, number)
    rules = column.rules.get(stored.storage)
    if rules is None:
        return one.unreadable()
    return one.looked_up(rules) if rules.reads is Reads.TEXT else one.read(rules)


def steps(encodings: Sequence[Encoding]) -> list[list[str]]:
    """What is computed from the stored columns before the codes, one query after the other."""
    found = (
        [f"{e.trimmed} AS t{i}" for i, e in enumerate(encodings) if e.trimmed],
        [f"{e.formed} AS f{i}" for i, e in enumerate(encodings) if e.formed],
        [f"{e.value} AS v{i}" for i, e in enumerate(encodings) if e.value],
    )
    return [step for step in found if step]


def level_marks(column: Column) -> Marks:
    """The levels that the schema has for refused values; NULL where it has none."""
    levels = {refusal: resolve(column, refusal) for refusal in Refusal}
    return {r: "NULL" if level is None else str(level) for r, level in levels.items()}


MARKS: Marks = {refusal: f"({int(refusal)})" for refusal in Refusal}
"""Every refused value as its mark."""


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


def _result(code: int, marks: Marks) -> str:
    return str(code) if code >= 0 else marks[Refusal(code)]


def _formed(d: Dialect, text: str, pattern: str, read: str) -> str:
    return f"CASE WHEN {d.matches(text, pattern)} THEN {read} END"


def _day_of_moment(d: Dialect, text: str) -> str:
    """The day of a text of the form `values.MOMENT_TEXT`, in UTC (`values.date_from_text`)."""
    date = f"left({text}, 10)"
    sign, hours, minutes = (d.group(text, values.ZONE_PARTS, i) for i in (1, 2, 3))
    minutes = f"right('00' || coalesce({minutes}, ''), 2)"

    def of(hours: str, minutes: str) -> str:
        hours, minutes = (d.whole_in(part, exact=False) for part in (hours, minutes))
        return f"({hours}) * 60 + ({minutes})"

    local, offset = of(f"substr({text}, 12, 2)", f"substr({text}, 15, 2)"), of(hours, minutes)
    before = f"{sign} = '+' AND {local} < {offset} AND {date} <> '0001-01-01'"
    after = f"{sign} = '-' AND {local} + {offset} >= 1440 AND {date} <> '9999-12-31'"
    shift = _case((before, "-1"), (after, "1"), otherwise="0")
    zoned = (d.matches(text, values.ZONE_PARTS), f"({d.days_in(date)}) + {shift}")
    return _case(zoned, otherwise=d.days_in(date))


class _One:
    """One stored column, and the names of what is computed from it."""

    def __init__(self, dialect: Dialect, stored: Stored, number: int) -> None:
        self.dialect, self.stored, self.number = dialect, stored, number
        self.x, self.t, self.v = f"x{number}", f"t{number}", f"v{number}"
        self.f = f"f{number}"
        self.is_text = stored.storage is Storage.TEXT

    @property
    def null(self) -> str:
        return _any(f"{self.x} IS NULL", self.dialect.nan(self.x, self.stored))

    def unreadable(self) -> Encoding:
        def code(marks: Marks) -> str:
            missing = (self.null, marks[Refusal.MISSING])
            return _case(missing, otherwise=marks[Refusal.WRONG_STORAGE])

        return Encoding(code)

    def looked_up(self, rules: Rules) -> Encoding:
        """A text that is compared with others."""
        d, listed = self.dialect, rules.levels
        assert isinstance(listed, Listed)
        text = d.text_of(self.x, self.stored)
        if rules.form is not None:
            text = standard(rules.form, text, d)
        place = d.place_of(text, self.number) if listed.entries else None
        if place is not None:
            return Encoding(self._by_place(listed), value=place, texts=tuple(listed.entries))
        direct = self.stored.is_direct and rules.form is None
        entries = sorted(
            listed.entries.items(), key=lambda entry: entry[0].encode("utf-8", "surrogatepass")
        )
        literals = [(d.text(entry), code) for entry, code in entries]
        known = [(literal, code) for literal, code in literals if literal is not None]

        def code(marks: Marks) -> str:
            results = [(literal, _result(code, marks)) for literal, code in known]
            found = _equal(text if direct else self.v, results, marks[listed.absent])
            return _case((self.null, marks[Refusal.MISSING]), otherwise=found)

        return Encoding(code, value=None if direct else text)

    def _by_place(self, listed: Listed) -> Callable[[Marks], str]:
        codes = [code for code in listed.entries.values() if code >= 0]
        regular, place = len(codes), f"CAST({self.v} AS INTEGER)"
        if regular and codes[-1] < regular - 1:  # several entries of one code
            first = np.flatnonzero(np.diff(codes, prepend=-1))
            grid = OrdinalGrid(0, regular - 1, first, clamp=False, is_equal=False)
            place = self.dialect.whole_bin(place, grid)

        def code(marks: Marks) -> str:
            branches = [
                (self.null, marks[Refusal.MISSING]),
                (f"{self.v} IS NULL", marks[listed.absent]),
            ]
            if len(listed.entries) > regular:
                branches.append((f"{self.v} >= {regular}", marks[Refusal.MISSING]))
            return _case(*branches, otherwise=place)

        return code

    def read(self, rules: Rules) -> Encoding:
        """A number: a whole one, a double, or one that stands for a day or for true and false."""
        d, v = self.dialect, self.v
        is_real = rules.reads is Reads.REAL

        def literal(number: Any) -> str:
            return d.real(number) if is_real else d.whole(number)

        missing = sorted(m for m in rules.missing if is_real or abs(m) < d.widest)
        exact = not is_real and any(abs(m) >= LONG for m in missing)
        trimmed = d.trim(d.text_of(self.x, self.stored)) if self.is_text else None
        formed = None
        if self.is_text and rules.form is not None:
            formed = standard(rules.form, self.t, d)
        value = self._value(rules, self.t if formed is None else self.f, exact=exact)
        if self.stored.storage is Storage.WHOLE and not is_real and not exact:
            v, value = self.x, None
        nan = d.nan(v, Stored(self.stored.name, Storage.REAL, "")) if is_real else None
        listed = [literal(m) for m in missing]
        absent = _any(nan if self.is_text else None, _in(v, listed))

        def code(marks: Marks) -> str:
            branches = [
                (self._missing(rules), marks[Refusal.MISSING]),
                (f"{v} IS NULL", marks[Refusal.UNREADABLE]),
            ]
            if absent:
                branches.append((absent, marks[Refusal.MISSING]))
            return self._level(v, rules.levels, literal, branches, marks)

        return Encoding(code, trimmed, formed, value)

    def _level(
        self,
        v: str,
        levels: Listed | OrdinalGrid | RealGrid,
        literal: Callable[[Any], str],
        branches: list[tuple[str, str]],
        marks: Marks,
    ) -> str:
        if isinstance(levels, Listed):
            ascending = sorted(levels.entries.items())
            entries = [(literal(entry), _result(code, marks)) for entry, code in ascending]
            return _case(*branches, otherwise=_equal(v, entries, marks[levels.absent]))
        below, above = f"{v} < {literal(levels.low)}", f"{v} > {literal(levels.high)}"
        if levels.clamp:
            outside = [(below, "0"), (above, str(levels.size - 1))]
        else:
            outside = [(f"{below} OR {above}", marks[Refusal.OUTSIDE])]
        real = isinstance(levels, RealGrid)
        place = self.dialect.real_bin(v, levels) if real else self.dialect.whole_bin(v, levels)
        return _case(*branches, *outside, otherwise=place)

    def _value(self, rules: Rules, t: str, *, exact: bool) -> str:
        """What is read, from the text `t` where it is a text; NULL for what cannot be read so."""
        d, x = self.dialect, self.x
        match rules.reads, self.is_text:
            case Reads.REAL, False:
                return d.double_of(x, self.stored)
            case Reads.REAL, True:
                return _formed(d, t, f"{_NUMBER}|{_INFINITE}|{_NAN}", d.double_in(t))
            case Reads.DAY, False:
                return d.days_of(x, self.stored)
            case Reads.DAY, True:
                day = (d.matches(t, values.DATE_TEXT), d.days_in(t))
                moment = (d.matches(t, values.MOMENT_TEXT), _day_of_moment(d, t))
                return _case(day, *([] if rules.form else [moment]), otherwise="NULL")
            case _, False:
                return d.whole_of(x, self.stored, exact=exact)
        number = d.whole_in(t, exact=exact)
        if rules.reads is Reads.WHOLE:
            return _formed(d, t, _INTEGER, number)
        words = [(d.matches(t, _TRUE), "1"), (d.matches(t, _FALSE), "0")]
        # Of other numbers only those can matter that are listed as missing; 0 and 1 never are.
        if rules.missing:
            listed = _formed(d, t, _INTEGER, number)
            words.append((f"({listed}) NOT IN (0, 1)", number))
        return _case(*words, otherwise="NULL")

    def _missing(self, rules: Rules) -> str:
        if not self.is_text:
            return self.null
        texts = map(self.dialect.text, sorted(rules.missing_texts))
        return _any(f"{self.x} IS NULL", _in(self.t, texts))
