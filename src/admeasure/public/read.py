"""Public tables from files, frames and columns. Only the schema's columns are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

from admeasure.errors import AdmeasureError, DataError, UsageError
from admeasure.limits import available_megabytes
from admeasure.public.table import PublicTable
from admeasure.schema import Schema
from admeasure.schema.encode import marks, settle, stored
from admeasure.schema.frames import Frame, StoredColumn, stored_array
from admeasure.schema.problems import Refusal, resolve
from admeasure.sources.files.engine import LEAST_MEGABYTES, connected
from admeasure.sources.files.kind import FILES
from admeasure.sources.files.tables import Location, layout, locate
from admeasure.sources.kinds import kind_of
from admeasure.sources.open import is_path


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
        table, sha256 = _opened(data, schema)
        called = name or (Path(data).name if isinstance(data, (str, Path)) else "the public files")
    else:
        table, sha256 = Frame(data), None
        called = name or "the public table"
    readable = np.ones(table.rows, dtype=bool)
    marked, strays = {}, []
    for described in schema.columns:
        if any(table.names.count(name) != 1 for name in schema.stored_as(described.name)):
            continue
        found = marks(described, stored(schema, described, table.column))
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
            f"{int((~readable).sum()):,} of {table.rows:,} rows of {called} have a value in "
            f"{', '.join(strays)} that the schema has no level for, and are left out."
        )
    made = PublicTable.from_codes(codes, schema.domain, name=called, notes=notes, fill=fill)
    return replace(made, files_sha256=sha256)


class _Opened(NamedTuple):
    """A table in files, of the form of a `Frame`."""

    names: list[str]
    rows: int
    column: Callable[[str], StoredColumn]


def _opened(data: Any, schema: Schema) -> tuple[_Opened, str]:
    """A table in files, and a hash of these. Nothing but these files can be reached
    (`sources.files.engine`): a view of a hostile DuckDB file could otherwise read the private
    table, and publish it."""
    location = locate(data)
    before = _hash(location)
    with connected(location.paths, max(available_megabytes() / 2, LEAST_MEGABYTES)) as connection:
        try:
            parts = layout(connection, location)
            if len({part.names for part in parts}) > 1:
                raise DataError("The public files differ in their columns. Give files of one form.")
            names = list(parts[0].names)
            wanted = [f"k{i}" for i, n in enumerate(names) if n in schema.stored_names] or ["k0"]
            pieces = [
                connection.execute(f"SELECT {', '.join(wanted)} FROM {part.rows}").fetchnumpy()
                for part in parts
            ]
        except duckdb.Error:
            raise DataError(
                f"{location.words} cannot be read. Check that it is whole, and its header."
            ) from None
    if _hash(location) != before:
        raise DataError(f"{location.words} changed while it was read. Start again.")
    rows = sum(len(piece[wanted[0]]) for piece in pieces)

    def column(name: str) -> StoredColumn:
        held = [piece[f"k{names.index(name)}"] for piece in pieces]
        joined = np.ma.concatenate(held) if len(held) > 1 else held[0]
        whole = not np.ma.isMaskedArray(joined) or not np.ma.getmaskarray(joined).any()
        return stored_array(np.ma.getdata(joined) if whole else joined)

    return _Opened(names, rows, column), before


def _hash(location: Location) -> str:
    """The SHA-256 of the one file; of several, that of their hashes, one a line. What a DuckDB file
    has not yet taken in from the log beside it is a file of its own."""
    logs = [Path(f"{path}.wal") for path in location.paths if location.format == "duckdb"]
    hashes = []
    for path in (*location.paths, *(log for log in logs if log.exists())):
        with path.open("rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(f"{one}\n" for one in hashes).encode()).hexdigest()


def check_apart(private: Any, public: Any) -> None:
    """Refuses a public table that is a file of the private one, also by another path or a link."""
    if not all(kind_of(one) is FILES for one in (private, public)):
        return
    try:
        own = {(s.st_dev, s.st_ino) for s in (p.stat() for p in locate(private).paths)}
        theirs = {(s.st_dev, s.st_ino) for s in (p.stat() for p in locate(public).paths)}
    except (AdmeasureError, OSError):
        return  # whoever opens it says what is wrong
    if own & theirs:
        raise UsageError(
            "The public table is the private one. Name a table that needs no protection."
        )
