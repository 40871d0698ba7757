"""The words of the page's forms, and what errors say in these words.

Errors of a schema name the fields of its file, those of a plan or a run the options of the command
line, for whoever writes them. Beside a form they name what stands on the page (`in_words` beside
that of the schema, `on_page` elsewhere). Texts in quotes are the user's own and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from admeasure.mechanisms import REGISTRY
from admeasure.planning.mechanism import option_names

LABELS = {
    "unit": "Whom the guarantee protects",
    "neighbours": "Compared tables",
    "unit_column": "Column that tells whose row it is",
    "max_rows_per_unit": "Rows kept of each",
    "name": "Name",
    "description": "Description",
    "rows": "About how many rows",
    "encoding": "Encoding",
    "type": "Kind of values",
    "title": "Title",
    "source": "Source",
    "minimum": "Smallest value",
    "maximum": "Largest value",
    "bins": "Bins",
    "edges": "Edges of bins",
    "scale": "Finer near zero",
    "enum": "Categories",
    "levels_of": "Hierarchy of codes",
    "missing_values": "Texts that mean missing",
    "other": "Other values may occur",
    "clamp": "Values outside count as the nearest",
    "format": "How days are written",
    "decimal": "How numbers are written",
    "thousands": "How numbers are written",
    "decimals": "Digits after the point",
    "true_values": "Texts that mean yes",
    "false_values": "Texts that mean no",
    "strip": "Ignore spaces around",
    "ignore_case": "Ignore upper and lower case",
    "columns": "Columns",
    "where": "Values",
}
"""Of the fields of a schema file, on the page."""

TICKED = ("other", "clamp", "strip", "ignore_case", "scale")

KINDS = {
    "integer": "whole numbers",
    "number": "numbers",
    "date": "days",
    "string": "categories",
    "boolean": "yes or no",
}

_SECTIONS = {
    "zero": "combination that cannot occur",
    "order": "order",
    "at_least_one": "rule “at least one of”",
    "difference": "difference",
    "determines": "rule “follows from”",
    "column": "column",
    "privacy": "“Whom the guarantee protects”",
    "table": "“The table”",
}
_BARE = {
    "an enum": "a list of categories",
    "an empty enum": "an empty list of categories",
    "no enum": "no categories",
    "both enum": "both categories",
    "not in enum": "that is none of its categories",
    "levels_of": "hierarchy of codes",
    "enum": "categories",
    "minimum": "smallest value",
    "maximum": "largest value",
    "unit_column": "column that tells whose row it is",
    "max_rows_per_unit": "number of rows kept of each",
    "missing_values": "texts that mean missing",
    "true_values": "texts that mean yes",
    "false_values": "texts that mean no",
    "ignore_case": "“Ignore upper and lower case”",
    "of type string": "of categories",
    "type string": "categories",
    "[minimum, maximum] =": "the bounds",
    "to the schema": "here",
    "the schema's type": "the kind of values",
    "in the schema": "here",
}
OPTIONS = {
    "epsilon": "“Epsilon”",
    "delta": "“Delta”",
    "rows": "“About how many rows”",
    "mechanism": "“Mechanism”",
    "certify": "“Percent of the budget for the accuracy certificate”",
    "public": "“A public table to learn from”",
    "ledger": "“Charge to”",
    "dataset": "“Charge to”",
    "max-memory": "its limit of memory",
    "max-seconds": "its limit of time",
}
"""Of the command line, on the page; what else has dashes is an option of a mechanism."""
_SAID = {
    r"\b([Rr])un (?:again|the same command) with --resume(?:, (with more room),)? to continue": (
        lambda found: f"{_case(found[1], 'continue')} this run" + (f" {found[2]}" * bool(found[2]))
    ),
    r"\b([Rr])un (?:again|the same command) with --resume": (
        lambda found: f"{_case(found[1], 'continue')} this run"
    ),
    r"\bContinue it with --resume\b": lambda _: "Continue it",
    r" ?\(in Python: [^)]*\)": lambda _: "",
    r" ?\(`ledger create --delta-share`\)": lambda _: "",
    r" ?\(`admeasure [^`]*`\)": lambda _: "",
    r"`(?:admeasure )?ledger [a-z -]+`": lambda _: "the page “Budget book”",
}
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)(?: (?:DATA|FILE|NAME)\b)?")
_OWN = r"'(?:[^'\\]|\\.)*'" + "|" + r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"`([^`]*)`|({_OWN})|\[\[?([a-z_]+)\]\]?(?! *=)")
_LONGEST_FIRST = sorted(map(re.escape, _BARE), key=len, reverse=True)
_VERB = re.compile(r"\b(Add|declare|set|Write|use|Use) $")
_WORDS = re.compile(rf"(?<!\w)(?:{'|'.join(_LONGEST_FIRST)})(?!\w)")


def in_words(text: str) -> str:
    """A sentence about a schema file as one about the form.

    >>> in_words("Column 'enum' has no enum. Add `enum = […]` to the schema.")
    "Column 'enum' has no categories. Fill in “Categories” here."
    """

    def plainly(text: str, code: str | None) -> str:
        text = _WORDS.sub(lambda found: _BARE[found[0]], text)
        if code is None:
            return text
        verb = "tick " if _field(code) in TICKED else "fill in "
        return _VERB.sub(lambda found: _case(found[1][0], verb), text)

    return _rewritten(text, plainly)


def on_page(text: str) -> str:
    """A sentence about the command line as one about the page.

    >>> on_page("mst: no pair of columns fits 3 MB. Raise --max-megabytes, or use independent.")
    'mst: no pair of columns fits 3 MB. Raise max-megabytes, or use independent. Write \
max-megabytes=… into “Options of the mechanism”.'
    """
    for said, instead in _SAID.items():
        text = re.sub(said, instead, text)
    own: list[str] = []

    def named(found: re.Match[str]) -> str:
        if found[1] not in OPTIONS and found[1] in _of_mechanisms():
            own.append(found[1])
        return OPTIONS.get(found[1], found[1])

    made = _rewritten(text, lambda text, _: _OPTION.sub(named, text))
    if own and " has no option " not in text:
        made += f" Write {own[0]}=… into “Options of the mechanism”."
    return re.sub(r"\b([Gg])ive (?=“)", lambda g: _case(g[1], "fill in "), made)


def _rewritten(text: str, between: Callable[[str, str | None], str]) -> str:
    """Fields, sections and quotations in words, and what stands between them by `between`, which is
    also given the field that follows, if one does."""
    made, end = "", 0
    for token in _TOKEN.finditer(text):
        made += between(text[end : token.start()], token[1]) + _token(token)
        end = token.end()
    return made + between(text[end:], None)


@cache
def _of_mechanisms() -> frozenset[str]:
    """Every option that some mechanism has, as people write it."""
    kinds = REGISTRY.values()
    return frozenset(name.replace("_", "-") for kind in kinds for name in option_names(kind))


def _case(like: str, word: str) -> str:
    return word.capitalize() if like.isupper() else word


def _field(code: str) -> str:
    """The field that a piece of a file begins with."""
    found = re.match(r"[a-z_]*", code.strip("[]"))
    return found[0] if found else ""


def _token(found: re.Match[str]) -> str:
    code, own, section = found.groups()
    if own is not None:
        return own
    if section is not None:
        return _SECTIONS.get(section, section)
    name = _field(code)
    typed = re.fullmatch(r"[a-z_]+ = ('.*'|-?[0-9].*)", code)  # what the user has typed there
    label = LABELS.get(name) or _SECTIONS.get(name) or code
    return f"“{label}”" + (f" {typed[1]}" if typed else "")
