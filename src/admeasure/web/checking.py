"""What is missing from a schema form, and what is wrong with it, in the words of the form.

What nobody has filled in yet is no mistake: it is listed apart (`todo`), and the rest is checked
without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admeasure.errors import SchemaError
from admeasure.schema import Schema
from admeasure.schema.load import validate
from admeasure.schema.values import quoted
from admeasure.web.forms import described, document_of
from admeasure.web.wording import in_words

FormProblem = dict[str, str]


def missing(form: Mapping[str, Any]) -> list[FormProblem]:
    """What is still to be filled in: where, and what to do."""
    found = []
    if not form["privacy"].get("unit", "").strip():
        text = "Say whom the guarantee protects: a person, a household, …"
        found.append(_todo("privacy", text))
    if not form["table"].get("name", "").strip():
        found.append(_todo("table", "Give the table a name"))
    columns = described(form)
    if not columns:
        found.append(_todo("", "Use at least one column"))
    for column in columns:
        if not column["type"]:
            found.append(_todo(f"column:{column['name']}", "Choose the kind of values"))
        elif column["type"] == "string" and not column["enum"].strip():
            text = "List the categories, or have them found"
            found.append(_todo(f"column:{column['name']}", text))
    if any(not c["text"].strip() for conditions in form["zeros"] for c in conditions):
        found.append(_todo("zero", "Fill in the values of each combination that cannot occur"))
    if not all(all(names) for names in form.get("orders", [])):
        found.append(_todo("zero", "Choose the columns of each order"))
    return found


def _todo(where: str, text: str) -> FormProblem:
    return {"where": where, "text": text, "kind": "todo"}


def checked(form: Mapping[str, Any]) -> tuple[Schema | None, list[FormProblem]]:
    """The schema of a form, or what is missing and what is wrong, and where."""
    todo = missing(form)
    schema, wrong = _validated(_without(form, todo) if todo else form)
    return (None, [*todo, *wrong]) if todo else (schema, wrong)


def _without(form: Mapping[str, Any], todo: Sequence[FormProblem]) -> dict[str, Any]:
    """The form as far as it is filled in; rules between columns wait for all of them."""
    unfinished = {found["where"] for found in todo}
    return {
        **form,
        "table": {**form["table"], "name": form["table"].get("name") or "table"},
        "privacy": {**form["privacy"], "unit": form["privacy"].get("unit") or "person"},
        "columns": [c for c in form["columns"] if f"column:{c['name']}" not in unfinished],
        "zeros": [],
        "orders": [],
        "relations": "",
    }


def _validated(form: Mapping[str, Any]) -> tuple[Schema | None, list[FormProblem]]:
    if not described(form):
        return None, []
    try:
        return validate(document_of(form)), []
    except SchemaError as error:
        lines = str(error).splitlines()
    if len(lines) > 1 and lines[0].endswith("problems:"):
        lines = lines[1:]
    names = [c["name"] for c in described(form)]
    return None, [
        {"where": _where(line, names), "text": in_words(line), "kind": "wrong"} for line in lines
    ]


def _where(line: str, names: Sequence[str]) -> str:
    """Which part of the form a problem belongs to: `column:NAME`, `privacy`, `table`, `zero`."""
    for name in sorted(names, key=len, reverse=True):
        if line.startswith(f"Column {quoted(name)}"):
            return f"column:{name}"
    if "zero" in line or "[[" in line:
        return "zero"
    return next((part for part in ("privacy", "table") if f"[{part}]" in line), "")
