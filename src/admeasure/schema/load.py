"""Reading a schema file, and saying everything that is wrong with it at once.

A `SchemaError` from here has one line for each problem, with a summary first where there are
several. Schemas are public, so messages quote them freely; of the files that a schema names they
quote nothing (`beside.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from admeasure.errors import SchemaError
from admeasure.schema.beside import with_tables, without_values
from admeasure.schema.column import Part
from admeasure.schema.model import LISTS, TYPES, Privacy, Schema, Table, repeated_names
from admeasure.schema.shorthand import written_out
from admeasure.schema.values import did_you_mean, quoted
from admeasure.untrusted import parse_toml, read_text

PLACEHOLDER = "TODO"
_FREE_TEXT = {"title", "description", "source"}
_SECTIONS: dict[str, type[Part]] = {"table": Table, "privacy": Privacy, **LISTS}


def load(path: str | Path) -> Schema:
    path = Path(path)
    text = read_text(path, SchemaError, called="schema file")
    written = parse_toml(text, path.name, SchemaError)
    try:
        document = with_tables(written_out(written, path.parent), path.parent)
        return validate(document, name=path.name)
    except SchemaError as error:
        raise SchemaError(without_values(str(error), written, path.parent)) from None


def loads(text: str, *, name: str = "schema") -> Schema:
    return validate(written_out(parse_toml(text, name, SchemaError), None), name=name)


def validate(document: Mapping[str, Any], *, name: str = "schema") -> Schema:
    """A schema from a parsed file."""
    problems = list(_placeholders(document))
    document = _without_placeholders(document) if problems else document
    try:
        schema = Schema.model_validate(document)
    except ValidationError as error:
        problems += [line for one in error.errors() for line in _lines(one, document)]
        if not any(one["type"] == "schema" for one in error.errors()):
            problems += repeated_names(tuple(_names(document)))
    else:
        if not problems:
            return schema
    raise _error(list(dict.fromkeys(problems)), name)


def _error(problems: Sequence[str], name: str) -> SchemaError:
    if len(problems) == 1:
        return SchemaError(problems[0])
    return SchemaError("\n".join([f"{name} has {len(problems)} problems:", *problems]))


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    columns = document.get("column")
    for column in columns if isinstance(columns, list) else []:
        if isinstance(column, Mapping) and isinstance(column.get("name"), str):
            yield column["name"]


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every section that is a table: its path, what a message calls it, and its fields."""
    for key in ("table", "privacy"):
        if isinstance(document.get(key), dict):
            yield key, f"[{key}]", document[key]
    columns = document.get("column")
    for i, column in enumerate(columns if isinstance(columns, list) else []):
        if isinstance(column, dict):
            yield f"column.{i}", _called(column, i), column


def _called(column: object, position: int) -> str:
    name = column.get("name") if isinstance(column, Mapping) else None
    if isinstance(name, str) and name:
        return f"Column {quoted(name)}"
    return f"The [[column]] number {position + 1}"


def _is_placeholder(value: object) -> bool:
    return value == PLACEHOLDER or (isinstance(value, list) and PLACEHOLDER in value)


def _placeholders(document: Mapping[str, Any]) -> Iterator[str]:
    for _, called, fields in _entries(document):
        for field, value in fields.items():
            if field not in _FREE_TEXT and _is_placeholder(value):
                yield (
                    f"{called} still has `{field} = {PLACEHOLDER}`. "
                    "Fill it in from the codebook rather than from the data."
                )


def _without_placeholders(document: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of the document, so that its other problems are named too. A column with a
    placeholder is passed over, since what else it lacks may be what is still to be filled in."""
    rest = dict(document)
    for key in ("table", "privacy"):
        if isinstance(rest.get(key), dict):
            section = {f: v if not _is_placeholder(v) else "filled" for f, v in rest[key].items()}
            rest[key] = section
    if isinstance(rest.get("column"), list) and any(map(_has_placeholder, rest["column"])):
        rest["column"] = [
            {"name": c.get("name", "filled"), "type": "boolean"} if _has_placeholder(c) else c
            for c in rest["column"]
        ]
        for name in LISTS:
            rest.pop(name, None)
    return rest


def _has_placeholder(column: object) -> bool:
    return isinstance(column, dict) and any(
        _is_placeholder(v) for f, v in column.items() if f not in _FREE_TEXT
    )


def _lines(error: Any, document: Mapping[str, Any]) -> list[str]:
    """One pydantic error as sentences of ours."""
    loc, kind, value = list(error["loc"]), error["type"], error["input"]
    if kind in {"schema", "privacy"}:
        return error["msg"].split("\n")
    if not loc:
        return [f"The schema is wrong: {error['msg']}."]
    section = loc[0]
    if kind == "too_short" and len(value) >= error["ctx"]["min_length"]:
        return []  # entries are there, and their own errors are named
    if len(loc) == 1:
        return [_of_section(section, kind)]
    where, fields, field = _place(loc, document)
    if kind == "column":
        return [f"{where} {line}." for line in error["msg"].split("\n")]
    if kind == "reserved":
        return [f"{where} {error['msg']}."]
    if kind == "extra_forbidden":
        hint = did_you_mean(field, fields) or "Known are: " + ", ".join(fields) + "."
        return [f"{where} has an unknown field {quoted(field)}. {hint}"]
    if kind == "missing":
        return [f"{where} has no {field}. Add `{field} = …` to the schema."]
    if kind in {"union_tag_not_found", "union_tag_invalid"}:
        return [_of_type(where, value)]
    entry = isinstance(loc[-1], int) and len(loc) > 2
    shown = value.isoformat() if isinstance(value, date | time) else quoted(value)
    what = f"the entry {shown} in `{field}`" if entry else f"`{field} = {shown}`"
    return [f"{where} has {what}, which is wrong: {_plainly(error)}."]


def _of_section(section: object, kind: str) -> str:
    if kind in {"missing", "too_short"}:
        form = "[[column]]" if section in ("column", "columns") else f"[{section}]"
        return f"The schema has no {form}. Add one."
    if kind == "extra_forbidden":
        known = ("table", "privacy", "column", *LISTS)
        hint = did_you_mean(section, known) or "Known are: " + ", ".join(known) + "."
        return f"The schema has an unknown section {quoted(section)}. {hint}"
    name = "column" if section == "columns" else str(section)
    form = f"[[{name}]]" if name == "column" or name in LISTS else f"[{name}]"
    return f"The schema's {section!r} is not a section. Write it as {form}."


def _of_type(where: str, column: object) -> str:
    known = ", ".join(TYPES)
    if isinstance(column, Mapping) and "type" in column:
        synonyms = {"int": "integer", "float": "number", "double": "number", "str": "string"}
        synonyms |= {"text": "string", "bool": "boolean", "datetime": "date", "category": "string"}
        kind = column["type"]
        near = synonyms.get(str(kind).lower())
        hint = f"Did you mean {near!r}?" if near else did_you_mean(kind, TYPES)
        return f"{where} has the unknown type {quoted(kind)}. {hint or f'Use one of {known}.'}"
    return f"{where} has no type. Add `type = …`: one of {known}."


def _place(loc: list[Any], document: Mapping[str, Any]) -> tuple[str, list[str], str]:
    """What a message calls the place of an error, the fields known there, and the field."""
    section = loc[0]
    if section in ("column", "columns") and len(loc) > 1:
        columns = document.get("column", document.get("columns", []))
        called = _called(columns[loc[1]], loc[1])
        kind = loc[2] if len(loc) > 2 else None
        model = TYPES.get(str(kind))
        fields = list(model.model_fields) if model else []
        return called, fields, str(loc[3]) if len(loc) > 3 else "column"
    model = _SECTIONS[str(section)]
    if section in LISTS:
        fields = [field.alias or name for name, field in model.model_fields.items()]
        return f"The [[{section}]] number {loc[1] + 1}", fields, str(loc[2])
    return f"[{section}]", list(model.model_fields), str(loc[1])


def _plainly(error: Any) -> str:
    words = {
        "int_type": "it must be a whole number",
        "float_type": "it must be a number",
        "string_type": "it must be a text in quotes",
        "bool_type": "it must be true or false",
        "date_type": "it must be a date, as 2024-12-31",
        "tuple_type": "it must be a list",
        "dict_type": "it must be a table in braces",
        "finite_number": "it must be finite",
    }
    if error["type"] == "too_short":
        least = error["ctx"]["min_length"]
        return f"it must have at least {'one entry' if least == 1 else f'{least} entries'}"
    message = str(error["msg"])
    return words.get(error["type"], message[:1].lower() + message[1:])
