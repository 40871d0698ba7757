"""The kinds of sources, and with them the schemes of addresses: the one list of both."""

from __future__ import annotations

from typing import Any

from admeasure.errors import UsageError
from admeasure.sources.files.kind import FILES
from admeasure.sources.kind import Kind, Scheme
from admeasure.sources.spark.kind import SPARK
from admeasure.sources.warehouse.kind import WAREHOUSE

KINDS: tuple[Kind, ...] = (WAREHOUSE, SPARK, FILES)
"""The first that reads a table is taken; files take every text that is left."""

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for kind in KINDS for scheme in kind.schemes}


def kind_of(data: Any) -> Kind | None:
    """The kind of source that a table is named for; None for a table in memory."""
    return next((kind for kind in KINDS if kind.reads(data)), None)


def installed_kind(data: Any) -> Kind:
    """The same for a table that lies elsewhere, with what it needs at hand."""
    kind = kind_of(data)
    if kind is None:
        raise UsageError(f"A {type(data).__name__} is no path or address of a table.")
    kind.check_installed()
    return kind
