"""`check`: whether a table satisfies its schema."""

from __future__ import annotations

import numpy as np

from admeasure.domain import canonical
from admeasure.schema import Problem, Schema
from admeasure.schema.look import Finding, look
from admeasure.sources.kinds import installed_kind
from admeasure.sources.open import held, open_source
from admeasure.verbs.given import GivenSchema, schema_of


def check(data: str, schema: GivenSchema) -> list[Problem]:
    """Every rule of the schema that the table breaks, rows that a [[zero]] says cannot occur, and
    rows that contradict a [[determines]]; an empty list where it is sound.

    Names columns and rules, never a value. That a rule is broken is knowledge of the table: for
    whoever holds it.

    >>> check("people.csv", "schema.toml")  # doctest: +SKIP
    []
    """
    schema = schema_of(schema).as_read
    kind = installed_kind(data)
    kind.check_readable(schema)
    found = kind.find_problems(data, schema)
    if found:
        return found
    return [*_ruled_out(data, schema), *_contradicted(data, schema)]


def left_out(data: str, schema: GivenSchema) -> list[str]:
    """The columns of the table that the schema leaves out, by its header."""
    schema = schema_of(schema)
    known = {*schema.stored_names, *schema.computed, schema.privacy.unit_column}
    return [n for n in _names(data, schema) if n not in known]


def look_at(data: str, schema: GivenSchema) -> list[Finding]:
    """What the table holds beside what the schema says, with values and how many rows have them.

    NOT PRIVATE: for the terminal of whoever holds the table. Nothing of it is kept or charged.
    """
    schema = schema_of(schema)
    kind, encoding, stored = installed_kind(data), schema.table.encoding, _names(data, schema)
    columns = [c for c in schema.columns if c.name in stored]
    return [f for c in columns for f in look(c, kind.distinct_values(data, c.name, encoding))]


def _names(data: str, schema: Schema) -> list[str]:
    """The columns of the table, by its header."""
    return installed_kind(data).column_names(data, schema.table.encoding)


def _ruled_out(data: str, schema: Schema) -> list[Problem]:
    """Rows in structural zeros."""
    if not schema.zeros:
        return []
    with held(open_source(data, schema)) as source:
        counts = source.counts([zero.columns for zero in schema.zeros])
    return [
        Problem(
            None,
            f"has rows that the {zero.rule} of {', '.join(zero.columns)} rules out",
            f"correct the table, or the {zero.rule}",
        )
        for zero, table in zip(schema.zeros, counts, strict=True)
        if table[zero.mask].any()
    ]


def _contradicted(data: str, schema: Schema) -> list[Problem]:
    """Rows in which a determined column, where the table has it, is not what determines it."""
    stored = _names(data, schema)
    computed = [c for name, c in schema.computed.items() if name in stored]
    if not computed:
        return []
    # Whatever is no level of the function is read too: it contradicts as well.
    read = [c.column.model_copy(update={"other": True, "missing_values": ()}) for c in computed]
    whole = schema.model_copy(
        update={"columns": (*schema.columns, *read), "determines": (), "zero": ()}
    )
    found = []
    with held(open_source(data, whole)) as source:
        for one, column in zip(computed, read, strict=True):
            (cells,) = source.sparse([canonical((*one.of, column.name))])
            codes = dict(zip(cells.columns, cells.codes.T, strict=True))
            expected = one.of_rows(codes)
            missing = one.column.missing_code
            if missing is not None:
                expected = np.where(expected == missing, column.levels - 1, expected)
            if (expected != codes[column.name]).any():
                found.append(
                    Problem(
                        column.name,
                        f"is not what {', '.join(one.of)} determines by the schema in some rows",
                        "correct the table, or the [[determines]]; in a run the function decides",
                    )
                )
    return found
