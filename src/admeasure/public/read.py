"""Public tables from files, frames and columns. Only the schema's columns are read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from admeasure.errors import DataError, UsageError
from admeasure.mechanisms.base import LearnsFromPublic, Mechanism
from admeasure.public.table import PublicTable
from admeasure.schema import Schema
from admeasure.schema.encode import marks, settle
from admeasure.schema.frames import Frame, Stored, stored_array
from admeasure.schema.problems import Refusal, resolve
from admeasure.sources.open import is_path
from admeasure.sources.tables import layout, locate


def read_public(
    data: Any, schema: Schema, *, name: str | None = None, fill: bool = True
) -> PublicTable:
    """A public table: a path, a frame, a dict of columns, or one that was read before. Columns that
    it lacks are filled in, unless `fill` is false.

    Rows with a value that the schema has no level for are left out, and a note says how many.
    """
    if isinstance(data, PublicTable):
        return data
    if is_path(data):
        names, rows, column = _opened(data)
        called = name or (Path(data).name if isinstance(data, (str, Path)) else "the public files")
    else:
        frame = Frame(data)
        names, rows, column = frame.names, frame.rows, frame.column
        called = name or "the public table"
    readable = np.ones(rows, dtype=bool)
    marked, strays = {}, []
    for described in schema.columns:
        if names.count(described.name) != 1:
            continue
        found = marks(described, column(described.name))
        refused = [int(r) for r in Refusal if resolve(described, r) is None]
        bad = np.isin(found, refused)
        if bad.any():
            strays.append(described.name)
            readable &= ~bad
        marked[described.name] = found
    codes = {c: settle(schema.column(c), found[readable]) for c, found in marked.items()}
    notes = []
    if strays:
        notes.append(
            f"{int((~readable).sum()):,} of {rows:,} rows of {called} have a value in "
            f"{', '.join(strays)} that the schema has no level for, and are left out."
        )
    return PublicTable.from_codes(codes, schema.domain, name=called, notes=notes, fill=fill)


def _opened(data: Any) -> tuple[list[str], int, Callable[[str], Stored]]:
    """Names, number of rows and columns by name of a table in files."""
    location = locate(data)
    with contextlib.closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            parts = layout(connection, location)
            if len({part.names for part in parts}) > 1:
                raise DataError("The public files differ in their columns. Give files of one form.")
            names = list(parts[0].names)
            aliases = ", ".join(f"c{i}" for i in range(len(names)))
            pieces = [
                connection.execute(f"SELECT * FROM {part.relation} AS t({aliases})").fetchnumpy()
                for part in parts
            ]
        except duckdb.Error:
            raise DataError(
                f"{location.words} cannot be read. Check that it is whole, and its header."
            ) from None
    rows = sum(len(piece["c0"]) for piece in pieces)

    def column(name: str) -> Stored:
        held = [piece[f"c{names.index(name)}"] for piece in pieces]
        joined = np.ma.concatenate(held) if len(held) > 1 else held[0]
        whole = not np.ma.isMaskedArray(joined) or not np.ma.getmaskarray(joined).any()
        return stored_array(np.ma.getdata(joined) if whole else joined)

    return names, rows, column


def given_public(mechanism: Mechanism, data: Any, schema: Schema) -> Mechanism:
    """The mechanism with the public table that was named for it; unchanged where none was."""
    if data is None:
        return mechanism
    if not isinstance(mechanism, LearnsFromPublic):
        raise UsageError(
            f"{mechanism.name} learns nothing from a public table. Leave --public out, or use "
            "pmw-pub, pep-pub or gem-pub."
        )
    fill = getattr(type(mechanism), "fills_public", True)
    return mechanism.with_public(read_public(data, schema, fill=fill))
