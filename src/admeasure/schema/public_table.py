"""The table of a `[[determines]]` from a CSV file beside the schema file.

What the file says becomes part of the schema, as if it were written there: a release holds the
schema whole, and needs no other file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema.values import quoted
from admeasure.untrusted import read_text


def with_tables(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A parsed schema file with the rows of the tables that it names."""
    entries = document.get("determines")
    if not isinstance(entries, list):
        return dict(document)
    return {**document, "determines": [_filled(entry, folder) for entry in entries]}


def _filled(entry: Any, folder: Path) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get("table"), str):
        return entry
    of, to = entry.get("from"), entry.get("to")
    if not isinstance(of, list) or not isinstance(to, str):
        return entry
    return {**entry, "table": read_rows(folder / entry["table"], [*of, to])}


def read_rows(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The named columns of a CSV file with a header, as texts; each row once."""
    text = read_text(path, SchemaError, called="file of a [[determines]]").removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        absent = [c for c in columns if c not in header]
        if absent:
            raise SchemaError(
                f"{quoted(path.name)} has no column {quoted(absent[0])}. Its first line must name "
                f"the columns {', '.join(quoted(c) for c in columns)}."
            )
        places = [header.index(c) for c in columns]
        rows = [[line[i] for i in places] for line in reader if line]
    except (csv.Error, IndexError):
        raise SchemaError(
            f"{quoted(path.name)} has a line {reader.line_num} with fewer fields than its header, "
            "or a quote that is not closed. Correct the line."
        ) from None
    return [list(row) for row in dict.fromkeys(map(tuple, rows))]
