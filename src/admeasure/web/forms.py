"""The schema form: what a person types, to and from the document of a schema file.

A form holds texts. `document_of` turns them into what the file would hold, and leaves what it
cannot read as text, so that validation names it as it would in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema import Schema
from admeasure.schema.column import PRIVATE
from admeasure.schema.draft import kind_of
from admeasure.schema.load import validate
from admeasure.schema.model import LISTS, TYPES
from admeasure.schema.shorthand import written_out
from admeasure.schema.toml import toml_key, toml_value
from admeasure.schema.values import quoted
from admeasure.untrusted import parse_toml
from admeasure.web.conditions import selection_of, text_of, value_of

TEXTS = ("minimum", "maximum", "bins", "edges", "enum", "missing", "title", "source")
MOST_COLUMNS = 2000
RELATIONS = tuple(name for name in LISTS if name != "zero")


def empty_form(name: str, header: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A form with names, and types where the storage says more than that it is text."""
    return {
        "table": {"name": name, "description": "", "rows": ""},
        "privacy": {
            "unit": "",
            "unit_column": "",
            "max_rows_per_unit": "1",
            "neighbours": "add-remove",
        },
        "columns": [_empty_column(column, storage) for column, storage in header],
        "zeros": [],
        "relations": "",
    }


def _empty_column(name: str, storage: str) -> dict[str, Any]:
    kind = kind_of(storage)
    return {
        "name": name,
        "use": True,
        "type": "" if kind == "string" else kind,
        **dict.fromkeys(TEXTS, ""),
        "kept": "",
        "has_missing": False,
        "other": False,
        "clamp": False,
    }


def form_of(document: Mapping[str, Any], header: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The form of a schema document; columns of the header that it leaves out are not used."""
    document = written_out(document, None)
    table, privacy = document.get("table", {}), document.get("privacy", {})
    described = {c["name"]: c for c in document.get("column", []) if "name" in c}
    stored = dict(header)
    names = [*stored, *(n for n in described if n not in stored)]
    columns = [
        _column_form(described[n]) if n in described else {**_empty_column(n, ""), "use": False}
        for n in names
    ]
    return {
        "table": {k: str(table.get(k, "")) for k in ("name", "description", "rows", "encoding")},
        "privacy": {
            "unit": str(privacy.get("unit", "")),
            "unit_column": str(privacy.get("unit_column", "")),
            "max_rows_per_unit": str(privacy.get("max_rows_per_unit", 1)),
            "neighbours": str(privacy.get("neighbours", "add-remove")),
        },
        "columns": columns,
        "zeros": [
            [{"column": c, "text": text_of(z["where"].get(c, ""))} for c in z["columns"]]
            for z in document.get("zero", [])
        ],
        "relations": _relations(document),
    }


def _relations(document: Mapping[str, Any]) -> str:
    """The sections that the form does not show, as a schema file has them: they are kept."""
    lines = []
    for name in RELATIONS:
        for entry in document.get(name, []):
            lines += [
                f"[[{name}]]",
                *(f"{toml_key(k)} = {toml_value(v)}" for k, v in entry.items()),
            ]
    return "\n".join(lines)


def _kept(column: Mapping[str, Any]) -> str:
    """The fields that the form does not show, as a schema file has them."""
    shown = {"name", "type", "missing_values", "other", "clamp", *TEXTS}
    if column.get("type") == "integer":
        shown.discard("enum")
    return "\n".join(f"{k} = {toml_value(v)}" for k, v in column.items() if k not in shown)


def _column_form(column: Mapping[str, Any]) -> dict[str, Any]:
    form = _empty_column(str(column["name"]), "")
    form["kept"] = _kept(column)
    form["type"] = str(column.get("type", ""))
    for key in ("minimum", "maximum", "bins", "title", "source"):
        form[key] = str(column.get(key, ""))
    form["edges"] = ", ".join(map(str, column.get("edges", [])))
    levels = column.get("enum", [])
    form["enum"] = PRIVATE if levels == PRIVATE else "\n".join(map(str, levels))
    form["has_missing"] = "missing_values" in column
    form["missing"] = "\n".join(map(str, column.get("missing_values", [])))
    form["other"], form["clamp"] = bool(column.get("other")), bool(column.get("clamp"))
    return form


def document_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """What the schema file would hold."""
    table = {k: v for k, v in form["table"].items() if v}
    if "rows" in table:
        table["rows"] = _read("integer", table["rows"])
    privacy = {k: v for k, v in form["privacy"].items() if v}
    if "max_rows_per_unit" in privacy:
        privacy["max_rows_per_unit"] = _read("integer", privacy["max_rows_per_unit"])
    used = [c for c in form["columns"] if c["use"]][:MOST_COLUMNS]
    kinds = {c["name"]: c["type"] for c in used}
    document: dict[str, Any] = {
        "table": table,
        "privacy": privacy,
        "column": [_column(c) for c in used],
    }
    zeros = [_zero(z, kinds) for z in form["zeros"] if z]
    document |= parse_toml(str(form.get("relations", "")), "the form", SchemaError)
    return {**document, "zero": zeros} if zeros else document


def _column(form: Mapping[str, Any]) -> dict[str, Any]:
    kind = form["type"]
    column: dict[str, Any] = {"name": form["name"]}
    if kind:
        column["type"] = kind
    column |= {k: form[k] for k in ("title", "source") if form.get(k)}
    if kind in ("integer", "number", "date"):
        column |= {k: _read(kind, form[k]) for k in ("minimum", "maximum") if form[k]}
        if form["bins"]:
            private = form["bins"].strip() == PRIVATE
            column["bins"] = PRIVATE if private else _read("integer", form["bins"])
        if form["edges"].strip():
            parts = form["edges"].replace(",", " ").split()
            column["edges"] = [_read(kind, part) for part in parts]
        if form["clamp"]:
            column["clamp"] = True
    if kind == "string":
        lines = _lines(form["enum"])
        if lines:
            column["enum"] = PRIVATE if lines == [PRIVATE] else lines
    if form["has_missing"]:
        column["missing_values"] = _lines(form["missing"])
    if form["other"]:
        column["other"] = True
    known = TYPES[kind].model_fields if kind in TYPES else {}
    kept = parse_toml(str(form.get("kept", "")), "the form", SchemaError)
    return column | {k: v for k, v in kept.items() if k in known and k not in column}


def _zero(conditions: Sequence[Mapping[str, str]], kinds: Mapping[str, str]) -> dict[str, Any]:
    where: dict[str, Any] = {}
    for condition in conditions:
        name = condition["column"]
        kind = kinds.get(name)
        if not kind:
            raise SchemaError(f"A structural zero names {quoted(name)}, which has no type yet.")
        try:
            where[name] = selection_of(kind, condition["text"])
        except SchemaError as error:
            raise SchemaError(f"The structural zero of {quoted(name)}: {error}") from None
    return {"columns": list(where), "where": where}


def _read(kind: str, text: str) -> Any:
    try:
        return value_of(kind, text.strip())
    except SchemaError:
        return text


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def checked(form: Mapping[str, Any]) -> tuple[Schema | None, list[dict[str, str]]]:
    """The schema of a form, or what is wrong with it and where."""
    try:
        return validate(document_of(form)), []
    except SchemaError as error:
        lines = str(error).splitlines()
    if len(lines) > 1 and lines[0].endswith("problems:"):
        lines = lines[1:]
    names = [c["name"] for c in form["columns"] if c["use"]]
    return None, [{"where": _where(line, names), "text": line} for line in lines]


def _where(line: str, names: Sequence[str]) -> str:
    """Which part of the form a problem belongs to: `column:NAME`, `privacy`, `table`, `zero`."""
    for name in sorted(names, key=len, reverse=True):
        if line.startswith(f"Column {quoted(name)}"):
            return f"column:{name}"
    if "zero" in line:
        return "zero"
    return next((part for part in ("privacy", "table") if f"[{part}]" in line), "")
