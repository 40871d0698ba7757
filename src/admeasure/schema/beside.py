"""Files that a schema names: the tables of `[[determines]]`, and what an error may show of any.

What such a file says becomes part of the schema, as if it were written there: a release holds the
schema whole, and needs no other file.

Lists, hierarchies and tables beside a schema are public, and so its errors would quote them. But a
steward may name the private table there by mistake, and it is refused, as it is no hierarchy. So an
error says the line in the place of what stands there, whichever sentence would have quoted it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
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
    text = read_text(path, SchemaError, called="file of a [[determines]]")
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


def without_values(message: str, written: Mapping[str, Any], folder: Path) -> str:
    """A message about a schema, as `written` in its file, that shows no text that is only in the
    files that it names."""
    for name in dict.fromkeys(_files(written)):
        for number, cells in _lines(folder / name):
            for cell in cells:
                if (text := quoted(cell)) in message and cell not in (*_texts(written), ""):
                    message = message.replace(text, f"(line {number} of {quoted(name)})")
    return message


def _files(written: Mapping[str, Any]) -> Iterator[str]:
    for section, fields in (("column", ("enum_file", "levels_of")), ("determines", ("table",))):
        entries = written.get(section)
        for entry in entries if isinstance(entries, list) else ():
            named = (entry.get(field) for field in fields) if isinstance(entry, dict) else ()
            yield from (name for name in named if isinstance(name, str))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line, read as a table or as a list."""
    try:
        text = read_text(path)
    except Exception:  # then the message is about that
        return
    for number, line in enumerate(text.splitlines(), start=1):
        yield number, [line]
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error:  # as far as whoever read it can have come
        return


def _texts(part: Any) -> Iterator[str]:
    """Every text that a schema file itself has."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        yield from part
        for value in part.values():
            yield from _texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value)
