"""What the page's forms do, each as a function from plain data to plain data.

Nothing here reads a row of the private table: `open_table` reads a header, and whatever needs rows
starts a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admeasure.demo import unpack
from admeasure.domain import as_float
from admeasure.errors import SchemaError, UsageError
from admeasure.privacy.book import Book
from admeasure.queries import Marginal, Threshold
from admeasure.schema import Schema
from admeasure.schema.load import validate
from admeasure.schema.shorthand import written_out
from admeasure.sources.kinds import installed_kind
from admeasure.untrusted import parse_toml, read_text
from admeasure.web import code, commands
from admeasure.web.budget import number
from admeasure.web.checking import checked
from admeasure.web.forms import empty_form, form_of, relations_in_words
from admeasure.web.wording import in_words
from admeasure.web.workspace import TableFolder, Workspace
from admeasure.workload import Workload, parse_workload

Json = dict[str, Any]
LARGEST_SHOWN = 5
TOML_SHOWN = 20_000


def open_table(space: Workspace, body: Json) -> Json:
    """Read a table's header and make a place for it."""
    data = space.located(body["data"])
    if not data:
        raise UsageError("Name a file first.")
    header = installed_kind(data).storage_types(data)
    name = Path(data).name.split(".")[0]
    form = empty_form(name, header)
    if body.get("schema"):
        document = _read_toml(Path(space.located(body["schema"])))
        form = form_of(document, header)
    table = space.add(data, header, form, _file_of(form))
    return {"next": f"/tables/{table.name}/schema"}


def open_demo(space: Workspace) -> Json:
    """The bundled table with its schema and workload."""
    folder = space.folder / "demo"
    folder.mkdir(exist_ok=True)
    data = unpack(folder)
    header = installed_kind(data).storage_types(data)
    form = form_of(_read_toml(folder / "schema.toml"), header)
    table = space.add(str(data), header, form, _file_of(form))
    schema = table.schema()
    asked = Workload.loads((folder / "workload.toml").read_text(encoding="utf-8"))
    entries = [
        {
            "kind": "threshold" if isinstance(query, Threshold) else "marginal",
            "columns": list(query.columns),
            "at_least": str(query.at_least) if isinstance(query, Threshold) else "",
            "weight": f"{asked.weight(query):g}",
        }
        for query in asked
    ]
    given = {"kind": "list", "rule": "", "entries": entries}
    _keep_workload(table, _workload(schema, given), given, seen=table.read()["version"])
    return {"next": f"/tables/{table.name}/schema"}


def _read_toml(path: Path) -> Json:
    return parse_toml(read_text(path, SchemaError, called="schema file"), str(path), SchemaError)


def save_schema(table: TableFolder, body: Json) -> Json:
    """Store the form; the schema file is there only while the form is valid."""
    form = body["form"]
    schema, problems = checked(form)
    text = None if schema is None else schema.dumps()
    state = table.change(body["version"], {"form": form}, schema=text)
    found = {
        "problems": problems,
        "version": state["version"],
        "relations": relations_in_words(form),
        "ok": schema is not None,
    }
    if schema is None:
        return found
    return found | {
        "levels": {c.name: None if c.is_open else c.levels for c in schema.columns},
        "cells": as_float(schema.domain.cells()),
        "toml": text,
    }


def _file_of(form: Mapping[str, Any]) -> str | None:
    """The schema file of a form; None while it is not valid."""
    schema, _ = checked(form)
    return None if schema is None else schema.dumps()


def schema_from_text(table: TableFolder, body: Json) -> Json:
    """Take a schema written as TOML into the form."""
    document = parse_toml(body["text"], "That text", SchemaError)
    validate(written_out(document, None))
    state = table.read()
    form = form_of(document, [(n, t) for n, t in state["header"]])
    table.change(body["version"], {"form": form}, schema=_file_of(form))
    return {"next": f"/tables/{table.name}/schema"}


def verify_table(table: TableFolder) -> Json:
    """Whether the table satisfies its schema, by a process of its own: it reads every row."""
    table.schema()
    argv = ["check", table.read()["data"], "--schema", str(table.schema_path), "--json"]
    found = commands.run_json(argv)
    return {**found, "problems": [in_words(line) for line in found["problems"]]}


def workload_text(given: Mapping[str, Any]) -> str:
    """The rule of a workload form; empty where it is a list."""
    return given["rule"].strip() if given["kind"] == "rule" else ""


def _workload(schema: Schema, given: Mapping[str, Any]) -> Workload:
    if given["kind"] == "rule":
        return parse_workload(workload_text(given), schema.domain)
    try:
        workload = Workload(
            (
                Threshold(entry["columns"], int(entry["at_least"] or 0))
                if entry["kind"] == "threshold"
                else Marginal(entry["columns"]),
                float(entry["weight"] or 1),
            )
            for entry in given["entries"]
        )
    except ValueError:
        raise UsageError("A weight is a number, and at least is a whole number.") from None
    workload.validate(schema.domain)
    return workload


def preview_workload(table: TableFolder, body: Json) -> Json:
    """How large a workload is, before it is kept."""
    schema = table.schema()
    return _previewed(table, schema, _workload(schema, body["workload"]), body["workload"])


def _previewed(
    table: TableFolder, schema: Schema, workload: Workload, given: Mapping[str, Any]
) -> Json:
    domain = schema.domain
    sizes = sorted(((domain.cells(c), c) for c in workload.marginals()), reverse=True)
    looked_at = sum(size for size, _ in sizes)
    text = workload_text(given) or str(table.workload_path)
    return {
        "queries": workload.asked if workload.rule else len(workload),
        "marginals": workload.asked,
        "cells": looked_at * workload.asked / len(sizes),
        "looked_at": workload.looked_at,
        "megabytes": looked_at * 8 / 2**20,
        "largest": [{"columns": list(c), "cells": size} for size, c in sizes[:LARGEST_SHOWN]],
        "unnamed": [c for c in schema.names if c not in workload.columns],
        "code": code.for_workload(table, text),
    }


def save_workload(table: TableFolder, body: Json) -> Json:
    schema, given = table.schema(), body["workload"]
    workload = _workload(schema, given)
    found = _previewed(table, schema, workload, given)
    state, text = _keep_workload(table, workload, given, seen=body["version"])
    return {**found, "toml": text[:TOML_SHOWN], "version": state["version"]}


def _keep_workload(
    table: TableFolder, workload: Workload, given: Mapping[str, Any], *, seen: int
) -> tuple[Json, str]:
    """The state with the workload, and its file."""
    text = workload.dumps()
    kept = {**given, "text": workload_text(given)}
    return table.change(seen, {"workload": kept}, workload=text), text


def create_account(space: Workspace, body: Json) -> Json:
    Book.create(
        space.book,
        body["dataset"].strip(),
        epsilon=number(body["epsilon"], "epsilon"),
        delta=number(body["delta"], "delta"),
    )
    return {"next": "/book"}


def use_book(space: Workspace, body: Json) -> Json:
    space.use_book(body["address"].strip())
    return {"next": "/book"}


def close_account(space: Workspace, body: Json) -> Json:
    Book.open(space.book).close_dataset(body["dataset"])
    return {"next": "/book"}
