"""`check`: whether a table satisfies its schema."""

from __future__ import annotations

import typer

from admeasure.cli.arguments import Data, Json, SchemaPath, Show
from admeasure.domain import about, as_float
from admeasure.errors import DataError, ExitCode, SchemaError
from admeasure.terminal.bars import progress
from admeasure.terminal.console import say, say_json


def check(
    data: Data,
    schema: SchemaPath,
    *,
    show_values: Show = False,
    json: Json = False,
) -> None:
    """Whether a table satisfies its schema. Names columns and rules; a value only by --show."""
    # All problems at once. That a rule is broken is knowledge of the table: for its steward.
    from admeasure.cli.eyes import for_eyes_only, show_findings
    from admeasure.schema import Schema
    from admeasure.schema.problems import data_error
    from admeasure.schema.values import quoted
    from admeasure.sources.address import printable
    from admeasure.verbs.check import check as problems_of
    from admeasure.verbs.check import left_out, look_at

    called = printable(data)
    if show_values:
        for_eyes_only(json=json)
    try:
        known = Schema.load(schema)
        if show_values:
            show_findings(look_at(data, known))
        with progress() as make:
            make(f"checking {called}")
            problems = problems_of(data, known)
        if problems:
            raise data_error(problems)
    except (SchemaError, DataError) as error:
        if not json:
            raise
        say_json({"ok": False, "data": called, "schema": str(schema), "problems": _list(error)})
        raise typer.Exit(ExitCode.INVALID) from None
    domain = known.domain
    unnamed = left_out(data, known)
    if json:
        facts = {
            "columns": len(domain),
            "cells": as_float(domain.cells()),
            "zeros": len(known.zeros),
            "left_out": unnamed,
        }
        said = {"ok": True, "data": called, "schema": str(schema), "problems": []}
        say_json(said | facts)
        return
    rules = f"{len(known.zeros)} {' or '.join(dict.fromkeys(z.rule for z in known.zeros))}"
    zeros = f", and no row that one of {rules} rules out"
    say(
        f"OK: {called} has all {len(domain)} columns of {schema}, every value has a "
        f"level, there is at least one row{zeros if known.zeros else ''}."
    )
    say(f"The domain has {about(domain.cells())} cells. The unit is one {known.unit.name}.")
    if unnamed:
        few = ", ".join(map(quoted, unnamed[:12])) + (", …" if len(unnamed) > 12 else "")
        say(f"The schema leaves out {len(unnamed)} columns of the table: {few}.")


def _list(error: Exception) -> list[str]:
    """The problems of an error, without the summary that comes before several."""
    lines = str(error).splitlines()
    return lines[1:] if len(lines) > 1 and lines[0].endswith(":") else lines
