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

HIDDEN = "…"

FORMS = {
    "postgres": "postgres://USER@HOST:PORT/DATABASE?table=SCHEMA.TABLE",
    "bigquery": "bigquery://PROJECT/DATASET?table=TABLE",
    "snowflake": "snowflake://USER@ACCOUNT/DATABASE/SCHEMA?table=TABLE",
}
OPTIONS = {
    "postgres": {
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "host"),
        "statement_timeout",
    },
    "bigquery": set[str](),
    "snowflake": {"warehouse", "role", "authenticator"},
    "spark": {"format", "master", "keep"},
    "duckdb": set[str](),
}
"""The options of each kind of address, besides `table`."""

NUMBERS = {"connect_timeout", "statement_timeout"}
"""Options that are whole numbers."""

# Letters and digits of any script, and escapes of a slash, a space, a quote, a bracket and bytes
# beyond ASCII: nothing that separates a password from what is around it.
_CHARACTER = r'(?:[\w.+~"$, -]|%2[0F2]|%5[BD]|%[89A-F][0-9A-F])'
_NAME = rf"{_CHARACTER}+"
_STEPS = rf"(?:/{_CHARACTER}*)*"
# A folder in the manner of Hive: year=2024.
_KEY = r"(?!\w*(?:pass|pwd|secret|token|key|cred|sig|auth|dsn))[\w.-]+="
_GLOB = r'(?:[\w.+~"$, *\[\]{}-]|%2[0F2A]|%3F|%[57][BD]|%[89A-F][0-9A-F])*'
_GLOBS = rf"(?:{_KEY})?{_GLOB}(?:/(?:{_KEY})?{_GLOB})*"
_MASTER = r"[\w.+\[\]*,:/-]+"
_HOST = rf"(?:\[[0-9A-F:.]*\]|{_CHARACTER}*)(?::[0-9]{{1,5}})?"
_STORES = "s3|s3a|s3n|gs|gcs|hdfs|webhdfs|file|dbfs|adl|oss|abfs|abfss|wasb|wasbs|viewfs"
_CONTAINERS = "abfs|abfss|wasb|wasbs"
_PLACES = rf"(?:(?:{_STORES}):(?://{_HOST})?|(?:{_CONTAINERS})://{_NAME}@{_HOST})?{_GLOBS}"
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_PASSWORD = re.compile(r"(\s*[a-z]+://[^:@/?#]*):[^@/?#]*@", re.IGNORECASE)


def _options(kind: str) -> str:
    value = _MASTER if kind == "spark" else rf"(?:/|{_CHARACTER})*"
    values = {name: "[0-9]+" if name in NUMBERS else value for name in sorted(OPTIONS[kind])}
    one = "|".join(f"{name}={form}" for name, form in {**values, "table": _NAME}.items())
    one = f"(?:{one})"
    return rf"(?:\?{one}(?:&{one})*)?"


def _form(scheme: str, kind: str, place: str) -> re.Pattern[str]:
    return re.compile(rf"(?i:{scheme}):{place}{_options(kind)}", re.IGNORECASE)


_REMOTE = rf"//(?:{_NAME}@)?{_HOST}{_STEPS}"
_HARMLESS = {
    "postgres": _form("postgres", "postgres", _REMOTE),
    "postgresql": _form("postgresql", "postgres", _REMOTE),
    "bigquery": _form("bigquery", "bigquery", _REMOTE),
    "snowflake": _form("snowflake", "snowflake", _REMOTE),
    "duckdb": _form("duckdb", "duckdb", rf"(?:{_CHARACTER}|/)*"),
    "spark": _form("spark", "spark", _PLACES),
}
_STEP = rf"(?:[^@=:/\\]*|{_KEY}[^@=:\s/\\]*)"
_PATH = re.compile(rf"(?:[A-Z]:(?=[\\/]))?{_STEP}(?:[\\/]{_STEP})*", re.IGNORECASE)
PLAIN = re.compile(_NAME)
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
    form = _HARMLESS.get(found[1].lower())
    if form is None:
        return HIDDEN
    for one in (text, _PASSWORD.sub(r"\1@", text, count=1)):
        if form.fullmatch(one):
            return one
    return f"{found[1].lower()}:{HIDDEN}"


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
