"""The schema form: what a person types, to and from the document of a schema file.

A form holds texts. `document_of` turns them into what the file would hold, and leaves what it
cannot read as text, so that validation names it as it would in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema.column import PRIVATE
from admeasure.schema.draft import kind_of
from admeasure.schema.model import LISTS, TYPES
from admeasure.schema.shorthand import written_out
from admeasure.schema.toml import toml_key, toml_value
from admeasure.schema.values import quoted
from admeasure.untrusted import parse_toml
from admeasure.web.conditions import ORDERED, selection_of, text_of, value_of

PRIVACY = {"unit": "", "unit_column": "", "max_rows_per_unit": "1", "neighbours": "add-remove"}
"""What `[privacy]` says where nobody has said anything."""
TEXTS = ("minimum", "maximum", "bins", "edges", "enum", "missing", "title", "source")
SPELLINGS = {
    "integer": ("decimal", "thousands", "format"),
    "number": ("decimal", "thousands"),
    "date": ("format",),
    "string": (),
    "boolean": (),
}
"""Single texts that say how the table writes values, by type."""
WORDS = ("true_values", "false_values")
MOST_COLUMNS = 2000
KEPT = tuple(name for name in LISTS if name not in ("zero", "order"))
"""The sections that the form shows in words, and keeps."""


def empty_form(name: str, header: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A form with names, and types where the storage says more than that it is text."""
    return {
        "table": {"name": name, "description": "", "rows": ""},
        "privacy": dict(PRIVACY),
        "columns": [_empty_column(column, storage) for column, storage in header],
        "zeros": [],
        "orders": [],
        "relations": "",
    }


def _empty_column(name: str, storage: str) -> dict[str, Any]:
    kind = kind_of(storage)
    texts = (*TEXTS, "format", "decimal", "thousands", *WORDS, "kept")
    flags = ("has_missing", "other", "clamp", "log", "strip", "ignore_case")
    return {
        "name": name,
        "use": True,
        "type": "" if kind == "string" else kind,
        **dict.fromkeys(texts, ""),
        **dict.fromkeys(flags, False),
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
        "privacy": {k: str(privacy.get(k, usual)) for k, usual in PRIVACY.items()},
        "columns": columns,
        "zeros": [
            [{"column": c, "text": text_of(z["where"].get(c, ""))} for c in z["columns"]]
            for z in document.get("zero", [])
        ],
        "orders": [list(entry["columns"]) for entry in document.get("order", [])],
        "relations": _relations(document),
    }


def _relations(document: Mapping[str, Any]) -> str:
    """The sections that the form does not change, as a schema file has them: they are kept."""
    lines = []
    for name in KEPT:
        for entry in document.get(name, []):
            lines.append(f"[[{name}]]")
            lines += (f"{toml_key(k)} = {toml_value(v)}" for k, v in entry.items())
    return "\n".join(lines)


def relations_in_words(form: Mapping[str, Any]) -> list[dict[str, str]]:
    """What the form keeps of a schema file and does not change: a sentence for each, and the column
    of the table that is computed by it."""
    kept = parse_toml(str(form.get("relations", "")), "the form", SchemaError)
    found = []
    for entry in kept.get("determines", []):
        of, to = ", ".join(entry["from"]), entry["to"]
        found.append({"computed": to, "text": f"{to} follows from {of}, by a public table."})
    for entry in kept.get("difference", []):
        column, of, minus = entry["column"], entry["of"], entry["minus"]
        text = f"{column} is {of} minus {minus}; in rows {of} is computed back from it."
        found.append({"computed": of, "text": text})
    for entry in kept.get("at_least_one", []):
        parts = " or ".join(f"{name} is {text_of(value)}" for name, value in entry["of"].items())
        found.append({"computed": "", "text": f"In every row {parts}."})
    for column in form.get("columns", []):
        if "levels_of" in column.get("kept", ""):
            text = f"{column['name']} has codes in a public hierarchy of groups, which is kept."
            found.append({"computed": "", "text": text})
    return found


def _shown(kind: str) -> set[str]:
    """The fields of a column that the form shows."""
    shown = {"name", "type", "title", "source", "missing_values", "other", *SPELLINGS.get(kind, ())}
    if kind in ORDERED:
        shown |= {"minimum", "maximum", "bins", "edges", "clamp", "scale"}
    return shown | {"string": {"enum", "strip", "ignore_case"}, "boolean": set(WORDS)}.get(
        kind, set()
    )


def _column_form(column: Mapping[str, Any]) -> dict[str, Any]:
    form = _empty_column(str(column["name"]), "")
    form["type"] = kind = str(column.get("type", ""))
    shown = _shown(kind)
    for key in ("minimum", "maximum", "bins", "title", "source", *SPELLINGS.get(kind, ())):
        form[key] = str(column.get(key, ""))
    form["edges"] = ", ".join(map(str, column.get("edges", [])))
    levels = column.get("enum") or (PRIVATE if "levels_of" in column else [])
    form["enum"] = PRIVATE if levels == PRIVATE else "\n".join(map(str, levels))
    form["has_missing"] = "missing_values" in column
    form["missing"] = "\n".join(map(str, column.get("missing_values", [])))
    for key in WORDS:
        given = list(column.get(key, []))
        if _lines("\n".join(map(str, given))) == given:
            form[key] = "\n".join(given)
        else:
            shown.discard(key)
    for key in ("other", "clamp", "strip", "ignore_case"):
        form[key] = bool(column.get(key))
    form["log"] = column.get("scale") == "log"
    form["kept"] = "\n".join(f"{k} = {toml_value(v)}" for k, v in column.items() if k not in shown)
    return form


def document_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """What the schema file would hold."""
    table = {k: v for k, v in form["table"].items() if v}
    if "rows" in table:
        table["rows"] = _read("integer", table["rows"])
    privacy = {k: v for k, v in form["privacy"].items() if v}
    if not privacy.get("unit_column"):
        privacy.pop("max_rows_per_unit", None)  # one row each
    if "max_rows_per_unit" in privacy:
        privacy["max_rows_per_unit"] = _read("integer", privacy["max_rows_per_unit"])
    used = described(form)[:MOST_COLUMNS]
    kinds = {c["name"]: c["type"] for c in used}
    document: dict[str, Any] = {
        "table": table,
        "privacy": privacy,
        "column": [_column(c) for c in used],
    }
    zeros = [_zero(z, kinds) for z in form["zeros"] if z]
    document |= parse_toml(str(form.get("relations", "")), "the form", SchemaError)
    orders = [{"columns": list(names)} for names in form.get("orders", [])]
    document |= {"order": orders} if orders else {}
    return {**document, "zero": zeros} if zeros else document


def described(form: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The columns that are used. The one that tells whose row it is tells nothing else."""
    unit = form["privacy"].get("unit_column", "").casefold()
    return [c for c in form["columns"] if c["use"] and c["name"].casefold() != unit]


def _column(form: Mapping[str, Any]) -> dict[str, Any]:
    kind = form["type"]
    column: dict[str, Any] = {"name": form["name"]}
    kept = parse_toml(str(form.get("kept", "")), "the form", SchemaError)
    if kind:
        column["type"] = kind
    texts = ("title", "source", *SPELLINGS.get(kind, ()))
    column |= {k: form[k] for k in texts if form.get(k)}
    if kind in ORDERED:
        column |= _ordered(kind, form)
    if kind == "string":
        lines = _lines(form["enum"])
        if lines:
            column["enum"] = PRIVATE if lines == [PRIVATE] else lines
        if column.get("enum") != PRIVATE or "levels_of" in kept:  # else found as they are spelled
            column |= {k: True for k in ("strip", "ignore_case") if form.get(k)}
    if kind == "boolean":
        column |= {k: lines for k in WORDS if (lines := _lines(form.get(k, "")))}
    if form["has_missing"]:
        column["missing_values"] = _lines(form["missing"])
    if form["other"]:
        column["other"] = True
    known = TYPES[kind].model_fields if kind in TYPES else {}
    return column | {k: v for k, v in kept.items() if k in known and k not in column}


def _ordered(kind: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """Bounds, bins or edges."""
    column = {k: _read(kind, form[k]) for k in ("minimum", "maximum") if form[k]}
    private = form["bins"].strip() == PRIVATE
    if form["bins"]:
        column["bins"] = PRIVATE if private else _read("integer", form["bins"])
    if form["edges"].strip():
        parts = form["edges"].replace(",", " ").split()
        column["edges"] = [_read(kind, part) for part in parts]
    if form["clamp"]:
        column["clamp"] = True
    found = private or not (form["bins"] or form["edges"].strip())
    return column | ({"scale": "log"} if form.get("log") and found and kind != "date" else {})


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
