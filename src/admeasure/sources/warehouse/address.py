"""Addresses of warehouse tables, and what of them may be shown.

    postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE?table=[SCHEMA.]TABLE
    bigquery://PROJECT/DATASET?table=TABLE
    snowflake://USER[:PASSWORD]@ACCOUNT/DATABASE/SCHEMA?table=TABLE[&warehouse=…&role=…]

A table is named as it is stored, case and all; `"a.b".c` names a table of a schema with a dot.
A password may stand in an address, and is shown nowhere: messages are made of its
`words`, and of an address as it was given of `admeasure.sources.address.printable`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from admeasure.errors import UsageError
from admeasure.schema.values import quoted
from admeasure.sources.address import HIDDEN, PLAIN
from admeasure.sources.kind import WHOLE
from admeasure.sources.kinds import SCHEMES

_NAMES = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))(?:\.(?=.)|$)')
_IPV6 = re.compile(r"[0-9a-fA-F]*:[0-9a-fA-F:.]*")


@dataclass(frozen=True)
class WarehouseAddress:
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
        return f"table {quoted('.'.join(map(_plain, self.table)))} of {self.place}"

    @property
    def identity(self) -> tuple:
        return self.kind, self.host, self.port, self.path, self.table

    @property
    def place(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        host = f"[{self.host}]" if _IPV6.fullmatch(self.host) else _plain(self.host.strip("/"))
        return f"{self.kind}://{host}{port}/{'/'.join(map(_plain, self.path))}"


def parse(url: str) -> WarehouseAddress:
    """The parts of an address; a UsageError, without the address, where it has another form."""
    kind = url.partition(":")[0].lower()
    kind = "postgres" if kind == "postgresql" else kind
    scheme = SCHEMES[kind]
    wrong = UsageError(f"An address of a table of {kind} has the form {scheme.form}.")
    try:
        parts = urlsplit(url)
        port = parts.port
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise wrong from None
    query = dict(pairs)
    path = tuple(unquote(step) for step in parts.path.strip("/").split("/") if step)
    steps = urlsplit(scheme.form).path.count("/")
    if len(query) < len(pairs) or parts.fragment or len(path) != steps:
        raise wrong from None
    allowed = {"table", *scheme.options}
    if set(query) - allowed:  # not named: part of a password may look like one
        known = ", ".join(sorted(allowed))
        raise UsageError(f"An address of {kind} has an option that is not known. Known: {known}.")
    if not query.get("table"):
        raise UsageError(f"Name the table: {scheme.form}.")
    for name, form in scheme.options.items():
        if form == WHOLE and name in query and not re.fullmatch(WHOLE, query[name]):
            raise UsageError(f"Option {name} of an address is a whole number of seconds.")
    # BigQuery's projects keep their case, which `hostname` would not.
    host = parts.netloc.rpartition("@")[2] if kind == "bigquery" else parts.hostname
    if not host and "host" not in query:
        raise wrong from None
    return WarehouseAddress(
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
                "What follows table= names no table. Write SCHEMA.TABLE; put a name that has a dot "
                "in it in double quotes."
            )
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
    return tuple(found)


def _plain(name: str) -> str:
    """A name for messages: a part of a password may have ended up in it."""
    return name if PLAIN.fullmatch(name.replace("/", "")) else HIDDEN
