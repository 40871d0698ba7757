"""`check`: whether a table satisfies its schema."""

from __future__ import annotations

from pathlib import Path

from admeasure.cli.eyes import for_eyes_only, show_findings
from admeasure.domain import about, as_float
from admeasure.errors import DataError, ExitCode, SchemaError
from admeasure.schema import Schema
from admeasure.schema.problems import data_error
from admeasure.schema.values import quoted
from admeasure.sources.address import printable
from admeasure.terminal.bars import progress
from admeasure.terminal.console import say, say_json
from admeasure.verbs.check import check, left_out, look_at


def show(data: str, schema_path: Path, *, values: bool, json: bool) -> int:
    """All problems at once. That a rule is broken is knowledge of the table: for its steward."""
    called = printable(data)
    if values:
        for_eyes_only(json=json)
    try:
        schema = Schema.load(schema_path)
        if values:
            show_findings(look_at(data, schema))
        with progress() as make:
            make(f"checking {printable(data)}")
            problems = check(data, schema)
        if problems:
            raise data_error(problems)
    except (SchemaError, DataError) as error:
        if not json:
            raise
        say_json(
            {
                "ok": False,
                "data": printable(data),
                "schema": str(schema_path),
                "problems": _list(error),
            }
        )
        return ExitCode.INVALID
    domain = schema.domain
    unnamed = left_out(data, schema)
    if json:
        facts = {
            "columns": len(domain),
            "cells": as_float(domain.cells()),
            "zeros": len(schema.zeros),
            "left_out": unnamed,
        }
        say_json(
            {
                "ok": True,
                "data": printable(data),
                "schema": str(schema_path),
                "problems": [],
                **facts,
            }
        )
        return 0
    rules = f"{len(schema.zeros)} {' or '.join(dict.fromkeys(z.rule for z in schema.zeros))}"
    zeros = f", and no row that one of {rules} rules out"
    say(
        f"OK: {called} has all {len(domain)} columns of {schema_path}, every value has a "
        f"level, there is at least one row{zeros if schema.zeros else ''}."
    )
    say(f"The domain has {about(domain.cells())} cells. The unit is one {schema.unit.name}.")
    if unnamed:
        few = ", ".join(map(quoted, unnamed[:12])) + (", …" if len(unnamed) > 12 else "")
        say(f"The schema leaves out {len(unnamed)} columns of the table: {few}.")
    return 0


def _list(error: Exception) -> list[str]:
    """The problems of an error, without the summary that comes before several."""
    lines = str(error).splitlines()
    return lines[1:] if len(lines) > 1 and lines[0].endswith(":") else lines
