"""How a table spells what a column holds: the texts of days, numbers, truths and categories.

A form brings a text to the standard text that the column's type reads (`2024-03-05`, `1234.5`, `1`)
and spells a value as the table does. Forms are made so that every engine can do the same exactly:
each says which texts it reads by a pattern in which a text can be taken apart in one way only, and
uses nothing but patterns, replaced characters and listed words. `admeasure.sources.forms` has them
in SQL, and tests hold the two together. Nothing depends on a language setting: names of months and
days are English, and letters are folded one by one.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol

_MONTHS = "January February March April May June July August September October November December"
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
MONTHS = tuple(_MONTHS.split())
WEEKDAYS = tuple(_WEEKDAYS.split())
CENTURY = "69"
"""Two digits of a year from here on are of the 1900s, those below of the 2000s, as in POSIX."""

DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'", "_", "\u00a0", "\u202f", "\u2019")


class Form(Protocol):
    """A way to spell values."""

    def standard(self, text: str) -> str | None:
        """The standard text; None for a text that is not of this form."""
        ...

    def spelled(self, value: Any) -> str:
        """A value of the column's type, as the table spells it."""
        ...


# Days -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """What stands for a directive: a pattern of its own, one of full width where digits follow, and
    how much of it is captured. `simple` has no groups, so that groups can be numbered."""

    pattern: str
    full: str
    simple: str
    part: str | None = None

    def shape(self, *, digits_follow: bool) -> str:
        return self.full if digits_follow else self.pattern


def any_case(word: str) -> str:
    """A pattern for a word in any case.

    >>> any_case("May")
    '[mM][aA][yY]'
    """
    return "".join(f"[{c.lower()}{c.upper()}]" for c in word)


def _names(words: Iterable[str]) -> str:
    return "(" + "|".join(map(any_case, words)) + ")"


def _digits(short: str, full: str, width: int, part: str | None = None) -> Field:
    """A number that may be written without its first zero unless another follows at once."""
    return Field(f"({short})", f"({full})", f"[0-9]{{1,{width}}}", part)


_LETTERS = "[A-Za-z]+"
FIELDS: Mapping[str, Field] = {
    "Y": Field("[0-9]{4}", "[0-9]{4}", "[0-9]{4}", "year"),
    "y": Field("[0-9]{2}", "[0-9]{2}", "[0-9]{2}", "year"),
    "m": _digits("0?[1-9]|1[0-2]", "0[1-9]|1[0-2]", 2, "month"),
    "d": _digits("0?[1-9]|[12][0-9]|3[01]", "0[1-9]|[12][0-9]|3[01]", 2, "day"),
    "b": Field(_names(m[:3] for m in MONTHS), _names(m[:3] for m in MONTHS), _LETTERS, "month"),
    "B": Field(_names(MONTHS), _names(MONTHS), _LETTERS, "month"),
    "a": Field(_names(d[:3] for d in WEEKDAYS), _names(d[:3] for d in WEEKDAYS), _LETTERS),
    "A": Field(_names(WEEKDAYS), _names(WEEKDAYS), _LETTERS),
    "H": _digits("[01]?[0-9]|2[0-3]", "[01][0-9]|2[0-3]", 2),
    "I": _digits("0?[1-9]|1[0-2]", "0[1-9]|1[0-2]", 2),
    "M": _digits("[0-5]?[0-9]", "[0-5][0-9]", 2),
    "S": _digits("[0-5]?[0-9]", "[0-5][0-9]", 2),
    "f": Field("[0-9]{1,6}", "[0-9]{6}", "[0-9]{1,6}"),
    "p": Field("([aA]|[pP])[mM]", "([aA]|[pP])[mM]", "[aApP][mM]"),
}
"""The directives, as `datetime.strptime` has them; those that need a language or a zone are not
among them."""

_UNSAFE = set("^[]\\%")


def format_problems(form: str) -> Iterator[str]:
    """What is wrong with a format of days, as ends of the sentence "Column 'x' …"."""
    yield from piece_problems(form, FIELDS)
    asked = [piece[1:] for piece in re.findall(r"%.?", form, re.DOTALL)]
    if not set(asked) <= set(FIELDS):
        return
    for part, example in (("year", "%Y or %y"), ("month", "%m, %b or %B"), ("day", "%d")):
        count = sum(FIELDS[a].part == part for a in set(asked))
        if count != 1:
            how = "no" if not count else "more than one"
            yield f"has a format with {how} {part}. Write {example} once, as in %d/%m/%Y"


def piece_problems(form: str, directives: Iterable[str]) -> Iterator[str]:
    """What is wrong with the pieces of a format that may have these directives, likewise."""
    pieces = re.findall(r"%.?|[^%]", form, re.DOTALL)
    asked = [piece[1:] for piece in pieces if piece[0] == "%"]
    known = list(directives)
    unknown = [a for a in asked if a not in known]
    if unknown:
        hint = "; %d reads one digit as well as two" if unknown[0] in "-e#" else ""
        listed = " ".join(f"%{name}" for name in known)
        yield f"has `%{unknown[0]}` in its format, which is not one of {listed}{hint}"
        return
    again = sorted({a for a in asked if asked.count(a) > 1})
    if again:
        yield f"has %{again[0]} twice in its format. Write it once"
    odd = sorted({p for p in pieces if p in _UNSAFE or not p.isprintable()} - {"\u00a0", "\u202f"})
    if odd:
        yield f"has {odd[0]!r} in its format, which cannot be read. Leave it out"
    if not odd and (_runs_together(pieces)):
        yield "has a format in which letters stand beside a name. Separate them"


def _runs_together(pieces: Sequence[str]) -> bool:
    """Whether names or AM and PM have letters beside them."""
    for one, two in pairwise(pieces):
        ends = [_is_letters(one), _is_letters(two)]
        if all(ends) and (one[0] == "%" or two[0] == "%"):
            return True
    return False


def _is_letters(piece: str) -> bool:
    return piece[1] in "bBaAp" if piece[0] == "%" else piece.isascii() and piece.isalpha()


@dataclass(frozen=True)
class Formatted:
    """Texts by a format of directives, of which some are captured. What one stands for may lack its
    first zero unless digits follow at once."""

    format: str

    captured: ClassVar[frozenset[str]]

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        return tuple(re.findall(r"%.|[^%]", self.format, re.DOTALL))

    def _joined(self, *, simple: bool) -> str:
        made = []
        for i, piece in enumerate(self.pieces):
            if piece[0] != "%":
                made.append(piece if piece.isalnum() else f"[{piece}]")
                continue
            field = FIELDS[piece[1]]
            after = self.pieces[i + 1] if i + 1 < len(self.pieces) else ""
            digits_follow = after.isdigit() or (after[:1] == "%" and after[1] in "YymdHIMSf")
            shape = field.shape(digits_follow=digits_follow)
            if simple:
                shape = field.simple.replace("1,", "") if digits_follow else field.simple
                shape = f"({shape})" if piece[1] in self.captured else shape
            made.append(shape)
        return "".join(made)

    @cached_property
    def pattern(self) -> str:
        """Texts of this form, but for what such texts cannot say (days that a month lacks)."""
        return self._joined(simple=False)

    @cached_property
    def parts(self) -> str:
        """A pattern of such a text with a group for each of `groups`, and no other."""
        return self._joined(simple=True)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The directives that are captured, in order."""
        return tuple(p[1] for p in self.pieces if p[0] == "%" and p[1] in self.captured)

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(self.pattern, re.ASCII), re.compile(self.parts, re.ASCII)

    def taken_apart(self, text: str) -> dict[str, str] | None:
        """What the captured directives stand for in a text; None where it is not of this form."""
        whole, parts = self._compiled
        found = parts.fullmatch(text)
        if not found or not whole.fullmatch(text):
            return None
        return dict(zip(self.groups, found.groups(), strict=True))


class DayForm(Formatted):
    """Days by a format such as `%d/%m/%Y`. A time of day is read and left aside; it is spelled as
    midnight.

    >>> form = DayForm("%d %b %y")
    >>> form.standard("5 MAR 24"), form.spelled(datetime.date(2024, 3, 5))
    ('2024-03-05', '05 Mar 24')
    """

    captured: ClassVar[frozenset[str]] = frozenset(n for n, field in FIELDS.items() if field.part)

    def standard(self, text: str) -> str | None:
        found = self.taken_apart(text)
        if found is None:
            return None
        read = {FIELDS[name].part: _standard_part(name, piece) for name, piece in found.items()}
        return f"{read['year']}-{read['month']}-{read['day']}"

    def spelled(self, value: datetime.date) -> str:
        return "".join(_spelled_part(value, p[1]) if p[0] == "%" else p for p in self.pieces)


def _standard_part(name: str, piece: str) -> str:
    match name:
        case "Y":
            return piece
        case "y":
            return ("20" if piece < CENTURY else "19") + piece
        case "b" | "B":
            return next(f"{i:02}" for i, m in enumerate(MONTHS, 1) if m[:3] == piece[:3].title())
    return piece.rjust(2, "0")


def _spelled_part(day: datetime.date, name: str) -> str:
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    spelled = {
        "Y": f"{day.year:04}",
        "y": f"{day.year % 100:02}",
        "m": f"{day.month:02}",
        "d": f"{day.day:02}",
        "b": month[:3],
        "B": month,
        "a": weekday[:3],
        "A": weekday,
        "I": "12",
        "f": "000000",
        "p": "AM",
    }
    return spelled.get(name, "00")


# Numbers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberForm:
    """Numbers with a decimal character and groups of three digits.

    >>> form = NumberForm(",", ".")
    >>> form.standard("-1.234,50"), form.standard("1.5"), form.spelled(-1234.5)
    ('-1234.50', None, '-1.234,5')
    """

    decimal: str = "."
    thousands: str | None = None
    decimals: int | None = None
    """How many digits are spelled after the decimal character; as many as needed if not told."""

    @cached_property
    def pattern(self) -> str:
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = f"([0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+|[0-9]+)"
        point = f"[{self.decimal}]"
        number = f"[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?"
        return f"{number}|[+-]?({any_case('inf')}({any_case('inity')})?|{any_case('nan')})"

    @property
    def replaced(self) -> list[tuple[str, str]]:
        """Characters and what they become, one after the other."""
        groups = [] if self.thousands is None else [(self.thousands, "")]
        return [*groups, *([] if self.decimal == "." else [(self.decimal, ".")])]

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    def standard(self, text: str) -> str | None:
        if not self._compiled.fullmatch(text):
            return None
        for character, by in self.replaced:
            text = text.replace(character, by)
        return text

    def spelled(self, value: float) -> str:
        text = str(value)
        if self.decimals is not None:
            short = f"{value:.{self.decimals}f}"
            text = short if math.isclose(float(short), value, rel_tol=1e-12) else text
        whole, point, part = text.partition(".")
        if self.thousands is not None and whole.lstrip("-").isdigit():
            whole = f"{int(whole):,}".replace(",", self.thousands)
            whole = f"-{whole}" if text.startswith("-") and not whole.startswith("-") else whole
        return whole + (self.decimal if point else "") + part


def number_form_problems(decimal: str | None, thousands: str | None) -> Iterator[str]:
    if decimal is not None and decimal not in DECIMALS:
        yield f"has decimal = {decimal!r}. Write the comma or the point"
    if thousands is not None and thousands not in THOUSANDS:
        known = " ".join(map(repr, THOUSANDS))
        yield f"has thousands = {thousands!r}. Write one of {known}"
    if thousands is not None and thousands == decimal:
        yield "has one character for decimals and thousands. Correct one of them"


# Words and letters ------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordForm:
    """Listed words for true and false; the first of each is how they are spelled.

    >>> form = WordForm(("Yes", "Y"), ("No",))
    >>> form.standard("Y"), form.standard("yes"), form.spelled(False)
    ('1', None, 'No')
    """

    true: tuple[str, ...]
    false: tuple[str, ...]

    @cached_property
    def words(self) -> dict[str, str]:
        """Without the spaces around them, as texts are read."""
        words = {word.strip(" "): "1" for word in self.true}
        return words | {word.strip(" "): "0" for word in self.false}

    def standard(self, text: str) -> str | None:
        return self.words.get(text)

    def spelled(self, value: bool) -> str:  # noqa: FBT001 (a value of the column)
        return self.true[0] if value else self.false[0]


@cache
def _upper_of() -> dict[str, list[str]]:
    """For each letter the others that become it where case is ignored."""
    found: dict[str, list[str]] = {}
    for point in range(sys.maxunicode + 1):
        letter = chr(point)
        small = letter.lower()
        if small != letter and len(small) == 1:
            found.setdefault(small, []).append(letter)
    return found


@dataclass(frozen=True)
class LetterForm:
    """Texts without the spaces around them, or without regard to case, or both. Only letters of the
    listed texts are folded: others make a text unlike all of them whatever their case."""

    strip: bool
    folded: tuple[tuple[str, str], ...] = ()
    """Letters and what they become."""

    @classmethod
    def of(cls, texts: Iterable[str], *, strip: bool, ignore_case: bool) -> LetterForm:
        if not ignore_case:
            return cls(strip)
        small = sorted({letter for text in texts for one in text for letter in (_small(one),)})
        return cls(strip, tuple((o, s) for s in small for o in _upper_of().get(s, ())))

    @classmethod
    def of_any(cls, *, strip: bool, ignore_case: bool) -> LetterForm:
        """Where the texts are not known yet: every letter is folded."""
        return cls.of(_upper_of() if ignore_case else (), strip=strip, ignore_case=ignore_case)

    @cached_property
    def _table(self) -> dict[int, str]:
        return {ord(one): small for one, small in self.folded}

    def standard(self, text: str) -> str:
        text = text.strip(" ") if self.strip else text
        return text.translate(self._table)

    def spelled(self, value: str) -> str:
        return value


def _small(letter: str) -> str:
    small = letter.lower()
    return small if len(small) == 1 else letter
