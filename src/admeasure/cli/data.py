"""`draft` and `check`: from a table to a schema that it satisfies."""

from __future__ import annotations

from pathlib import Path

from admeasure.cli.console import note, progress, say, say_json
from admeasure.cli.files import refuse_to_overwrite, write_text
from admeasure.errors import DataError, SchemaError
from admeasure.schema import Problem, Schema
from admeasure.schema.draft import draft as draft_text
from admeasure.schema.problems import data_error
from admeasure.sources.address import printable
from admeasure.sources.look import find_problems, storage_types, table_name
from admeasure.sources.open import open_source

INVALID = 3


def draft(data: str, out: Path | None, *, force: bool) -> None:
    """Names and storage types; no value of any row is looked at."""
    if out is not None:
        refuse_to_overwrite(out, force=force)
    text = draft_text(storage_types(data), name=table_name(data))
    if out is None:
        say(text)
        return
    write_text(out, text)
    note(
        f"Wrote {out}. Fill in every TODO from a codebook, then: "
        f"admeasure check {printable(data)} --schema {out}"
    )


def check(data: str, schema_path: Path, *, json: bool) -> int:
    """All problems at once. That a rule is broken is knowledge of the table: for its steward."""
    called = printable(data)
    try:
        schema = Schema.load(schema_path)
        problems = _problems(data, schema)
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
        return INVALID
    domain = schema.domain
    if json:
        facts = {"columns": len(domain), "cells": float(domain.cells()), "zeros": len(schema.zeros)}
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
    zeros = f", and no row that one of {len(schema.zeros)} [[zero]] rules out"
    say(
        f"OK: {called} has all {len(domain)} columns of {schema_path}, every value has a "
        f"level, there is at least one row{zeros if schema.zeros else ''}."
    )
    say(f"The domain has {float(domain.cells()):.3g} cells. The unit is one {schema.unit.name}.")
    return 0


def _problems(data: str, schema: Schema) -> list[Problem]:
    """What breaks a rule of the schema, and rows that the schema says cannot occur."""
    with progress() as make:
        make(f"checking {printable(data)}")
        found = find_problems(data, schema)
        if found or not schema.zeros:
            return found
        counts = open_source(data, schema).counts([zero.columns for zero in schema.zeros])
    return [
        Problem(
            None,
            f"has rows that the [[zero]] of {', '.join(zero.columns)} rules out",
            "correct the table, or narrow the [[zero]]",
        )
        for zero, table in zip(schema.zeros, counts, strict=True)
        if table[zero.mask].any()
    ]


def _list(error: Exception) -> list[str]:
    """The problems of an error, without the summary that comes before several."""
    lines = str(error).splitlines()
    return lines[1:] if len(lines) > 1 and lines[0].endswith(":") else lines
