"""Descriptions of tables by others, as fields of columns: Table Schema of Frictionless, metadata of
SDV, `domain.json` of mbi, and codebooks in CSV. Public documents, from which `draft` fills in what
they say; what they do not say stays to be filled in.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from admeasure.errors import SchemaError, UsageError
from admeasure.schema.clock import STORED_TIMES, TIMES_OF_DAY
from admeasure.schema.hierarchy import Hierarchy, hierarchy_problems
from admeasure.schema.shorthand import read_hierarchy
from admeasure.schema.values import date_from_text, integer_from_text, number_from_text, quoted

Fields = dict[str, Any]
"""Fields of a column, as a schema file has them."""
KnownColumns = dict[str, Fields]
"""What is known of columns, by name."""

_TYPES = {
    **dict.fromkeys(("integer", "int", "whole", "year", "numerical integer"), "integer"),
    **dict.fromkeys(("number", "float", "double", "decimal", "numerical", "numeric"), "number"),
    **dict.fromkeys(("string", "text", "categorical", "category", "factor", "char"), "string"),
    **dict.fromkeys(("boolean", "bool", "logical"), "boolean"),
    **dict.fromkeys(("date", "datetime", "timestamp"), "date"),
}
_NAMES = ("name", "variable", "column", "field")
_VALUES = ("value", "code", "level")
_LISTS = ("values", "levels", "enum", "categories", "codes")


def of_json(document: Mapping[str, Any], name: str) -> KnownColumns:
    """The facts of a JSON document of one of the known forms."""
    if isinstance(document.get("resources"), list) and document["resources"]:
        first = document["resources"][0]
        document = first.get("schema", {}) if isinstance(first, Mapping) else {}
    if isinstance(document.get("fields"), list):
        return _of_table_schema(document)
    if isinstance(document.get("tables"), Mapping) and len(document["tables"]) == 1:
        (document,) = document["tables"].values()
    if isinstance(document.get("columns"), Mapping):
        return _of_sdv(document["columns"])
    sizes = document.values()
    if document and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes):
        bounds = {"type": "integer", "minimum": 0}
        return {column: {**bounds, "maximum": size - 1} for column, size in document.items()}
    raise UsageError(
        f"{quoted(name)} is no description that is known: a Table Schema of Frictionless "
        "(`fields`), metadata of SDV (`columns`), or a domain of mbi (a number for each column)."
    )


def _of_table_schema(document: Mapping[str, Any]) -> KnownColumns:
    missing = document.get("missingValues", [""])
    fields = [f for f in document["fields"] if isinstance(f, Mapping) and "name" in f]
    return {str(f["name"]): _of_field(f, f.get("missingValues", missing)) for f in fields}


def _of_field(field: Mapping[str, Any], missing: Any) -> Fields:
    kind = _TYPES.get(str(field.get("type", "string")).lower(), "string")
    if field.get("type") == "time":
        return _of_times(field, missing)
    limits = field.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    found: Fields = {"type": kind}
    spelling = str(field.get("format", ""))
    for bound in ("minimum", "maximum"):
        found |= _read(kind, bound, _day(limits.get(bound), spelling))
    found |= _listed(kind, limits.get("enum"))
    if kind == "date" and "%" in spelling:
        found["format"] = spelling
    if kind in ("integer", "number"):
        found |= {} if field.get("decimalChar", ".") == "." else {"decimal": field["decimalChar"]}
        found |= {"thousands": field["groupChar"]} if field.get("groupChar") else {}
    if kind == "boolean" and "trueValues" in field and "falseValues" in field:
        found["true_values"] = list(map(str, field["trueValues"]))
        found["false_values"] = list(map(str, field["falseValues"]))
    for free in ("title", "description"):
        found |= {free: str(field[free])} if field.get(free) else {}
    if not limits.get("required") and isinstance(missing, list):
        found["missing_values"] = [str(text) for text in missing if text != ""]
    return found


def _of_times(field: Mapping[str, Any], missing: Any) -> Fields:
    """Times of the day; where no format is given they have seconds, as the specification says."""
    spelling = str(field.get("format", ""))
    found: Fields = {**TIMES_OF_DAY, "format": spelling if "%" in spelling else STORED_TIMES}
    if isinstance(missing, list) and any(missing):
        found["missing_values"] = [str(text) for text in missing if text != ""]
    return found


def _day(bound: Any, spelling: str) -> Any:
    """A bound that is spelled as the field's days are, in the standard spelling."""
    try:
        return datetime.strptime(str(bound), spelling).date() if "%" in spelling else bound
    except ValueError:
        return bound


def _of_sdv(columns: Mapping[str, Any]) -> KnownColumns:
    found: KnownColumns = {}
    for name, column in columns.items():
        said = column if isinstance(column, Mapping) else {}
        kind = str(said.get("sdtype", said.get("type", "categorical"))).lower()
        whole = "int" in str(said.get("computer_representation", said.get("subtype", ""))).lower()
        fields: Fields = {"type": "integer" if whole else _TYPES.get(kind, "string")}
        if kind == "datetime" and "%" in str(said.get("datetime_format", "")):
            fields["format"] = str(said["datetime_format"])
        found[str(name)] = fields
    return found


def of_codebook(text: str) -> KnownColumns | None:
    """The facts of a codebook: a line for each column, or for each value of a column; None where
    the header is not that of a codebook."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    header = {(name or "").strip().lower(): name for name in reader.fieldnames or ()}
    name = next((header[n] for n in _NAMES if n in header), None)
    one = next((header[n] for n in _VALUES if n in header), None)
    several = next((header[n] for n in _LISTS if n in header), None)
    bounds = any(word in header for word in ("type", "minimum", "maximum", "min", "max", "format"))
    if name is None or not (one or several or bounds):
        return None
    found: KnownColumns = {}
    for row in reader:
        column = (row.get(name) or "").strip()
        if column:
            said = {key: (row.get(own) or "").strip() for key, own in header.items()}
            values = [said[one.strip().lower()]] if one else []
            values += _entries(said[several.strip().lower()]) if several else []
            _add(found.setdefault(column, {}), said, [value for value in values if value])
    for fields in found.values():
        kind = fields.setdefault("type", "string" if "enum" in fields else None)
        if kind is None:
            del fields["type"]
        elif "enum" in fields:
            fields |= _listed(kind, fields.pop("enum"))
    return found


def of_hierarchy(text: str, names: Collection[str], file: str) -> KnownColumns | None:
    """The facts of a hierarchy of codes (`levels_of`): the column of the table that its first one
    is called like is read by the file. None where it is none: a code stands there once, with its
    groups, which are no columns of the table, and fewer of them.

    >>> of_hierarchy("job,field\\n11,farm\\n12,farm\\n", ["age", "job"], "jobs.csv")
    {'job': {'type': 'string', 'levels_of': 'jobs.csv'}}
    """
    column = text.partition("\n")[0].strip().partition(",")[0].strip('"')
    if column not in names:
        return None
    try:
        header, parents = read_hierarchy(text, column, "")
    except SchemaError:
        return None
    tree = Hierarchy(parents)
    lines = sum(1 for row in csv.reader(io.StringIO(text, newline="")) if row) - 1
    if set(header[1:]) & set(names) or any(hierarchy_problems(parents, lines)):
        return None
    if lines != len(tree.leaves) or len(tree.tops) == lines:
        return None
    return {column: {"type": "string", "levels_of": file}}


def _add(fields: Fields, said: Mapping[str, str], values: list[str]) -> None:
    """What one line of a codebook says."""
    kind = _TYPES.get(said.get("type", "").lower())
    fields |= {"type": kind} if kind else {}
    for bound in ("minimum", "maximum"):
        fields |= _read(fields.get("type", "number"), bound, said.get(bound) or said.get(bound[:3]))
    if values:
        fields.setdefault("enum", []).extend(values)
    if said.get("format"):
        fields["format"] = said["format"]
    missing = said.get("missing") or said.get("missing_values")
    if missing:
        fields["missing_values"] = _entries(missing)
    title = said.get("title") or said.get("label")
    if title and not values:
        fields["title"] = title


def _entries(text: str) -> list[str]:
    """`a|b`, `a;b`, or with words for them: `1=yes; 2=no`."""
    parts = [part.strip() for part in text.replace("|", ";").split(";")]
    return [part.partition("=")[0].strip() for part in parts if part]


def _read(kind: str, bound: str, value: Any) -> Fields:
    """A bound, in the type's own words; nothing where it cannot be read."""
    text = "" if value is None else str(value).strip()
    read: Any = None
    match kind:
        case "integer":
            read = integer_from_text(text)
        case "number":
            number = number_from_text(text)
            read = number if number is not None and abs(number) < float("inf") else None
        case "date":
            read = date_from_text(text)
    return {} if read is None else {bound: read}


def _listed(kind: str, enum: Any) -> Fields:
    if not isinstance(enum, list) or not enum or kind not in ("string", "integer"):
        return {}
    if kind == "string":
        return {"enum": list(dict.fromkeys(map(str, enum)))}
    whole = [integer_from_text(str(value)) for value in enum]
    return {} if None in whole else {"enum": list(dict.fromkeys(whole))}
