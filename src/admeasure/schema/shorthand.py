"""What a schema file may leave unsaid: one block for many columns, columns like others, lists in
files of their own, and ready blocks. All of it is written out before the schema is read, so that a
schema, and every release, holds each column whole.

    [[column]]
    names = ["diag_1", "diag_2"]     # one column each
    like = "diag"                    # the fields of another column; what stands here goes before
    ready = "us-state"               # the fields of a ready block (admeasure.schema.ready)
    enum_file = "wards.txt"          # beside the schema file: one value a line, or a CSV file
    levels_of = "icd10.csv"          # likewise: a CSV file of codes and their groups
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema.ready import READY
from admeasure.schema.values import did_you_mean, quoted
from admeasure.untrusted import read_text

FIELDS = ("names", "like", "ready", "enum_file")
MOST_ENTRIES = 10_000_000
"""Of all enums together: a small file must not ask for more than there is memory."""

_OWN = {"name", "names", "title", "description"}
_LEVELS = {"enum", "enum_file", "levels_of", "edges", "bins", "minimum", "maximum"}
_INSTEAD = {
    "enum": _LEVELS,
    "enum_file": _LEVELS,
    "levels_of": _LEVELS,
    "edges": _LEVELS,
    "bins": {"edges", "enum", "enum_file"},
    "ready": _LEVELS | {"type", "ready"},
}
"""Fields of another column that a field takes the place of."""


def written_out(document: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """A parsed schema file without shorthand; `folder` is that of the file, None where there is
    none, and then no other file is read."""
    columns = document.get("column")
    if not isinstance(columns, list) or not any(_is_short(column) for column in columns):
        return dict(document)
    spread = [
        _several(column, position) if _is_short(column) else [column]
        for position, column in enumerate(columns)
    ]
    named = {
        c["name"]: c
        for several in spread
        for c in several
        if isinstance(c, dict) and isinstance(c.get("name"), str)
    }
    made: list[Any] = []
    entries = 0
    for column, several in zip(columns, spread, strict=True):
        if not _is_short(column):
            made.append(column)
            continue
        for one in several:
            whole = _whole(one, named, folder, ())
            made.append(whole)
            lists = (whole.get(field) for field in ("enum", "levels_of"))
            entries += sum(len(one) for one in lists if isinstance(one, list | dict))
            if entries > MOST_ENTRIES:
                raise SchemaError(
                    f"The lists of all columns together have more than {MOST_ENTRIES:,} values. "
                    "Leave out columns, or use shorter lists."
                )
    return {**document, "column": made}


def _is_short(column: object) -> bool:
    return isinstance(column, dict) and (
        any(field in column for field in FIELDS) or isinstance(column.get("levels_of"), str)
    )


def _several(column: dict[str, Any], position: int) -> list[dict[str, Any]]:
    """One block for each name."""
    if "names" not in column:
        return [column]
    names = column["names"]
    called = f"The [[column]] number {position + 1}"
    if "name" in column:
        raise SchemaError(f"{called} has both name and names. Keep one of them.")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise SchemaError(f'{called} has `names` that is no list of names. Write ["a", "b"].')
    rest = {field: value for field, value in column.items() if field != "names"}
    return [{"name": name, **rest} for name in names]


def _whole(
    column: Mapping[str, Any],
    named: Mapping[str, Mapping[str, Any]],
    folder: Path | None,
    above: tuple[str, ...],
) -> dict[str, Any]:
    """A column's fields, with those that it takes from elsewhere."""
    called = f"Column {quoted(column.get('name', '?'))}"
    taken: dict[str, Any] = {}
    if "like" in column:
        taken = _from_column(column["like"], called, named, folder, above)
    if "ready" in column:
        taken = _without(taken, "ready") | dict(_ready(column["ready"], called))
    own = {f: v for f, v in column.items() if f not in ("like", "ready", "enum_file")}
    for field in set(column) - {"ready"}:
        taken = _without(taken, field)
    if isinstance(column.get("levels_of"), str):
        own["levels_of"] = _groups(column["levels_of"], called, str(column.get("name", "")), folder)
    if "enum_file" in column:
        own["enum"] = _listed(column["enum_file"], called, str(column.get("name", "")), folder)
    return {**own, **{f: v for f, v in taken.items() if f not in own}}


def _without(taken: dict[str, Any], field: str) -> dict[str, Any]:
    gone = _INSTEAD.get(field, set())
    return {f: v for f, v in taken.items() if f not in gone}


def _from_column(
    like: object,
    called: str,
    named: Mapping[str, Mapping[str, Any]],
    folder: Path | None,
    above: tuple[str, ...],
) -> dict[str, Any]:
    if not isinstance(like, str) or like not in named:
        hint = did_you_mean(like, named) or "Name a column that has a `name`."
        raise SchemaError(f"{called} is like {quoted(like)}, which is no column. {hint}")
    if like in above:
        raise SchemaError(
            f"{called} is like {quoted(like)}, which is like it. Write one of them out."
        )
    whole = _whole(named[like], named, folder, (*above, like))
    return {field: value for field, value in whole.items() if field not in _OWN}


def _ready(name: object, called: str) -> Mapping[str, Any]:
    if not isinstance(name, str) or name not in READY:
        known = f"{did_you_mean(name, READY)} There are: {', '.join(READY)}.".lstrip()
        raise SchemaError(
            f"{called} asks for the ready block {quoted(name)}, which there is not. {known}"
        )
    return READY[name]


def _beside(name: object, field: str, called: str, folder: Path | None, instead: str) -> str:
    """The text of a file beside the schema file."""
    if folder is None or not isinstance(name, str):
        raise SchemaError(
            f"{called} has {field}, which is read beside a schema file. Write {instead}."
        )
    called = f"{field.split()[-1]} of {called[0].lower()}{called[1:]}"
    return read_text(folder / name, SchemaError, called=called)


def _listed(name: object, called: str, column: str, folder: Path | None) -> list[str]:
    """The values in a file: one a line, or of a CSV file the column of this name, the one called
    `value` or `code`, or the only one."""
    text = _beside(name, "an enum_file", called, folder, "`enum = […]`")
    if not str(name).lower().endswith(".csv"):
        return [line for line in text.splitlines() if line]
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    header = rows[0] if rows else []
    wanted = [i for known in (column, "value", "code") for i, h in enumerate(header) if h == known]
    if not wanted and len(header) != 1:
        raise SchemaError(
            f"{called} has an enum_file without a column {quoted(column)}, 'value' or 'code'. "
            "Name one of its columns so."
        )
    place = wanted[0] if wanted else 0
    return list(dict.fromkeys(row[place] for row in rows[1:] if len(row) > place))


def _groups(name: str, called: str, column: str, folder: Path | None) -> dict[str, str]:
    """The group of each code and of each group, from a CSV file: the first column, named like the
    column, `value` or `code`, has codes, the next their groups, the next the groups of these. An
    empty field is passed over."""
    text = _beside(name, "a file in levels_of", called, folder, '`levels_of = {code = "group"}`')
    return read_hierarchy(text, column, f"{called} has a levels_of in {quoted(name)}")[1]


def read_hierarchy(text: str, column: str, here: str) -> tuple[list[str], dict[str, str]]:
    """The header of such a file, and the group of each code and of each group; `here` begins the
    sentences that say what is wrong with it."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error:
        raise SchemaError(f"{here} with a quote that is not closed. Correct the line.") from None
    if len(header) < 2 or header[0] not in (column, "value", "code"):
        raise SchemaError(
            f"{here} whose first line does not name its columns. Write {quoted(column)}, 'value' "
            "or 'code' for the codes, then a name for each column of groups, the finer first."
        )
    codes = {row[0] for _, row in rows}
    both = next((line for line, row in rows if codes & {*row[1:]} - {""}), None)
    if both is not None and len(header) > 2:
        raise SchemaError(
            f"{here} where a group in line {both} is a code too. Give the group another name."
        )
    found: dict[str, tuple[str, int]] = {}
    for line, row in rows:
        path = [cell for cell in row if cell]
        if len(path) < 2 or not row[0]:
            what = "group" if row[0] else "code"
            raise SchemaError(f"{here} whose line {line} has no {what}. Add it.")
        for part, above in pairwise(path):
            known, first = found.setdefault(part, (above, line))
            if known != above:
                raise SchemaError(
                    f"{here} where lines {first} and {line} put the same into two groups. Keep one "
                    "of them, or give the groups different names."
                )
    return header, {part: above for part, (above, _) in found.items()}
