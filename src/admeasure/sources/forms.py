"""The forms of texts (`admeasure.schema.forms`) as SQL of any dialect: the standard text of a text,
NULL for one that is not of the form. Made of the schema alone.
"""

from __future__ import annotations

from admeasure.errors import DataError
from admeasure.schema.clock import ClockForm
from admeasure.schema.forms import (
    CENTURY,
    FIELDS,
    MONTHS,
    DayForm,
    Form,
    LetterForm,
    NumberForm,
    WordForm,
    any_case,
)
from admeasure.schema.storage import Storage
from admeasure.schema.values import quoted
from admeasure.sources.dialect import Dialect, Stored


def standard(form: Form, text: str, dialect: Dialect) -> str:
    """An expression for the standard text of an expression."""
    match form:
        case DayForm():
            return _day(form, text, dialect)
        case ClockForm():
            return _minutes(form, text, dialect)
        case NumberForm():
            return _number(form, text, dialect)
        case WordForm():
            return _word(form, text, dialect)
        case LetterForm():
            return _letters(form, text, dialect)
    raise TypeError(f"no SQL for a {type(form).__name__}")


def _day(form: DayForm, text: str, d: Dialect) -> str:
    parts = {
        FIELDS[name].part: _part(name, d.group(text, form.parts, i), d)
        for i, name in enumerate(form.groups, 1)
    }
    whole = f"{parts['year']} || '-' || {parts['month']} || '-' || {parts['day']}"
    return f"CASE WHEN {d.matches(text, form.pattern)} THEN {whole} END"


def _minutes(form: ClockForm, text: str, d: Dialect) -> str:
    pieces = {name: d.group(text, form.parts, i) for i, name in enumerate(form.groups, 1)}
    hour, minute = (
        f"({d.whole_in(pieces[name], exact=False)})"
        for name in ("I" if "I" in pieces else "H", "M")
    )
    if "I" in pieces:
        later = f"CASE WHEN {d.matches(pieces['p'], '[pP][mM]')} THEN 12 ELSE 0 END"
        hour = f"(CASE WHEN {hour} = 12 THEN 0 ELSE {hour} END + {later})"
    minutes = d.text_of(f"({hour} * 60 + {minute})", Stored("f", Storage.WHOLE, ""))
    return f"CASE WHEN {d.matches(text, form.pattern)} THEN {minutes} END"


def _part(name: str, piece: str, d: Dialect) -> str:
    match name:
        case "Y":
            return piece
        case "y":
            return f"CASE WHEN {piece} < '{CENTURY}' THEN '20' ELSE '19' END || {piece}"
        case "b" | "B":
            words = [m[:3] if name == "b" else m for m in MONTHS]
            whens = " ".join(
                f"WHEN {d.matches(piece, any_case(word))} THEN '{i:02}'"
                for i, word in enumerate(words, 1)
            )
            return f"CASE {whens} END"
    return f"right('0' || {piece}, 2)"


def _number(form: NumberForm, text: str, d: Dialect) -> str:
    read = text
    for character, by in form.replaced:
        read = f"replace({read}, {_literal(character, d)}, '{by}')"
    return f"CASE WHEN {d.matches(text, form.pattern)} THEN {read} END"


def _word(form: WordForm, text: str, d: Dialect) -> str:
    known = [(d.text(word), number) for word, number in form.words.items()]
    whens = " ".join(f"WHEN {text} = {word} THEN '{n}'" for word, n in known if word is not None)
    return f"CASE {whens} END" if whens else "NULL"


def _letters(form: LetterForm, text: str, d: Dialect) -> str:
    text = d.trim(text) if form.strip else text
    known = [(one, small) for one, small in form.folded if d.text(one + small) is not None]
    if not known:
        return text
    letters, small = ("".join(part) for part in zip(*known, strict=True))
    return f"translate({text}, {_literal(letters, d)}, {_literal(small, d)})"


def _literal(text: str, d: Dialect) -> str:
    literal = d.text(text)
    if literal is None:
        raise DataError(
            f"The database cannot store {quoted(text)}, which the schema says its numbers have. "
            "Correct `thousands = …`."
        )
    return literal
