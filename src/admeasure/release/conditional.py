"""Rows that meet conditions, as the model believes such rows to be.

A condition leaves some cells of a marginal; a model without the others (`Model.without`) has the
rows that meet it, with the distribution that the model gives them: no row is drawn and thrown
away, except where docs/how-to/sampling.md says so. A condition consists of whole levels, so that
structural zeros and the schema's relations hold in these rows as in any. A local search would move
such rows towards answers for the whole table, and there is none.

Post-processing: it reads the model and public facts, and costs nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from admeasure.errors import ResourceError, SchemaError, UsageError, WorkloadError
from admeasure.families import Codes, ImpossibleError, Model
from admeasure.queries.query import suggest
from admeasure.schema import Schema, Zero
from admeasure.schema.values import quoted
from admeasure.untrusted import read_text
from admeasure.workload.questions import written_conditions

Like = str | Path | Sequence[tuple[Mapping[str, Any], int]]
"""Conditions with a number of rows each, or a CSV file of them."""

COUNT = "rows"
"""The column of such a file that has the numbers of rows."""

MOST_CONDITIONS = 1000
"""Different conditions of one table; each takes a pass through the model."""

MOST_ROWS = 100_000_000
"""Rows of one table of conditions."""


def excluded(schema: Schema, where: Mapping[str, Any]) -> list[Zero]:
    """The cells that no row is in that meets every condition, written as for `answer`."""
    found = []
    for name, value in written_conditions(where).items():
        if name in schema.computed:
            columns, met = schema.conditions_met({name: value}, "A condition")
            found.append(Zero(columns, met == 0, "a condition"))
            continue
        mask = np.ones(schema.column(name).levels, dtype=bool)
        mask[schema.column(name).codes_of(value)] = False
        found.append(Zero((name,), mask, "a condition"))
    return found


def refuse_with_conditions(
    rows: int | None, where: Mapping[str, Any] | None, like: Like | None, *, search: bool | None
) -> None:
    """What cannot be asked for together with conditions."""
    if search:
        raise UsageError(
            "A search brings rows near to answers for the whole table, and rows with conditions "
            "are not searched. Leave out one of them."
        )
    if like is not None and (where or rows is not None):
        raise UsageError(
            "A table of conditions has its own numbers of rows. Leave out the other conditions and "
            "the number of rows, or the table."
        )


def sample_where(
    model: Model,
    schema: Schema,
    where: Mapping[str, Any],
    rows: int | None,
    rng: np.random.Generator,
) -> Codes:
    """Rows that meet every condition, as many as are believed to where no number is given."""
    left = model.without(excluded(schema, where))
    return left.sample(max(0, round(left.total)) if rows is None else rows, rng)


def sample_like(model: Model, schema: Schema, like: Like, rng: np.random.Generator) -> Codes:
    """For each line of a table of conditions its rows, in the order of its lines."""
    lines = _read(Path(like), schema) if isinstance(like, str | Path) else _given(like, schema)
    if sum(rows for _, rows in lines) > MOST_ROWS:
        raise ResourceError(
            f"The table of conditions asks for more than {MOST_ROWS:,} rows. Ask for fewer at once."
        )
    keys = [tuple((z.columns, z.mask.tobytes()) for z in cells) for cells, _ in lines]
    first = {key: number for number, key in reversed(list(enumerate(keys)))}
    if len(first) > MOST_CONDITIONS:
        raise ResourceError(
            f"The table of conditions has {len(first):,} different ones, and {MOST_CONDITIONS:,} "
            "is the limit. Take coarser ones, or several tables."
        )
    of_row = np.repeat([first[key] for key in keys], [rows for _, rows in lines]).astype(int)
    codes = {c: np.zeros(len(of_row), np.int64) for c in schema.domain.columns}
    for number in first.values():
        places = np.flatnonzero(of_row == number)
        try:
            some = model.without(lines[number][0]).sample(len(places), rng)
        except ImpossibleError as error:
            raise UsageError(f"Condition {number + 1} of the table: {error}") from None
        for column, values in some.items():
            codes[column][places] = values
    return codes


def chosen(columns: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, Any]:
    """The columns that are asked for, in that order; all where none is."""
    if names is None:
        return dict(columns)
    for name in names:
        if name not in columns:
            raise UsageError(f"Rows have no column {name!r}. {suggest(name, list(columns))}")
    if len(set(names)) != len(names) or not names:
        raise UsageError("Name at least one column of the rows, and each once.")
    return {name: columns[name] for name in names}


def _given(
    like: Sequence[tuple[Mapping[str, Any], int]], schema: Schema
) -> list[tuple[list[Zero], int]]:
    for _, rows in like:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise UsageError(f"A number of rows must be whole and not negative; it is {rows!r}.")
    return [(excluded(schema, where), rows) for where, rows in like]


def _read(path: Path, schema: Schema) -> list[tuple[list[Zero], int]]:
    """A header with names of columns, and a line for each condition. An empty place is no
    condition, a value stands for its whole level; `rows` has the number of rows, one where there is
    no such column."""
    text = read_text(path, WorkloadError, missing=UsageError)
    try:
        header, *lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    except (csv.Error, ValueError):
        raise WorkloadError(
            f"{path} is no CSV file with a header. Write the names of columns, and a line for each "
            "condition."
        ) from None
    if len(set(header)) != len(header):
        raise WorkloadError(f"{path} names a column twice. Name each once.")
    counted = COUNT in header and COUNT not in schema.names
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            if len(line) != len(header):
                raise WorkloadError(f"it has {len(line)} values for {len(header)} columns.")
            values = dict(zip(header, line, strict=True))
            rows = _whole(values.pop(COUNT)) if counted else 1
            found.append((_levels(schema, values), rows))
        except (SchemaError, WorkloadError) as error:
            said = str(error)
            for cell in {*header, *line} - {"", *schema.names}:  # it may be a table that is private
                said = said.replace(quoted(cell), "(not shown)")
            raise WorkloadError(f"{path}: condition {number}: {said}") from None
    if not found:
        raise WorkloadError(f"{path} has no condition. Write one below the header.")
    return found


def _whole(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise WorkloadError(
            f"the number of rows must be whole and not negative; it is {quoted(text)}."
        )
    return int(digits)


def _levels(schema: Schema, values: Mapping[str, str]) -> list[Zero]:
    found = []
    for name, text in values.items():
        column = schema.column(name)
        if text:
            code = column.code_of(text)
            if column.grid is None or name in schema.computed or code < 0:
                found += excluded(schema, {name: text})
            else:
                found.append(Zero((name,), np.arange(column.levels) != code, "a condition"))
    return found
