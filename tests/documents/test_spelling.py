"""One spelling: British, in all that people read. Names of code are as their authors chose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import ROOT, pages, prose

STEMS = (
    "author|categor|central|character|custom|discret|emphas|equal|factor|final|general|initial|item"
    "|local|marginal|material|maxim|minim|modern|normal|optim|organ|parallel|penal|privat|quant"
    "|random|real|recogn|regular|serial|special|stabil|standard|summar|symmetr|synthes|token|util"
    "|vector|visual"
)
FOREIGN = re.compile(
    r"\b(\w*(?:"
    rf"(?:{STEMS})iz(?:e|es|ed|er|ers|ing|ation|ations|able)"
    r"|analyz(?:e|es|ed|er|ing)|(?:col|neighb|behavi|fav|hon|lab)or(?:s|ed|ing|s?'s)?"
    r"|(?:label|model|cancel|travel)(?:ed|ing)|artifacts?|defense|fulfill?ment"
    r")|centers?|centered|grays?|toward|(?:mis)?spelt|learnt|judgment|program(?:me)s?)\b",
    re.IGNORECASE,
)
"""American words, and the rarer of two that are both British."""
TECHNICAL = {
    "canceled",  # a state of PostgreSQL's driver
    "color",  # a property of style sheets
    "materialized",  # a kind of view, by its name in SQL
    "no_color",  # a variable of the environment that programs agree on
}


def foreign(text: str) -> list[str]:
    """
    >>> foreign("an optimised colour, and the optimizer of `scipy.optimize`")
    ['optimizer']
    """
    plain = re.sub(r"``?[^`\n]*``?|== \w+", "", text)  # code, and headings of Spark's plans
    return [w for w in FOREIGN.findall(plain) if w.lower() not in TECHNICAL]


def spoken(source: str) -> Iterator[str]:
    """Comments, docstrings and texts with a space in them: what people may read of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


@pytest.mark.parametrize("page", pages(), ids=str)
def test_a_page_is_in_british_spelling(page):
    assert foreign(prose(ROOT / page)) == []


def test_messages_docstrings_and_comments_are_in_british_spelling():
    found = {}
    for module in (ROOT / "src").rglob("*.py"):
        words = [word for text in spoken(module.read_text("utf-8")) for word in foreign(text)]
        if words:
            found[str(module.relative_to(ROOT))] = words
    assert found == {}


def test_pages_of_reports_and_of_the_local_page_are_in_british_spelling():
    found = {}
    for page in (ROOT / "src").rglob("*"):
        if page.suffix not in (".html", ".js", ".j2"):
            continue
        text = re.sub(
            r"[\w.-]+[:=]\s*[\"'][^\"' ]*[\"']|\.\w+|-\w+", "", Path(page).read_text("utf-8")
        )
        if words := foreign(text):
            found[str(page.relative_to(ROOT))] = words
    assert found == {}


def test_an_american_word_is_found():
    assert foreign("The behavior of a normalized, labeled color.") == [
        "behavior",
        "normalized",
        "labeled",
    ]
    assert foreign("`optimize` minimises; the program's size; a real size") == []
