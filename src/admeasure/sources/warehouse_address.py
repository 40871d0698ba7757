"""Addresses of warehouse tables, and what of them may be shown.

    postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE?table=[SCHEMA.]TABLE
    bigquery://PROJECT/DATASET?table=TABLE
    snowflake://USER[:PASSWORD]@ACCOUNT/DATABASE/SCHEMA?table=TABLE[&warehouse=…&role=…]

A table is named as it is stored, case and all; `"a.b".c` names a table of a schema with a dot.
A password may stand in an address, and is shown nowhere: messages are made of `Address.words`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from admeasure.errors import UsageError
from admeasure.schema.values import quoted

FORMS = {
    "postgres": "postgres://USER@HOST:PORT/DATABASE?table=SCHEMA.TABLE",
    "bigquery": "bigquery://PROJECT/DATASET?table=TABLE",
    "snowflake": "snowflake://USER@ACCOUNT/DATABASE/SCHEMA?table=TABLE",
}
_OPTIONS = {
    "postgres": {
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "host"),
        "statement_timeout",
    },
    "bigquery": set(),
    "snowflake": {"warehouse", "role", "authenticator"},
}
_NAMES = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))(?:\.(?=.)|$)')
_NUMBERS = {"connect_timeout", "statement_timeout"}


@dataclass(frozen=True)
class Address:
    """The parts of an address. The password does not show in its `repr`."""

    kind: str
    host: str
    path: tuple[str, ...]
    table: tuple[str, ...]
    user: str | None = None
    port: int | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """For messages: the table and where it is."""
        return f"table {quoted('.'.join(self.table))} of {self.place}"

    @property
    def place(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{self.kind}://{self.host}{port}/{'/'.join(self.path)}"


def parse(url: str) -> Address:
    """The parts of an address; a UsageError, without the address, where it has another form."""
    kind = url.partition(":")[0].lower()
    kind = "postgres" if kind == "postgresql" else kind
    wrong = UsageError(f"An address of a table of {kind} has the form {FORMS[kind]}.")
    try:
        parts = urlsplit(url)
        port = parts.port
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise wrong from None
    query = dict(pairs)
    path = tuple(unquote(step) for step in parts.path.strip("/").split("/") if step)
    steps = {"postgres": (1, 1), "bigquery": (1, 1), "snowflake": (2, 2)}[kind]
    if len(query) < len(pairs) or parts.fragment or not steps[0] <= len(path) <= steps[1]:
        raise wrong from None
    if unknown := sorted(set(query) - _OPTIONS[kind] - {"table"}):
        known = ", ".join(sorted({"table", *_OPTIONS[kind]}))
        raise UsageError(
            f"An address of {kind} has no option {quoted(unknown[0])}. Known: {known}."
        )
    if not query.get("table"):
        raise UsageError(f"Name the table: {FORMS[kind]}.")
    for name in _NUMBERS & set(query):
        if not query[name].isascii() or not query[name].isdigit():
            raise UsageError(f"Option {name} of an address is a whole number of seconds.")
    # BigQuery's projects keep their case, which `hostname` would not.
    host = parts.netloc.rpartition("@")[2] if kind == "bigquery" else parts.hostname
    if not host and "host" not in query:
        raise wrong from None
    return Address(
        kind=kind,
        host=unquote(host or query["host"]),
        path=path,
        table=table_names(query.pop("table")),
        user=None if parts.username is None else unquote(parts.username),
        port=port,
        password=None if parts.password is None else unquote(parts.password),
        options=query,
    )


def table_names(text: str) -> tuple[str, ...]:
    """
    >>> table_names('census.people'), table_names('"a.b".c')
    (('census', 'people'), ('a.b', 'c'))
    """
    found, position = [], 0
    while position < len(text):
        match = _NAMES.match(text, position)
        if match is None:
            raise UsageError(
                f"{quoted(text)} does not name a table. Write SCHEMA.TABLE; put a name that has a "
                "dot in it in double quotes."
            )
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
    return tuple(found)


def shown(url: str) -> str:
    """An address without its password, for messages; any other text as it is.

    >>> shown("postgres://ann:secret@db.example/census?table=people")
    'postgres://ann@db.example/census?table=people'
    """
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    # Of a malformed address nothing is known to be harmless before the last @.
    if not mark or scheme.lower() not in {*FORMS, "postgresql"}:
        return url
    if "@" in path.partition("?")[0]:
        return f"{scheme}://…"
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"
