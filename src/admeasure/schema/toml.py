"""Writing a schema as TOML: only what a schema can hold, in a fixed order, defaults left out."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from admeasure.schema.column import Part
from admeasure.schema.model import LISTS, Schema

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
FIELD_ORDER = (
    *("name", "title", "type", "minimum", "maximum", "bins", "edges", "scale", "enum", "levels_of"),
    *("clamp", "format", "decimal", "thousands", "decimals", "strip", "ignore_case"),
    *("true_values", "false_values", "missing_values", "other", "description", "source"),
)


def dumps(schema: Schema) -> str:
    """TOML that `loads` reads as an equal schema."""
    sections = [_section("[table]", schema.table), _section("[privacy]", schema.privacy)]
    sections += [_section("[[column]]", column) for column in schema.columns]
    for name in LISTS:
        sections += [_section(f"[[{name}]]", entry) for entry in getattr(schema, name)]
    return "\n".join(sections)


def _section(header: str, part: Part) -> str:
    return "\n".join([header, *_fields(part)]) + "\n"


def _fields(part: Part) -> Iterator[str]:
    known = type(part).model_fields
    ordered = [f for f in FIELD_ORDER if f in known] + [f for f in known if f not in FIELD_ORDER]
    for field in ordered:
        value = getattr(part, field)
        if known[field].is_required() or value != known[field].default:
            yield f"{known[field].alias or field} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """One value as TOML.

    >>> toml_value(["a", 1.5, True, {"from": 2}])
    '["a", 1.5, true, {from = 2}]'
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)  # shortest form that reads back to the same double
        case str():
            return toml_text(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Mapping():
            inside = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items())
            return "{" + inside + "}"
        case list() | tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def toml_text(text: str) -> str:
    """A basic string. JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_text(key)
