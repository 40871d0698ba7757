"""What a kind of source says of itself: which texts and objects name a table of it, how that table
is opened, checked and drafted from, and what of its addresses may be shown.

Each folder of sources has one such record in its `kind.py`; `admeasure.sources.kinds` lists them.
The libraries of a kind are imported by the methods and not by the module, so that an address is
known, and shown, without them.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admeasure.errors import DataError, UsageError
from admeasure.extras import need

if TYPE_CHECKING:
    from admeasure.schema.model import Schema
    from admeasure.schema.problems import Problem
    from admeasure.sources import Source


class NotFixed(Exception):
    """What a view, a query or a plan does that is not on the list of what gives the same rows at
    every scan."""


def refusal(
    words: str, found: NotFixed, instead: str = "a table first: CREATE TABLE … AS"
) -> DataError:
    return DataError(
        f"{words[0].upper()}{words[1:]} cannot be read as it stands: {found}, so that its rows may "
        f"not be the same at every scan. Write it into {instead}."
    )


Progress = Callable[[float], None]
"""Called with the fraction of a scan that is done, now and then."""


@dataclass(frozen=True)
class ScanOptions:
    """What `admeasure.sources.open.open_source` is told of how a table is to be read."""

    memory_megabytes: float | None = None
    cache: str | Path | None = None
    progress: Progress | None = None


# Letters and digits of any script, and escapes of a slash, a space, a quote, a bracket and bytes
# beyond ASCII: nothing that separates a password from what is around it.
CHARACTER = r'(?:[\w.+~"$, -]|%2[0F2]|%5[BD]|%[89A-F][0-9A-F])'
NAME = rf"{CHARACTER}+"
HOST = rf"(?:\[[0-9A-F:.]*\]|{CHARACTER}*)(?::[0-9]{{1,5}})?"
# The key of a folder in the manner of Hive: year=2024.
KEY = r"(?!\w*(?:pass|pwd|secret|token|key|cred|sig|auth|dsn))[\w.-]+="
TEXT = rf"(?:/|{CHARACTER})*"
WHOLE = "[0-9]+"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


@dataclass(frozen=True)
class Scheme:
    """A scheme of addresses. `form` is for messages. `place` and the values of `options` (which an
    address may have besides `table`) are patterns of what has no room for a password."""

    name: str
    form: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def start(self) -> str:
        """How an address of this kind begins."""
        return self.form[: len(self.form) - len(self.form.lstrip("abcdefghijklmnopqrstuvwxyz:/"))]

    @cached_property
    def harmless(self) -> re.Pattern[str]:
        """An address all of which may be shown."""
        values = {**dict(sorted(self.options.items())), "table": NAME}
        one = "|".join(f"{name}={form}" for name, form in values.items())
        return re.compile(
            rf"{self.name}:{self.place}(?:\?(?:{one})(?:&(?:{one}))*)?", re.IGNORECASE
        )


class Kind(ABC):
    """One kind of source. `data` is what a caller named the table by: see `reads`."""

    schemes: tuple[Scheme, ...]
    library: str = ""
    """Whose own objects are tables too; the extra of `needs` installs it."""
    subtracts: bool = False
    """Whether its sources read a `[[difference]]` of two columns."""
    needs: tuple[str, str] | None = None
    """The extra, and what it is needed for."""

    def reads(self, data: Any) -> bool:
        """Whether `data` names a table of this kind. Nothing is imported to find out."""
        module = type(data).__module__
        if self.library and module.partition(".")[0] == self.library:
            return not module.startswith("pyspark.pandas")
        return (scheme_of(data) or "").lower() in {scheme.name for scheme in self.schemes}

    def check_readable(self, schema: Schema) -> None:
        """A one-line error where the schema needs what sources of this kind cannot do."""
        if schema.difference and not self.subtracts:
            entry = schema.difference[0]
            raise UsageError(
                "A [[difference]] is computed for files and tables in memory alone. Give the table "
                f"a column {entry.column!r} that holds it, and leave out the [[difference]]; or "
                "write the rows to a file first."
            )

    def check_installed(self) -> None:
        """A one-line error where the kind's library is missing."""
        if self.needs is not None:
            need(self.library, *self.needs)

    @abstractmethod
    def open(self, data: Any, schema: Schema, how: ScanOptions) -> Source:
        """The source, read and validated: see `admeasure.sources.open.open_source`."""

    @abstractmethod
    def find_problems(self, data: Any, schema: Schema) -> list[Problem]:
        """Every rule of the schema that the table breaks; an empty list where it is sound. For the
        steward who holds the table: that a rule is broken is knowledge of the table."""

    @abstractmethod
    def storage_types(self, data: Any) -> list[tuple[str, str]]:
        """Names and storage types of the columns, in the words of DuckDB. No row is looked at."""

    def column_names(self, data: Any, encoding: str | None) -> list[str]:
        """Names of the columns; those of a CSV file are in this encoding."""
        return [name for name, _ in self.storage_types(data)]

    def distinct_values(
        self, data: Any, name: str, encoding: str | None
    ) -> Iterator[tuple[Any, int]]:
        """The values of a column and how many rows have each: NOT PRIVATE, for `check --show`."""
        raise UsageError(
            "--show looks at tables in files. Ask the database itself for values of this one."
        )

    @abstractmethod
    def table_name(self, data: Any) -> str:
        """A name for the table."""

    @abstractmethod
    def identity(self, data: Any) -> str:
        """What tells the table from others, without who asks and how. It may be hashed, and not
        shown."""


def scheme_of(data: Any) -> str | None:
    """The scheme of an address; None for whatever else, and for a file of such a name."""
    if not isinstance(data, str) or (found := _SCHEME.match(data)) is None:
        return None
    return None if os.path.exists(data) else found[1]


def stem(path: str | Path) -> str:
    """A name for a table in files."""
    name = Path(str(path).rstrip("/")).name.split(".")[0]
    return name if name and not set(name) & set("*?[]") else "table"
