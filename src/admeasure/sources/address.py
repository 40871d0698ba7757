"""What may be shown of the text that names a table: the one place that decides it.

An address can hold a password, in its place or out of it: `ann:pa/ss@host`, `?password=…`, a list
of settings, an address whose scheme is missing. So nothing is searched for secrets; a text is shown
where all of it has a form that has no room for one, and else as much as its scheme. Every message,
progress line, log and file that speaks of a table shows `printable` of its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from admeasure.schema.values import quoted
from admeasure.sources.kind import KEY, NAME
from admeasure.sources.kinds import SCHEMES

HIDDEN = "…"

_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_PASSWORD = re.compile(r"(\s*[a-z]+://[^:@/?#]*):[^@/?#]*@", re.IGNORECASE)
_STEP = rf"(?:[^@=:/\\]*|{KEY}[^@=:\s/\\]*)"
_PATH = re.compile(rf"(?:[A-Z]:(?=[\\/]))?{_STEP}(?:[\\/]{_STEP})*", re.IGNORECASE)
PLAIN = re.compile(NAME)
"""A name that has no room for a password."""


def printable(data: Any) -> str:
    """What messages, logs and files may show of the text that names a table.

    >>> printable("postgres://ann:secret@db.example/census?table=people")
    'postgres://ann@db.example/census?table=people'
    >>> printable("postgres://ann:sec/ret@db.example/census?table=people")
    'postgres:…'
    >>> printable("part-*.parquet"), printable("host=db password=secret")
    ('part-*.parquet', '…')
    """
    if isinstance(data, (list, tuple)):
        return ", ".join(printable(one) for one in data)
    text = str(data)
    if os.path.exists(text):
        return text
    found = _SCHEME.match(text)
    if found is None:
        return text if _PATH.fullmatch(text) else HIDDEN
    scheme = SCHEMES.get(found[1].lower())
    if scheme is None:
        return HIDDEN
    for one in (text, _PASSWORD.sub(r"\1@", text, count=1)):
        if scheme.harmless.fullmatch(one):
            return one
    return f"{scheme.name}:{HIDDEN}"


def holds_secret(data: Any) -> bool:
    """Whether something of a text that names a table may not be shown."""
    return printable(data) != str(data)


def _written(value: str) -> Iterator[str]:
    """The forms that a message may give a text."""
    for text in (value, str(Path(value)), " ".join(value.split())):
        yield text
        yield repr(text)[1:-1]
        yield quoted(text)[1:-1]


def without_secrets(message: str, words: Sequence[str]) -> str:
    """A message that may repeat some of these words, with what may be shown of each."""
    values = {part for word in words for part in (word, word.partition("=")[2])}
    for value in sorted(values, key=len, reverse=True):
        if value and holds_secret(value):
            for form in _written(value):
                message = message.replace(form, printable(value))
    return message
